"""The checks of requests about popped messages: what their receipt handles name must exist."""

from typing import NamedTuple

from cometmq.broker.refused import Refused
from cometmq.broker.settings import BrokerSettings
from cometmq.broker.state.topics import Topics
from cometmq.format.pop.names import ORDER_REVIVE_QUEUE_ID
from cometmq.store.store import MessageStore
from cometmq.wire.codes import ResponseCode


class QueueEnds(NamedTuple):
    """The first queue offset of a queue, and the one behind its last message."""

    low: int
    high: int


class Handles:
    """Checks what receipt handles name."""

    def __init__(self, store: MessageStore, topics: Topics, settings: BrokerSettings) -> None:
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
        store = self._store
        return QueueEnds(store.min_queue_offset(topic, queue_id), store.max_queue_offset(topic, queue_id))

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
