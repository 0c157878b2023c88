"""Bodies with the state of topics, groups and servers, for operators.

RocketMQ: ``TopicStatsTable.java``, ``ConsumeStats.java``, ``ResetOffsetBody.java``, ``KVTable.java``,
``QueryConsumeQueueResponseBody.java``, ``ConsumeStatsList.java``, ``QueryConsumeTimeSpanBody.java``,
``GetConsumerStatusBody.java``, ``HARuntimeInfo.java`` and others.
"""

import re
from collections.abc import Iterable
from typing import Final

from msgspec import field

from cometmq.format.java import fastjson
from cometmq.message import MessageQueue
from cometmq.wire.bodies.body import Body, decode
from cometmq.wire.bodies.topic import DataVersion


class TopicOffset(Body):
    """The offsets of a queue's ends; the time is that of its last message, ms since the epoch, or 0."""

    last_update_time: int = field(default=0, name="lastUpdateTimestamp")
    max_offset: int = 0
    min_offset: int = 0


class TopicStats(Body):
    """GET_TOPIC_STATS_INFO; ``put_tps`` is in messages per second."""

    offsets: dict[MessageQueue, TopicOffset] = field(default_factory=dict, name="offsetTable")
    put_tps: float = field(default=0.0, name="topicPutTps")


_TABLE: Final = b'{"offsetTable":{'
_ENTRY: Final = re.compile(
    rb'\{"brokerName":"([ !#-\[\]-~]*)","queueId":(\d{1,9}),"topic":"([ !#-\[\]-~]*)"\}:'
    rb'\{"lastUpdateTimestamp":(\d{1,18}),"maxOffset":(\d{1,18}),"minOffset":(\d{1,18})\}(?:,|(?=\}))'
)


def encode_topic_stats(
    topic: str, broker_name: str, queues: Iterable[tuple[int, int, int]], put_tps: float
) -> bytes:
    """Encode the body of an answer to GET_TOPIC_STATS_INFO, as ``encode`` does, in a fraction of the time.

    Args:
        queues: of queues 0, 1 and so on: ``min_offset``, ``max_offset`` and ``last_update_time``.
    """
    before = f'{{"brokerName":{fastjson.quoted(broker_name)},"queueId":'
    between = f',"topic":{fastjson.quoted(topic)}}}:{{"lastUpdateTimestamp":'
    entries = ",".join(
        [
            f'{before}{queue_id}{between}{time},"maxOffset":{high},"minOffset":{low}}}'
            for queue_id, (low, high, time) in enumerate(queues)
        ]
    )
    return f'{_TABLE.decode()}{entries}}},"topicPutTps":{fastjson.dumps(put_tps)}}}'.encode()


def decode_topic_stats(data: bytes) -> TopicStats:
    """Decode the body of an answer to GET_TOPIC_STATS_INFO, as ``decode`` does, a tenth of the time.

    Topics have thousands of queues. So entries that are written as brokers write them are taken out by a
    pattern, and only what is left is read leniently. Raises FormatError like ``decode``.
    """
    if not data.startswith(_TABLE):
        return decode(TopicStats, data)
    offsets: dict[MessageQueue, TopicOffset] = {}
    position = len(_TABLE)
    while entry := _ENTRY.match(data, position):
        broker_name, queue_id, topic, time, end, first = entry.groups()
        queue = MessageQueue(topic.decode(), broker_name.decode(), int(queue_id))
        offsets[queue] = TopicOffset(int(time), int(end), int(first))
        position = entry.end()
    left = decode(TopicStats, _TABLE + data[position:])
    return TopicStats(offsets | left.offsets, left.put_tps)


NOT_KNOWN: Final = -1
"""As ``ConsumeOffset.begin``: the group has committed nothing, and where it begins is not known."""


class ConsumeOffset(Body):
    """The progress of a group in a queue.

    Attributes:
        consumer_offset: the committed offset; else where the group begins, 0 if that is not known.
        last_time: store time of the last consumed message, ms since the epoch, or 0.
        pull_offset: the queue offset that the group will pull next.
        popped: messages before ``consumer_offset`` that pops have handed out, and that are neither
            acknowledged nor returned; None for none, and from a Java broker, which has no such field.
        begin: where the group begins, if it has committed nothing in the queue; ``NOT_KNOWN`` too. None if it
            has committed, and from a Java broker.
    """

    broker_offset: int = 0
    consumer_offset: int = 0
    last_time: int = field(default=0, name="lastTimestamp")
    pull_offset: int = 0
    popped: int | None = field(default=None, name="popInflight")
    begin: int | None = field(default=None, name="beginOffset")


class ConsumeStats(Body):
    """GET_CONSUME_STATS; ``consume_tps`` is in messages per second."""

    consume_tps: float = 0.0
    offsets: dict[MessageQueue, ConsumeOffset] = field(default_factory=dict, name="offsetTable")


class BrokerConsumeStats(Body):
    """GET_BROKER_CONSUME_STATS: for each group its progress in each topic.

    Attributes:
        total_lag: messages that the groups have not consumed.
        total_in_flight: messages that they have pulled and not consumed.
    """

    broker_addr: str
    groups: list[dict[str, list[ConsumeStats]]] = field(default_factory=list, name="consumeStatsList")
    total_lag: int = field(default=0, name="totalDiff")
    total_in_flight: int = field(default=0, name="totalInflightDiff")


