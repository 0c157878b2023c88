"""Headers of the requests of pop consumption.

RocketMQ: ``PopMessageRequestHeader.java``, ``AckMessageRequestHeader.java``,
``ChangeInvisibleTimeRequestHeader.java``, ``NotificationRequestHeader.java`` and their neighbours.
"""

from msgspec import field

from cometmq.wire.headers.fields import Header, Int, Long


class PopHeader(Header):
    """POP_MESSAGE: deliver messages to a member of a group, and hide them from the others for a time.

    Attributes:
        queue_id: the queue, or a negative number for all queues of the topic.
        invisible_time: how long the messages are hidden, ms.
        poll_time: how long the request may be held while there are no messages, ms.
        born_time: when the client sent it, ms since the epoch; 0 for now.
        init_mode: where a group without offset begins: 0 at the first message, 1 at the end.
        exp_type: the type of the filter, ``TAG`` or ``SQL92``.
        exp: the filter's expression.
        order: whether messages of a queue are hidden until those before them are acknowledged.
        attempt_id: names an attempt of an ordered pop: repeated with it, it gets the same messages.
    """

    consumer_group: str
    topic: str
    queue_id: Int
    max_msg_nums: Int
    invisible_time: Long
    poll_time: Long
    born_time: Long
    init_mode: Int
    exp_type: str | None = None
    exp: str | None = None
    order: bool = False
    attempt_id: str | None = None
    broker_name: str | None = field(default=None, name="bname")


class PopResponseHeader(Header):
    """The answer to a pop: where its messages come from, see :mod:`cometmq.format.pop.offset_info`.

    Attributes:
        pop_time: when the messages were popped, ms since the epoch.
        invisible_time: how long they are hidden after that, ms.
        revive_queue_id: the queue of the revive topic that has the check points.
        rest_count: how many messages are left.
    """

    pop_time: Long
    invisible_time: Long
    revive_queue_id: Int = field(name="reviveQid")
    rest_count: Long = field(name="restNum")
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


class AckHeader(Header):
    """ACK_MESSAGE: acknowledge a popped message.

    Attributes:
        topic: the topic of its queue, which may be a retry topic.
        extra_info: its receipt handle: see :mod:`cometmq.format.pop.receipt`.
        offset: its queue offset.
    """

    consumer_group: str
    topic: str
    queue_id: Int
    extra_info: str
    offset: Long
    lite_topic: str | None = None
    broker_name: str | None = field(default=None, name="bname")


class ChangeInvisibleHeader(Header):
    """CHANGE_MESSAGE_INVISIBLETIME: hide a popped message for another time from now on.

    The attributes are those of ``AckHeader``, and:

    Attributes:
        invisible_time: how long to hide it from now on, ms.
        suspend: whether it then returns without counting as consumed once more.
    """

    consumer_group: str
    topic: str
    queue_id: Int
    extra_info: str
    offset: Long
    invisible_time: Long
    lite_topic: str | None = None
    suspend: bool = False
    broker_name: str | None = field(default=None, name="bname")


class ChangeInvisibleResponseHeader(Header):
    """The parts of the message's new receipt handle."""

    pop_time: Long
    invisible_time: Long
    revive_queue_id: Int = field(name="reviveQid")


class PeekHeader(Header):
    """PEEK_MESSAGE: read messages without hiding them."""

    topic: str
    queue_id: Int
    max_msg_nums: Int
    consumer_group: str
    broker_name: str | None = field(default=None, name="bname")


class NotificationHeader(Header):
    """NOTIFICATION: answer once there are messages to pop. The attributes are those of ``PopHeader``."""

    consumer_group: str
    topic: str
    queue_id: Int
    poll_time: Long
    born_time: Long
    order: bool = False
    attempt_id: str | None = None
    exp_type: str | None = None
    exp: str | None = None
    broker_name: str | None = field(default=None, name="bname")


class NotificationResponseHeader(Header):
    """Whether there are messages, and whether the request was not held because too many are."""

    has_message: bool = field(name="hasMsg")
    polling_full: bool = False


class PollingInfoHeader(Header):
    """POLLING_INFO: count the held pops of a queue."""

    consumer_group: str
    topic: str
    queue_id: Int
    broker_name: str | None = field(default=None, name="bname")


class PollingInfoResponseHeader(Header):
    """The number of held pops."""

    polling_count: Int = field(name="pollingNum")
