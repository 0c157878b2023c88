"""Headers of the requests about queue offsets: committed, first, last and by time.

RocketMQ: ``QueryConsumerOffsetRequestHeader.java``, ``SearchOffsetRequestHeader.java`` and their neighbours.
"""

from msgspec import field

from cometmq.wire.headers.fields import Header, Int, Long


class OffsetResponseHeader(Header):
    """A queue offset."""

    offset: Long


class QueryConsumerOffsetHeader(Header):
    """QUERY_CONSUMER_OFFSET: the offset that a group has committed in a queue.

    Attributes:
        set_zero_if_not_found: whether the offset may be 0 for a new queue without a committed offset.
    """

    consumer_group: str
    topic: str
    queue_id: Int
    set_zero_if_not_found: bool | None = None
    broker_name: str | None = field(default=None, name="bname")


class UpdateConsumerOffsetHeader(Header):
    """UPDATE_CONSUMER_OFFSET: commit a group's offset in a queue."""

    consumer_group: str
    topic: str
    queue_id: Int
    commit_offset: Long
    broker_name: str | None = field(default=None, name="bname")


class SearchOffsetHeader(Header):
    """SEARCH_OFFSET_BY_TIMESTAMP: the offset of the message stored at a time.

    Attributes:
        time: ms since the epoch.
        boundary: which of several messages stored at that time: ``LOWER`` (also if absent) or ``UPPER``.
    """

    topic: str
    queue_id: Int
    time: Long = field(name="timestamp")
    boundary: str | None = field(default=None, name="boundaryType")
    broker_name: str | None = field(default=None, name="bname")


class GetMaxOffsetHeader(Header):
    """GET_MAX_OFFSET: the queue offset of the next message to be stored."""

    topic: str
    queue_id: Int
    committed: bool | None = None
    broker_name: str | None = field(default=None, name="bname")


class GetMinOffsetHeader(Header):
    """GET_MIN_OFFSET: the queue offset of the oldest message."""

    topic: str
    queue_id: Int
    broker_name: str | None = field(default=None, name="bname")


class GetEarliestStoreTimeHeader(Header):
    """GET_EARLIEST_MSG_STORETIME: when the oldest message of a queue was stored."""

    topic: str
    queue_id: Int
    broker_name: str | None = field(default=None, name="bname")


class GetEarliestStoreTimeResponseHeader(Header):
    """A store time, ms since the epoch; −1 if the queue is empty."""

    store_time: Long = field(name="timestamp")


class QueryConsumeQueueHeader(Header):
    """QUERY_CONSUME_QUEUE: the entries of a queue from ``queue_offset`` on, ``count`` of them at most."""

    topic: str
    queue_id: Int
    queue_offset: Long = field(name="index")
    count: Int
    consumer_group: str | None = None


class ResetOffsetHeader(Header):
    """INVOKE_BROKER_TO_RESET_OFFSET: set a group's offsets in a topic, or in one queue of it.

    Attributes:
        time: reset to the first message stored at or after it, ms since the epoch; −1 means the end.
        is_force: whether to move forward as well; brokers before 5.0 otherwise only move back.
        queue_id: −1 for all queues.
        offset: for one queue, the new queue offset instead of a time.
    """

    group: str
    topic: str
    time: Long = field(name="timestamp")
    is_force: bool
    queue_id: Int = -1
    offset: Long | None = None


class CloneOffsetHeader(Header):
    """CLONE_GROUP_OFFSET: copy the offsets of one group to another, in one topic or in all topics.

    Attributes:
        offline: whether to include topics to which the source's members no longer subscribe.
    """

    source_group: str = field(name="srcGroup")
    target_group: str = field(name="destGroup")
    topic: str | None = None
    offline: bool = False
