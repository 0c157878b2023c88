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
