"""Which brokers to avoid for a while, by their response times: latency fault tolerance.

A broker that responds slowly receives no messages for a time that grows with its latency. A failure counts as
a latency of 10 s.

================  ====  ====  =====  =====  =====  ======  ======
latency ≥ (ms)    50    100   550    1,800  3,000  5,000   15,000
unavailable (ms)  0     0     2,000  5,000  6,000  10,000  30,000
================  ====  ====  =====  =====  =====  ======  ======

Source: RocketMQ ``client/latency/MQFaultStrategy.java``, ``LatencyFaultToleranceImpl.java``.
"""

from bisect import bisect_right
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from cometmq.cluster.route import next_queue
from cometmq.message import MessageQueue

LATENCY_MS: Final = (50, 100, 550, 1_800, 3_000, 5_000, 15_000)
UNAVAILABLE_MS: Final = (0, 0, 2_000, 5_000, 6_000, 10_000, 30_000)
FAILURE_MS: Final = 10_000
"""The latency as which a failure counts."""
assert len(LATENCY_MS) == len(UNAVAILABLE_MS)


def unavailable_ms(latency_ms: int) -> int:
    """Return for how long a broker that took ``latency_ms`` receives no messages, in ms."""
    step = bisect_right(LATENCY_MS, latency_ms)
    return UNAVAILABLE_MS[step - 1] if step else 0


class BrokerFaults:
    """The brokers to avoid, by name. All times are of one monotonic clock, in ms."""

    def __init__(self) -> None:
        self._away_until: dict[str, int] = {}
        self._refusing: set[str] = set()

    def record_success(self, broker_name: str, latency_ms: int, now_ms: int) -> None:
        """Record that a broker stored a message after ``latency_ms``."""
        self._refusing.discard(broker_name)
        self._avoid(broker_name, unavailable_ms(latency_ms), now_ms)

    def record_failure(self, broker_name: str, now_ms: int, *, refused: bool) -> None:
        """Record that a broker stored no message: it ``refused``, or could not be reached."""
        (self._refusing.add if refused else self._refusing.discard)(broker_name)
        self._avoid(broker_name, unavailable_ms(FAILURE_MS), now_ms)

    def is_available(self, broker_name: str, now_ms: int) -> bool:
        """Return whether a broker may be used at this time."""
        return now_ms >= self._away_until.get(broker_name, now_ms)

    def choose(
        self, queues: Sequence[MessageQueue], turn: int, failed: AbstractSet[str], now_ms: int
    ) -> MessageQueue:
        """Choose a queue by turn: of an available broker, else of one that did not refuse, else any.

        Args:
            failed: brokers to which sending this message has already failed.
        """
        away = {name for name in self._away_until if not self.is_available(name, now_ms)}
        for avoid in (away, self._refusing):
            if (queue := next_queue(queues, turn, avoid | failed)) is not None:
                return queue
        return queues[turn % len(queues)]

    def _avoid(self, broker_name: str, ms: int, now_ms: int) -> None:
        """Avoid a broker for ``ms``; a good response does not shorten a longer time that was set before."""
        if ms:
            self._away_until[broker_name] = max(now_ms + ms, self._away_until.get(broker_name, now_ms))
