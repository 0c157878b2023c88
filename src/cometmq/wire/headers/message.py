"""Headers of the requests that send, pull and look up messages.

RocketMQ: ``SendMessageRequestHeader.java``, ``SendMessageRequestHeaderV2.java``,
``PullMessageRequestHeader.java``, ``QueryMessageRequestHeader.java`` and their neighbours.
"""

from typing import Final

from msgspec import field

from cometmq.wire.headers.fields import Header, Int, Long

DEFAULT_TOPIC: Final = "TBW102"
"""The topic whose settings a new topic copies; its route lists the brokers that create topics for sends."""
DEFAULT_TOPIC_QUEUES: Final = 4
"""Most queues that clients request for a new topic."""


class SendHeader(Header):
    """SEND_MESSAGE: one message, which is the body.

    Attributes:
        default_topic: the topic whose settings a new topic copies (``TBW102``).
        default_topic_queue_count: how many queues the producer requests for a new topic.
        queue_id: the queue, or a negative number for any queue.
        sys_flag: RocketMQ's own bits: compression, transaction state.
        born_time: when the producer created the message, ms since the epoch.
        flag: the application's own number.
        properties: the properties string: see :mod:`cometmq.format.properties`.
        reconsume_times: how often a retried message has been consumed.
        max_reconsume_times: the number of retries after which the message becomes a dead letter.
        batch: whether the body is a batch: see :mod:`cometmq.wire.batch`.
    """

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_count: Int = field(name="defaultTopicQueueNums")
    queue_id: Int
    sys_flag: Int
    born_time: Long = field(name="bornTimestamp")
    flag: Int
    properties: str = ""
    reconsume_times: Int = 0
    unit_mode: bool = False
    max_reconsume_times: Int | None = None
    batch: bool = False
    broker_name: str | None = field(default=None, name="bname")


class SendHeaderV2(SendHeader):
    """SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE: the same fields under one-letter names."""

    producer_group: str = field(name="a")
    topic: str = field(name="b")
    default_topic: str = field(name="c")
    default_topic_queue_count: Int = field(name="d")
    queue_id: Int = field(name="e")
    sys_flag: Int = field(name="f")
    born_time: Long = field(name="g")
    flag: Int = field(name="h")
    properties: str = field(default="", name="i")
    reconsume_times: Int = field(default=0, name="j")
    unit_mode: bool = field(default=False, name="k")
    max_reconsume_times: Int | None = field(default=None, name="l")
    batch: bool = field(default=False, name="m")
    broker_name: str | None = field(default=None, name="n")


class PushReplyHeader(Header):
    """PUSH_REPLY_MESSAGE_TO_CLIENT: a broker pushes a reply, the body, to the producer of the request.

    The attributes are those of ``SendHeader``, and the origin of the reply:

    Attributes:
        born_host: ``ip:port`` of the replying client.
        store_host: ``ip:port`` of the broker.
        store_time: when the broker received the reply, ms since the epoch.
    """

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_count: Int = field(name="defaultTopicQueueNums")
    queue_id: Int
    sys_flag: Int
    born_time: Long = field(name="bornTimestamp")
    flag: Int
    born_host: str
    store_host: str
    store_time: Long = field(name="storeTimestamp")
    properties: str = ""
    reconsume_times: Int = 0
    unit_mode: bool = False


class SendResponseHeader(Header):
    """Where a sent message was stored.

    Attributes:
        message_id: the offset id; of a batch, the ids of its messages joined by commas.
        queue_offset: of the message, or of the first one in a batch.
        transaction_id: the message's unique key.
        recall_handle: identifies a timed message for recalling it: see :mod:`cometmq.wire.recall_handle`.
        region: the broker's region.
        trace_on: whether the client should trace messages.
    """

    message_id: str = field(name="msgId")
    queue_id: Int
    queue_offset: Long
    transaction_id: str | None = None
    batch_unique_id: str | None = field(default=None, name="batchUniqId")
    recall_handle: str | None = None
    region: str | None = field(default=None, name="MSG_REGION")
    trace_on: bool | None = field(default=None, name="TRACE_ON")


class RecallHeader(Header):
    """RECALL_MESSAGE: recall a timed message before it is delivered.

    Attributes:
        topic: the topic to which the message would be delivered.
        recall_handle: the handle in the response to its send.
    """

    topic: str
    recall_handle: str
    producer_group: str | None = None
    broker_name: str | None = field(default=None, name="bname")


class RecallResponseHeader(Header):
    """The unique key of the message that was recalled."""

    message_id: str = field(name="msgId")


