"""Check points and acknowledgements as messages, and how they are stored until they come due.

Each is a timed message for a queue of the revive topic: a check point comes due a second before its messages
become visible again, an acknowledgement when they do. So a round of the revive finds both side by side. One
that is due by now goes to the revive topic at once. (RocketMQ: PopMessageProcessor.buildCkMsg,
AckMessageProcessor.java.)
"""

from collections.abc import Iterable, Sequence
from typing import Final

from cometmq.broker.requests.pop.handles import HandlePoint
from cometmq.broker.timed.delays import Delays
from cometmq.errors import MessageIllegal
from cometmq.format import properties
from cometmq.format.pop.check_point import CHECK_POINT_TAG, CheckPoint, PopAck
from cometmq.format.properties import TAGS, TIMER_DELIVER_MS, UNIQ_KEY
from cometmq.io.clock import Clock
from cometmq.store.append import NewMessage
from cometmq.store.store import MessageStore

AHEAD_MS: Final = 1_000
"""How much earlier than its messages a check point comes due."""

_PROPERTIES: Final = properties.text_of({TAGS: "%s", UNIQ_KEY: "%s", TIMER_DELIVER_MS: "%d"})


class ReviveLog:
    """Stores check points and acknowledgements.

    Attributes:
        topic: the revive topic.
        host: the broker's address as records hold it.
    """

    def __init__(self, store: MessageStore, delays: Delays, clock: Clock, topic: str, host: bytes) -> None:
        self._store = store
        self._delays = delays
        self._clock = clock
        self.topic = topic
        self.host = host

    def now_ms(self) -> int:
        """Return the time, ms since the epoch."""
        return self._clock.now_ms()

    def check_point(self, check_point: CheckPoint, revive_queue_id: int) -> NewMessage:
        """Return the message to store of a check point. Raises Refused, MessageIllegal."""
        due_ms = check_point.revive_time_ms - AHEAD_MS
        return self._message(check_point, CHECK_POINT_TAG, due_ms, revive_queue_id)

    def ack(self, point: HandlePoint, offsets: Iterable[int]) -> NewMessage:
        """Return the message to store of an acknowledgement. Raises Refused, MessageIllegal.

        Args:
            offsets: the queue offsets of the acknowledged messages of the check point.
        """
        ack = PopAck(*point.key, tuple(offsets))
        return self._message(ack, ack.tag, point.revive_time_ms, point.revive_queue_id)

    def can_wait(self, due_ms: int) -> bool:
        """Check whether what is due at a time, ms since the epoch, can be stored."""
        return self._delays.can_wait(due_ms)

    def _message(self, what: CheckPoint | PopAck, tag: str, due_ms: int, queue_id: int) -> NewMessage:
        """Return the message to store of what comes due at a time, ms since the epoch.

        Raises MessageIllegal, too, if a name in a receipt handle holds a separator of properties.
        """
        now_ms, key = self._clock.now_ms(), what.unique_key
        place = self._delays.place(self.topic, queue_id, due_ms, now_ms)
        if properties.VALUE_END in key:
            raise MessageIllegal(f"the receipt handle holds a separator of properties (\\x02): {key[:200]!r}")
        text = _PROPERTIES % (tag, key, due_ms) + place.added
        return NewMessage(
            *(place.topic, place.queue_id, what.encode(), properties.encode_text(text)),
            *(now_ms, self.host, self.host, tag),
        )

    def append(self, messages: Sequence[NewMessage]) -> None:
        """Store messages, all or none. Raises StoreNotWritable, MessageIllegal."""
        self._store.append(messages)
