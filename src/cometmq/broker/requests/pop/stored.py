"""Check points and acknowledgements as messages, and how they are stored until they come due.

Each is a timed message for a queue of the revive topic: a check point comes due a second before its messages
become visible again, an acknowledgement when they do. So a round of the revive finds both side by side. One
that is due by now goes to the revive topic at once. (RocketMQ: PopMessageProcessor.buildCkMsg,
AckMessageProcessor.java.)
"""

from collections.abc import Sequence
from typing import Final

from cometmq.broker.timed.delays import Delays
from cometmq.format import properties
from cometmq.format.pop.check_point import CHECK_POINT_TAG, CheckPoint, PopAck
from cometmq.format.properties import TAGS, TIMER_DELIVER_MS, UNIQ_KEY
from cometmq.io.clock import Clock
from cometmq.store.append import NewMessage
from cometmq.store.store import MessageStore

AHEAD_MS: Final = 1_000
"""How much earlier than its messages a check point comes due."""


def check_point_message(
    check_point: CheckPoint, revive_topic: str, revive_queue_id: int, host: bytes, now_ms: int
) -> NewMessage:
    """Return the message of a check point, for the revive topic.

    Args:
        host: the broker's address as records hold it.
    """
    named = {
        TAGS: CHECK_POINT_TAG,
        UNIQ_KEY: check_point.unique_key,
        TIMER_DELIVER_MS: str(check_point.revive_time_ms - AHEAD_MS),
    }
    return NewMessage(
        *(revive_topic, revive_queue_id, check_point.encode(), properties.encode(named)),
        *(now_ms, host, host, CHECK_POINT_TAG),
    )


def ack_message(
    ack: PopAck, revive_time_ms: int, revive_topic: str, revive_queue_id: int, host: bytes, now_ms: int
) -> NewMessage:
    """Return the message of an acknowledgement, for the revive topic.

    Args:
        revive_time_ms: when the messages of its check point become visible again.
        host: the broker's address as records hold it.

    Raises MessageIllegal if the broker's name in the receipt handle holds a separator of properties.
    """
    named = {TAGS: ack.tag, UNIQ_KEY: ack.unique_key, TIMER_DELIVER_MS: str(revive_time_ms)}
    return NewMessage(
        *(revive_topic, revive_queue_id, ack.encode(), properties.encode(named)),
        *(now_ms, host, host, ack.tag),
    )


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
        now_ms = self._clock.now_ms()
        message = check_point_message(check_point, self.topic, revive_queue_id, self.host, now_ms)
        return self._delays.until(message, check_point.revive_time_ms - AHEAD_MS)

    def ack(self, ack: PopAck, revive_time_ms: int, revive_queue_id: int) -> NewMessage:
        """Return the message to store of an acknowledgement. Raises Refused, MessageIllegal."""
        now_ms = self._clock.now_ms()
        message = ack_message(ack, revive_time_ms, self.topic, revive_queue_id, self.host, now_ms)
        return self._delays.until(message, revive_time_ms)

    def append(self, messages: Sequence[NewMessage]) -> None:
        """Store messages, all or none. Raises StoreNotWritable, MessageIllegal."""
        self._store.append(messages)
