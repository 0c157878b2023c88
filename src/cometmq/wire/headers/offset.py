"""Headers of the requests about positions in queues: committed ones, first, last and by time.

RocketMQ: ``QueryConsumerOffsetRequestHeader.java``, ``SearchOffsetRequestHeader.java`` and their neighbours.
"""

from msgspec import field

from cometmq.wire.headers.fields import Header, Int, Long


class OffsetResponseHeader(Header):
    """A queue offset."""

    offset: Long


class QueryConsumerOffsetHeader(Header):
    """QUERY_CONSUMER_OFFSET: where a group stands in a queue.

    Attributes:
        set_zero_if_not_found: whether a group that has no offset yet may get 0 for a young queue.
    """

    consumer_group: str
    topic: str
    queue_id: Int
    set_zero_if_not_found: bool | None = None
    broker_name: str | None = field(default=None, name="bname")


class UpdateConsumerOffsetHeader(Header):
    """UPDATE_CONSUMER_OFFSET: commit where a group stands in a queue."""

    consumer_group: str
    topic: str
    queue_id: Int
    commit_offset: Long
    broker_name: str | None = field(default=None, name="bname")


class SearchOffsetHeader(Header):
    """SEARCH_OFFSET_BY_TIMESTAMP: the message stored at a time.

    Attributes:
        time: ms since the epoch.
        boundary: of several messages stored at that time, ``LOWER`` (also when absent) or ``UPPER``.
    """

    topic: str
    queue_id: Int
    time: Long = field(name="timestamp")
    boundary: str | None = field(default=None, name="boundaryType")
    broker_name: str | None = field(default=None, name="bname")


class GetMaxOffsetHeader(Header):
    """GET_MAX_OFFSET: the queue offset that the next message will get."""

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
    """A store time, ms since the epoch; −1 when the queue is empty."""

    store_time: Long = field(name="timestamp")


class ResetOffsetHeader(Header):
    """INVOKE_BROKER_TO_RESET_OFFSET: let a group go on elsewhere in a topic, or in one queue of it.

    Attributes:
        time: to the first message stored at or after it, ms since the epoch; −1 stands for the end.
        is_force: whether to go forward as well; brokers before 5.0 else only go back.
        queue_id: −1 for all queues.
        offset: for one queue, where to instead of a time.
    """

    group: str
    topic: str
    time: Long = field(name="timestamp")
    is_force: bool
    queue_id: Int = -1
    offset: Long | None = None


class CloneOffsetHeader(Header):
    """CLONE_GROUP_OFFSET: let a group begin where another one stands, in one topic or in all of that one's.

    Attributes:
        offline: whether topics count that the source's members no longer subscribe to.
    """

    source_group: str = field(name="srcGroup")
    target_group: str = field(name="destGroup")
    topic: str | None = None
    offline: bool = False