class PullHeader(Header):
    """PULL_MESSAGE and LITE_PULL_MESSAGE.

    Attributes:
        sys_flag: see :class:`PullFlag`.
        commit_offset: the queue offset to commit, if the flag says so.
        suspend_timeout_ms: how long the broker may hold the request if there is nothing new.
        subscription: the filter expression, if the flag says that it is included.
        sub_version: the subscription's version, ms since the epoch.
        expression_type: ``TAG`` (also if absent) or ``SQL92``.
        max_message_bytes: most bytes of records that the client accepts.
    """

    consumer_group: str
    topic: str
    queue_id: Int
    queue_offset: Long
    max_message_count: Int = field(name="maxMsgNums")
    sys_flag: Int
    commit_offset: Long
    suspend_timeout_ms: Long = field(name="suspendTimeoutMillis")
    subscription: str | None = None
    sub_version: Long = 0
    expression_type: str | None = None
    max_message_bytes: Int | None = field(default=None, name="maxMsgBytes")
    broker_name: str | None = field(default=None, name="bname")


class PullFlag:
    """The bits of a pull's ``sys_flag``. RocketMQ: ``PullSysFlag.java``."""

    COMMIT_OFFSET = 1
    SUSPEND = 2
    SUBSCRIPTION = 4


class PullResponseHeader(Header):
    """The offsets of a pull's result; the records are the body.

    Attributes:
        suggested_broker_id: which broker of the group to pull from next: 0 is the master.
        next_offset: the queue offset to pull next.
    """

    suggested_broker_id: Long = field(name="suggestWhichBrokerId")
    next_offset: Long = field(name="nextBeginOffset")
    min_offset: Long
    max_offset: Long
    offset_delta: Long | None = None
    topic_sys_flag: Int | None = None
    group_sys_flag: Int | None = None
    forbidden_type: Int | None = None


class QueryMessageHeader(Header):
    """QUERY_MESSAGE: look up messages by key, or by unique key.

    Attributes:
        begin_time: earliest store time, ms since the epoch.
        end_time: latest store time, ms since the epoch, included.
        is_unique_key: whether ``key`` is a message's unique id, not one of its keys.
    """

    topic: str
    key: str
    max_count: Int = field(name="maxNum")
    begin_time: Long = field(name="beginTimestamp")
    end_time: Long = field(name="endTimestamp")
    is_unique_key: bool = field(default=False, name="_UNIQUE_KEY_QUERY")


class QueryMessageResponseHeader(Header):
    """The end of the index; the records are the body."""

    index_last_update_time: Long = field(name="indexLastUpdateTimestamp")
    index_last_update_offset: Long = field(name="indexLastUpdatePhyoffset")


class ViewMessageHeader(Header):
    """VIEW_MESSAGE_BY_ID: look up the record at a physical offset; it is the body of the response."""

    physical_offset: Long = field(name="offset")
    topic: str | None = None


class SendBackHeader(Header):
    """CONSUMER_SEND_MSG_BACK: a consumer failed to handle a message: the broker is to redeliver it.

    Attributes:
        physical_offset: of the message's record.
        delay_level: how long to wait; 0 lets the broker choose, a negative level means dead letter at once.
    """

    physical_offset: Long = field(name="offset")
    group: str
    delay_level: Int
    origin_message_id: str | None = field(default=None, name="originMsgId")
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int | None = None


class EndTransactionHeader(Header):
    """END_TRANSACTION: commit or roll back a half message.

    Attributes:
        half_offset: of the half message, in the half topic's queue.
        physical_offset: of the half message's record.
        decision: 0 unknown, 8 commit, 12 roll back: the transaction bits of ``sys_flag``.
        from_check: whether this replies to CHECK_TRANSACTION_STATE.
        message_id: the message's unique key.
    """

    producer_group: str
    half_offset: Long = field(name="tranStateTableOffset")
    physical_offset: Long = field(name="commitLogOffset")
    decision: Int = field(name="commitOrRollback")
    message_id: str = field(name="msgId")
    from_check: bool = field(default=False, name="fromTransactionCheck")
    transaction_id: str | None = None
    topic: str | None = None


class CheckTransactionStateHeader(Header):
    """CHECK_TRANSACTION_STATE: a broker asks a producer for the state of a half message, the body."""

    half_offset: Long = field(name="tranStateTableOffset")
    physical_offset: Long = field(name="commitLogOffset")
    topic: str | None = None
    message_id: str | None = field(default=None, name="msgId")
    transaction_id: str | None = None
    offset_message_id: str | None = field(default=None, name="offsetMsgId")
    broker_name: str | None = field(default=None, name="bname")
