"""What the receipt handles of popped messages name: a check point, and a queue, which must exist."""

from typing import Final

import msgspec

from cometmq.broker.refused import Refused
from cometmq.broker.settings_by_subject import PopSettings
from cometmq.broker.state.topics import Topics
from cometmq.format.pop.check_point import PopKey
from cometmq.format.pop.names import ORDER_REVIVE_QUEUE_ID
from cometmq.format.pop.receipt import ReceiptHandle
from cometmq.store.queue.queue_ends import QueueEnds
from cometmq.store.store import MessageStore
from cometmq.wire.codes import ResponseCode

POINTS_KNOWN_MAX: Final = 1_024
"""Most check points that are remembered: those of texts, and what the acknowledgements of one have in common.
Consumers acknowledge many messages of each."""


class HandlePoint(msgspec.Struct, frozen=True, cache_hash=True):
    """A check point, as the receipt handles of its messages name it: there may be none.

    Attributes:
        revive_time_ms: when its messages become visible again, ms since the epoch.
        revive_queue_id: the queue of the revive topic that has it.
    """

    key: PopKey
    revive_time_ms: int
    revive_queue_id: int


def point_of(receipt: ReceiptHandle, topic: str, group: str, queue_id: int) -> HandlePoint:
    """Return the check point that a handle names, in a request for this topic, group and queue."""
    begin_offset, pop_time_ms, invisible_ms, revive_queue_id, _, broker_name, *_ = receipt
    key = PopKey(topic, group, queue_id, begin_offset, pop_time_ms, broker_name)
    return HandlePoint(key, pop_time_ms + invisible_ms, revive_queue_id)


class Handles:
    """Checks what receipt handles name."""

    def __init__(self, store: MessageStore, topics: Topics, settings: PopSettings) -> None:
        self._store = store
        self._topics = topics
        self._revive_queue_count = settings.revive_queue_num

    def ends_of(self, topic: str, queue_id: int) -> QueueEnds:
        """Return the ends of a queue. Raises Refused if there is no such topic or queue."""
        config = self._topics.find(topic)
        if config is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist: create it, or send first")
        if not 0 <= queue_id < config.read_queue_count:
            raise Refused(
                ResponseCode.MESSAGE_ILLEGAL,
                f"queueId[{queue_id}] is illegal, topic:[{topic}] "
                f"topicConfig.readQueueNums:[{config.read_queue_count}]",
            )
        return self._store.ends_of(topic, queue_id)

    def has_revive_queue(self, queue_id: int) -> bool:
        """Check whether check points of this revive queue are revived here."""
        return 0 <= queue_id < self._revive_queue_count

    def is_in_order(self, revive_queue_id: int) -> bool:
        """Check whether a handle is of a pop in order, which has no check point."""
        return revive_queue_id == ORDER_REVIVE_QUEUE_ID


def illegal_offset(topic: str, queue_id: int, offset: int, ends: QueueEnds) -> Refused:
    """Return the refusal of an offset where no message is."""
    return Refused(
        ResponseCode.NO_MESSAGE,
        f"offset is illegal, key:{topic}@{queue_id}, commit:{offset}, store:{ends.low}~{ends.high}",
    )


def none_waits(topic: str, queue_id: int) -> Refused:
    """Return the refusal of a handle whose message is acknowledged, or comes by another handle."""
    return Refused(
        ResponseCode.NO_MESSAGE,
        f"no such message of {topic}@{queue_id} waits: the handle is used up, or replaced, or expired",
    )
