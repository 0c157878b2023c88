"""Operators' and slaves' requests about timed messages. (RocketMQ: AdminBrokerProcessor.java.)"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from cometmq.broker.handlers import Handlers
from cometmq.broker.large_answers import encoded, with_body
from cometmq.broker.reads import Reads
from cometmq.broker.refused import Refused
from cometmq.broker.state.topics import Topics
from cometmq.broker.timed.timed_messages import TimedMessages
from cometmq.format.java.java_hash import java_hash
from cometmq.format.timer.checkpoint import FIELDS_SIZE
from cometmq.io.clock import Clock
from cometmq.net.server import Session
from cometmq.store.reading import Reading, ThreadStep
from cometmq.wire.bodies import DataVersion
from cometmq.wire.bodies.stats import TimedCount, TimedCounts
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import NoFields

COUNTED_MAX: Final = 100_000
"""Most timed messages that are counted by topic: a thread reads each from the timer log."""


class TimerAdmin:
    """Answers requests about the timer."""

    def __init__(self, timed: TimedMessages, topics: Topics, reads: Reads, clock: Clock) -> None:
        self._timed = timed
        self._topics = topics
        self._reads = reads
        self._clock = clock

    def handlers(self) -> Handlers:
        """Return the handler of each request code."""
        return {
            RequestCode.GET_TIMER_CHECK_POINT: self.checkpoint,
            RequestCode.GET_TIMER_METRICS: self.counts,
        }

    def checkpoint(self, _session: Session, command: Command, _header: NoFields) -> Command:
        """GET_TIMER_CHECK_POINT: the fields of the file as they were saved last."""
        return response(command, body=self._timed.checkpoint.pack()[:FIELDS_SIZE])

    def counts(self, session: Session, command: Command, _header: NoFields) -> Command | None:
        """GET_TIMER_METRICS: the number of timed messages that wait, by topic."""
        if (count := self._timed.count) > COUNTED_MAX:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"{count} timed messages wait, at most {COUNTED_MAX} are counted by topic",
            )
        return self._reads.answer(session, command, self._counts(), partial(with_body, command))

    def _counts(self) -> Reading[bytes]:
        """Count messages by the hash of their topic, which is all that the timer log has of it."""
        names, now_ms = [topic.topic for topic in self._topics], self._clock.now_ms()
        found: dict[str, int] = yield ThreadStep(partial(_by_name, self._timed.counting(), names))
        counts = {name: TimedCount(count, now_ms) for name, count in found.items()}
        checkpoint = self._timed.checkpoint
        version = DataVersion(checkpoint.counter, checkpoint.state_version, checkpoint.timestamp)
        return (yield from encoded(TimedCounts(counts, version), len(counts)))


def _by_name(count: Callable[[], Counter[int]], names: Sequence[str]) -> dict[str, int]:
    """Return the counts of topics by their names; for any thread."""
    found = count()
    return {name: found[number] for name in names if (number := java_hash(name)) in found}
