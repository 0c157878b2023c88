"""Check points and acknowledgements as messages, and how they are stored until they come due.

Each is a timed message for a queue of the revive topic: a check point comes due a second before its messages
become visible again, an acknowledgement when they do. So a round of the revive finds both side by side. One
that is due by now goes to the revive topic at once. (RocketMQ: PopMessageProcessor.buildCkMsg,
AckMessageProcessor.java.)
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from cometmq.broker.state.pop.handles import POINTS_KNOWN_MAX, HandlePoint
from cometmq.broker.timed.delays import Delays
from cometmq.cluster.pop.settled import SettledPoints
from cometmq.errors import MessageIllegal
from cometmq.format import properties
from cometmq.format.pop.check_point import (
    ACK_TAG,
    BATCH_ACK_TAG,
    CHECK_POINT_TAG,
    CheckPoint,
    PopKey,
    encode_ack,
    unique_key_formats,
)
from cometmq.format.properties import TAGS, TIMER_DELIVER_MS, UNIQ_KEY
from cometmq.format.timer.log import TIMER_TOPIC
from cometmq.io.clock import Clock
from cometmq.store.append import NewMessage
from cometmq.store.store import MessageStore

AHEAD_MS: Final = 1_000
"""How much earlier than its messages a check point comes due."""

NAMES_KNOWN_MAX: Final = 1_024
"""Most groups with a topic of which is remembered how properties name them …"""
NAMES_LENGTH_MAX: Final = 512
"""… and most characters of group and broker name of check points of which anything is remembered: longer ones
would fill the memory."""

_TAGGED: Final = {tag: properties.encode({TAGS: tag}) for tag in (CHECK_POINT_TAG, ACK_TAG, BATCH_ACK_TAG)}
_BEFORE_KEY, _BEHIND_KEY = properties.text_of({UNIQ_KEY: "%s", TIMER_DELIVER_MS: "%d"}).split("%s")


_Around: TypeAlias = tuple[str, int, bytes, bytes]
"""The topic and queue of a message, and its properties before and behind the offset in its unique key.