class TimeSpan(Body):
    """The store times of a queue's messages, ms since the epoch, -1 for none.

    Attributes:
        consumed_time: of the last message that a group has consumed; else of the first one.
        waited_ms: for how long the next one has waited.
    """

    queue: MessageQueue = field(name="messageQueue")
    min_time: int = field(default=0, name="minTimeStamp")
    max_time: int = field(default=0, name="maxTimeStamp")
    consumed_time: int = field(default=0, name="consumeTimeStamp")
    waited_ms: int = field(default=0, name="delayTime")


class TimeSpans(Body):
    """QUERY_CONSUME_TIME_SPAN: by queue of a topic."""

    spans: list[TimeSpan] = field(default_factory=list, name="consumeTimeSpanSet")


class CorrectionOffsets(Body):
    """QUERY_CORRECTION_OFFSET: the offset by queue id to which all groups have consumed."""

    offsets: dict[int, int] = field(default_factory=dict, name="correctionOffsets")


class ConsumerStatus(Body):
    """The offsets that members of a group have consumed to.

    Attributes:
        members: by client id: INVOKE_BROKER_TO_GET_CONSUMER_STATUS.
        offsets: of one member: GET_CONSUMER_STATUS_FROM_CLIENT.
    """

    members: dict[str, dict[MessageQueue, int]] = field(default_factory=dict, name="consumerTable")
    offsets: dict[MessageQueue, int] = field(default_factory=dict, name="messageQueueTable")


class SlaveStatus(Body):
    """A slave's own state of the replication: zeros on a master. Times in ms since the epoch.

    Attributes:
        master_address: of the master's HA port, if it is known.
    """

    master_address: str | None = field(default=None, name="masterAddr")
    last_read_time: int = field(default=0, name="lastReadTimestamp")
    last_write_time: int = field(default=0, name="lastWriteTimestamp")
    master_flush_offset: int = 0
    max_offset: int = 0
    bytes_per_second: int = field(default=0, name="transferredByteInSecond")


class SlaveConnection(Body):
    """A slave that is connected to a master.

    Attributes:
        behind: bytes of the log that it has not acknowledged.
        acked_offset: the end of its log by its last report.
        sent_offset: the log's offset up to which was sent.
    """

    address: str = field(name="addr")
    behind: int = field(name="diff")
    is_in_sync: bool = field(name="inSync")
    acked_offset: int = field(name="slaveAckOffset")
    sent_offset: int = field(name="transferFromWhere")
    bytes_per_second: int = field(default=0, name="transferredByteInSecond")


def seconds_behind(behind: int, bytes_per_second: int) -> float | None:
    """Return how long so many bytes take at a rate, in s; None if nothing is sent of them, or for nonsense.

    While as much is sent to a slave as is stored this is how old the first byte is that it lacks.
    """
    if not behind:
        return 0.0
    try:
        return behind / bytes_per_second if bytes_per_second else None
    except OverflowError:  # a broker may answer numbers of hundreds of digits
        return None


class ReplicationStatus(Body):
    """GET_BROKER_HA_STATUS.

    Attributes:
        max_offset: end of the broker's CommitLog.
        slave: its own state, if it is a slave.
        in_sync_slaves: how many of ``connections`` are in sync.
        master: whether it is a master.
    """

    max_offset: int = field(name="masterCommitLogMaxOffset")
    slave: SlaveStatus = field(default_factory=SlaveStatus, name="haClientRuntimeInfo")
    connections: list[SlaveConnection] = field(default_factory=list, name="haConnectionInfo")
    in_sync_slaves: int = field(default=0, name="inSyncSlaveNums")
    master: bool = True


class QueueWrites(Body):
    """CHECK_ROCKSDB_CQ_WRITE_PROGRESS: the result of a comparison; the status 0 is for no difference."""

    result: str = field(name="checkResult")
    status: int = field(default=0, name="checkStatus")


class TimedCount(Body):
    """The number of timed messages that wait for a topic; the time is when they were counted."""

    count: int
    time: int = field(name="timeStamp")


class TimedCounts(Body):
    """GET_TIMER_METRICS: by topic."""

    counts: dict[str, TimedCount] = field(name="timingCount")
    data_version: DataVersion = field(default_factory=DataVersion)


class ListedEntry(Body):
    """An entry of a queue: its record's place and length in the CommitLog, and what filters look at.

    Attributes:
        is_wanted: whether the filter of the group that was named lets it pass; false where none was.
    """

    is_wanted: bool = field(default=False, name="eval")
    physical_offset: int = field(default=0, name="physicOffset")
    size: int = field(default=0, name="physicSize")
    tags_code: int = 0


class ListedEntries(Body):
    """QUERY_CONSUME_QUEUE; the two offsets are the queue's first one and the one behind its last."""

    max_offset: int = field(default=0, name="maxQueueIndex")
    min_offset: int = field(default=0, name="minQueueIndex")
    entries: list[ListedEntry] = field(default_factory=list, name="queueData")


class QueueOffsets(Body):
    """A queue offset for each of several queues: the result of a reset of offsets."""

    offsets: dict[MessageQueue, int] = field(default_factory=dict, name="offsetTable")


class TextTable(Body):
    """Texts by name: GET_BROKER_RUNTIME_INFO, GET_KVLIST_BY_NAMESPACE, the answer to REGISTER_BROKER."""

    table: dict[str, str] = field(default_factory=dict)
