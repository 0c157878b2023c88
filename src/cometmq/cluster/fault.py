"""Which brokers to leave alone for a while, by how they answered: latency fault tolerance.

A broker that answers slowly gets no messages for a time that grows with its latency. One that fails counts
as one that took 10 s.

==============  ====  ====  =====  =====  =====  ======  ======
latency ≥ (ms)  50    100   550    1,800  3,000  5,000   15,000
left alone, ms  0     0     2,000  5,000  6,000  10,000  30,000
==============  ====  ====  =====  =====  =====  ======  ======

Source: RocketMQ ``client/latency/MQFaultStrategy.java``, ``LatencyFaultToleranceImpl.java``.
"""

from bisect import bisect_right
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from cometmq.cluster.route import next_queue
from cometmq.message import MessageQueue

LATENCY_MS: Final = (50, 100, 550, 1_800, 3_000, 5_000, 15_000)
LEFT_ALONE_MS: Final = (0, 0, 2_000, 5_000, 6_000, 10_000, 30_000)
FAILURE_MS: Final = 10_000
"""The latency that a failure counts as."""
assert len(LATENCY_MS) == len(LEFT_ALONE_MS)


def left_alone_ms(latency_ms: int) -> int:
    """Give for how long a broker that took ``latency_ms`` gets no messages."""
    step = bisect_right(LATENCY_MS, latency_ms)
    return LEFT_ALONE_MS[step - 1] if step else 0


class Faults:
    """What is known of the brokers, by name. Times are of one clock that never goes back, ms."""

    def __init__(self) -> None:
        self._away_until: dict[str, int] = {}
        self._refusing: set[str] = set()

    def answered(self, broker_name: str, latency_ms: int, now_ms: int) -> None:
        """Note that a broker took a message."""
        self._refusing.discard(broker_name)
        self._leave_alone(broker_name, left_alone_ms(latency_ms), now_ms)

    def failed(self, broker_name: str, now_ms: int, *, refused: bool) -> None:
        """Note that a broker took no message: it ``refused``, or it could not be talked to."""
        (self._refusing.add if refused else self._refusing.discard)(broker_name)
        self._leave_alone(broker_name, left_alone_ms(FAILURE_MS), now_ms)

    def is_available(self, broker_name: str, now_ms: int) -> bool:
        """Whether a broker is not left alone at this time."""
        return now_ms >= self._away_until.get(broker_name, now_ms)

    def choose(
        self, queues: Sequence[MessageQueue], turn: int, failed: AbstractSet[str], now_ms: int
    ) -> MessageQueue:
        """Give the queue whose turn it is: of an available broker, else of one that did not refuse, else any.

        Args:
            failed: brokers that this message was sent to in vain.
        """
        away = {name for name in self._away_until if not self.is_available(name, now_ms)}
        for avoid in (away, self._refusing):
            if (queue := next_queue(queues, turn, avoid | failed)) is not None:
                return queue
        return queues[turn % len(queues)]

    def _leave_alone(self, broker_name: str, ms: int, now_ms: int) -> None:
        """A good answer takes back nothing: the time that was set before passes first."""
        if ms:
            self._away_until[broker_name] = max(now_ms + ms, self._away_until.get(broker_name, now_ms))