Before them is the tag: see ``_TAGGED``.
"""


class ReviveMessage(NamedTuple):
    """A check point or an acknowledgement, and the message by which it is stored.

    Attributes:
        offsets: the queue offsets of its messages.
    """

    message: NewMessage
    point: HandlePoint
    offsets: Sequence[int]


class ReviveLog:
    """Stores check points and acknowledgements.

    Attributes:
        settled: what of them need not be delivered when it comes due.
        topic: the revive topic.
        broker_name: the broker's.
        host: the broker's address as records hold it.
    """

    def __init__(
        self, store: MessageStore, delays: Delays, clock: Clock, topic: str, host: bytes, broker_name: str
    ) -> None:
        self._store = store
        self._delays = delays
        self._clock = clock
        self._remembered = lru_cache(POINTS_KNOWN_MAX)(self._around_acks)
        self.settled = SettledPoints[HandlePoint]()
        self.topic = topic
        self.broker_name = broker_name
        self.host = host

    def now_ms(self) -> int:
        """Return the time, ms since the epoch."""
        return self._clock.now_ms()

    def check_point(self, check_point: CheckPoint, revive_queue_id: int) -> ReviveMessage:
        """Return what is to be stored of a check point. Raises Refused, MessageIllegal."""
        now_ms, key, revive_time_ms = self._clock.now_ms(), check_point.key, check_point.revive_time_ms
        due_ms = revive_time_ms - AHEAD_MS
        waits = self._delays.waits(due_ms, now_ms)
        around = self._around(key, CHECK_POINT_TAG, due_ms, revive_queue_id, waits)
        message = self._message(around, CHECK_POINT_TAG, key.begin_offset, check_point.encode(), now_ms)
        point = HandlePoint(key, revive_time_ms, revive_queue_id)
        return ReviveMessage(message, point, check_point.offsets)

    def ack(self, point: HandlePoint, offsets: Sequence[int]) -> ReviveMessage:
        """Return what is to be stored of an acknowledgement. Raises Refused, MessageIllegal.

        Args:
            offsets: the queue offsets of the acknowledged messages of the check point.
        """
        now_ms = self._clock.now_ms()
        waits = self._delays.waits(point.revive_time_ms, now_ms)
        around, members = (self._remembered if _is_short(point.key) else self._around_acks)(point, waits)
        message = self._message(around, *encode_ack(offsets, members), now_ms)
        return ReviveMessage(message, point, offsets)

    def can_wait(self, due_ms: int) -> bool:
        """Check whether what is due at a time, ms since the epoch, can be stored."""
        return self._delays.can_wait(due_ms)

    def _message(self, around: _Around, tag: str, offset: int, body: bytes, now_ms: int) -> NewMessage:
        topic, queue_id, before, behind = around
        stored = properties.checked(b"%b%b%d%b" % (_TAGGED[tag], before, offset, behind))
        what = topic, queue_id, body, stored, now_ms, self.host, self.host, tag
        return tuple.__new__(NewMessage, (*what, 0, 0, 0, 0))  # NewMessage(*what) in half its time

    def _around_acks(self, point: HandlePoint, waits: bool) -> tuple[_Around, bytes]:
        """Return what acknowledgements of a check point have in common, the last one being of the body."""
        key = point.key
        around = self._around(key, ACK_TAG, point.revive_time_ms, point.revive_queue_id, waits)
        return around, key.ack_members()

    def _around(self, key: PopKey, tag: str, due_ms: int, queue_id: int, waits: bool) -> _Around:
        """Return all but the offset of what comes due at a time, ms since the epoch.

        Args:
            waits: whether it waits until then.

        Raises MessageIllegal if a name in a receipt handle holds a separator of properties.
        """
        formats_of = _formats_of if _is_short(key) else _formats_of.__wrapped__
        before, behind = formats_of(key.topic, key.group, key.broker_name, tag)
        topic, added = self.topic, ""
        if waits:
            topic, queue_id, added = self._delays.place(topic, queue_id, due_ms)
        return topic, queue_id, before % key.queue_id, behind % (key.pop_time_ms, due_ms) + added.encode()

    def revived(
        self, check_point: CheckPoint, revive_queue_id: int, offsets: AbstractSet[int] = frozenset()
    ) -> AbstractSet[int]:
        """Mark a check point as revived: by its handles nothing can be acknowledged any more.

        Returns which of its messages were not acknowledged meanwhile, of those at some queue offsets.
        """
        point = HandlePoint(check_point.key, check_point.revive_time_ms, revive_queue_id)
        left = self.settled.left(point)
        self.settled.close(point)
        return offsets if left is None else offsets & left

    def append(self, messages: Sequence[ReviveMessage]) -> None:
        """Store check points and acknowledgements, all or none. Raises StoreNotWritable, MessageIllegal."""
        appended = self._store.append([one.message for one in messages])
        settled = self.settled
        for (message, point, offsets), (place, *_) in zip(messages, appended, strict=True):
            if message.tags != CHECK_POINT_TAG:
                settled.acknowledge(point, offsets, place)
            elif message.topic == TIMER_TOPIC:
                settled.open(point, offsets, place)
            else:  # it is in the revive topic
                settled.close(point, frozenset(offsets))


def _is_short(key: PopKey) -> bool:
    return len(key.group) + len(key.broker_name) <= NAMES_LENGTH_MAX


@lru_cache(NAMES_KNOWN_MAX)
def _formats_of(topic: str, group: str, broker_name: str, tag: str) -> tuple[bytes, bytes]:
    """Return the properties before and behind the offset in the unique key, behind their tag, as formats.

    The first is one of the queue id, the second of the pop time and when it comes due. Raises MessageIllegal
    if a name in a receipt handle holds a separator of properties.
    """
    before, behind = unique_key_formats(topic, group, broker_name, tag)
    if properties.VALUE_END in before or properties.VALUE_END in behind:
        raise MessageIllegal(
            f"the receipt handle holds a separator of properties (\\x02): {f'{before}{behind}'[:200]!r}"
        )
    before, behind = _BEFORE_KEY + before, behind + _BEHIND_KEY
    return before.encode("utf-8", "replace"), behind.encode("utf-8", "replace")
