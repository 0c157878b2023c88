"""The options of ``format("rocketmq")`` for reads of live topics.

======================  ========================================================================
option                  meaning
======================  ========================================================================
namesrv                 name servers, ``host:port``, several joined by ``;``
subscribe               topics to read, separated by commas
subscribePattern        … or a regular expression that their whole names match; Java's system
                        topics and retry topics are left out
assign                  … or queues, as JSON: ``{"orders": {"broker-a": [0, 1]}}``; those of each
                        broker by ``{"orders": [0, 1]}``
group                   consumer group whose offsets ``commit`` writes to the brokers; a stream
                        without one writes none
groupIdPrefix           without ``group``: prefix of the name of the group for which messages are
                        pulled; a digest of the subscription follows, and nothing is committed for it
startingOffsets         ``earliest`` (default of a batch), ``latest`` (default of a stream),
                        ``group:NAME``, or JSON as in ``offsets``, which names every queue. A query
                        with a checkpoint uses it only when it creates the checkpoint
endingOffsets           the same, for a batch; ``latest`` when not given
startingTimestamp       store time of the earliest message to read: ms since the epoch, or ISO
                        8601 with a zone, ``2026-01-31T09:00:00+08:00``
endingTimestamp         store time before which messages are read, for a batch
minPartitions           tasks of a batch or micro-batch, at least, if there are so many messages
maxRecordsPerPartition  messages that one task reads; when not given, 100,000, or fewer in equal tasks
maxBytesPerPartition    bytes of their records, ``64m``, estimated by samples of each queue
maxOffsetsPerTrigger    messages of one micro-batch, at most, in proportion to what waits in
                        each queue
minOffsetsPerTrigger    messages that a micro-batch waits for …
maxTriggerDelay         … for so many seconds at most, or ``30m``; 15 minutes when not given
maxBytesPerTrigger      bytes of the records of one micro-batch, estimated by samples
failOnDataLoss          true (default) fails when messages to be read are gone, naming them, and
                        when startingOffsets lie behind a queue's end; false logs the same and
                        goes on
retrySeconds            how long requests to a broker that is away are retried; 60 when not given
tags                    ``TagA || TagB``: messages with one of these tags
sql                     a condition over properties, which brokers evaluate
                        (``enablePropertyFilter``): ``size > 3 AND color = 'red'``
columns                 columns to read, in this order, separated by commas; all when not given
decompress              true (default) decompresses bodies; false leaves them as stored:
                        ``sys_flag`` says how they are compressed
limit                   at most so many messages, read in one task; for a batch
pushFilters             whether WHERE clauses choose what is pulled, for a batch without a limit. When
                        not given, they do if Spark's setting
                        ``spark.sql.python.filterPushdown.enabled`` is on, as it is in
                        ``cometmq.spark.session``; with true it is an error if it is off
mode                    PERMISSIVE logs damaged records and skips them; FAILFAST fails
accessKey, secretKey    the user who signs the requests: see ``access``
tls, tlsCaFile …        TLS: see ``access``
======================  ========================================================================

Times for each queue, as JSON whose form ``times`` describes, and what happens if they are too late:

==================================  ============================================================
startingOffsetsByTimestamp          each queue begins with its first message stored at or after
                                    its time
endingOffsetsByTimestamp            … and ends before that message, or at its end if there is
                                    none; for a batch
startingOffsetsByTimestampStrategy  if a queue has no message stored at or after its starting
                                    time: ``error`` fails (when not given, with
                                    ``startingOffsetsByTimestamp``), ``latest`` begins at its end
                                    (when not given, with ``startingTimestamp``)
==================================  ============================================================

Options may also be set for a session: see ``session_options``.
"""

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from cometmq.errors import IllegalName, SettingsError
from cometmq.filter import tag
from cometmq.format.layout import valid_topic
from cometmq.message import MessageQueue
from cometmq.net.address import parse_name_servers
from cometmq.net.tls.client import TLS
from cometmq.spark import values
from cometmq.spark.live import positions
from cometmq.spark.live.access import ACCESS_OPTIONS, ClusterAccess, credentials_of_options, tls_of_options
from cometmq.spark.live.offsets import EACH_BROKER
from cometmq.spark.live.positions import THE_END, Position
from cometmq.spark.values import OptionTexts
from cometmq.wire.acl import Credentials

RETRY_SECONDS: Final = 60
TRIGGER_DELAY_SECONDS: Final = 900
READER_GROUP: Final = "cometmq-spark"
"""The group for which messages are pulled without a group or prefix; nothing is committed for it."""

BATCH_ONLY: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp", "limit", "pushFilters")
STREAM_ONLY: Final = (
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxBytesPerTrigger",
)
SUBSCRIPTIONS: Final = ("subscribe", "subscribePattern", "assign")
ALTERNATIVES: Final = (
    SUBSCRIPTIONS,
    ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp"),
    ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"),
    ("tags", "sql"),
)
"""Sets of options of which a read has at most one."""
OPTIONS: Final = (
    "namesrv",
    *SUBSCRIPTIONS,
    "group",
    "groupIdPrefix",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "minPartitions",
    "maxRecordsPerPartition",
    "maxBytesPerPartition",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxBytesPerTrigger",
    "failOnDataLoss",
    "retrySeconds",
    "tags",
    "sql",
    "columns",
    "decompress",
    "limit",
    "pushFilters",
    "mode",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    *ACCESS_OPTIONS,
)


class TopicChoice(NamedTuple):
    """The subscription of a read: topics by name, by pattern, or queues; two of the three are None.

    Attributes:
        queues: one with the broker ``EACH_BROKER`` stands for the queues of this number on all brokers.
    """

    topics: frozenset[str] | None = None
    pattern: "re.Pattern[str] | None" = None
    queues: frozenset[MessageQueue] | None = None

    def assigned(self, queue: MessageQueue) -> set[MessageQueue]:
        """Return the assigned queues that cover this one; none if it is not read."""
        return {queue, queue._replace(broker_name=EACH_BROKER)} & (self.queues or set())


@dataclass(frozen=True)
class LiveOptions:
    """The options of a read of live topics, checked.

    Attributes:
        group: commits its offsets; None for no commits.
        reader_group: the group for which messages are pulled.
        start: None for the default of the kind of read.
        starting_time: ms since the epoch, as is ``ending_time``, which is not included.
        tags: None for any.
        columns: None for all.
        push_filters: None for Spark's setting.
    """

    name_servers: tuple[str, ...]
    subscription: TopicChoice
    group: str | None = None
    reader_group: str = READER_GROUP
    start: Position | None = None
    end: Position = THE_END
    starting_time: int | None = None
    ending_time: int | None = None
    min_partitions: int = 1
    records_per_partition: int | None = None
    bytes_per_partition: int | None = None
    offsets_per_trigger: int | None = None
    offsets_per_trigger_min: int | None = None
    trigger_delay_s: int = TRIGGER_DELAY_SECONDS
    bytes_per_trigger: int | None = None
    fail_on_data_loss: bool = True
    retry_s: int = RETRY_SECONDS
    tags: frozenset[str] | None = None
    sql: str | None = None
    columns: tuple[str, ...] | None = None
    decompress: bool = True
    limit: int | None = None
    push_filters: bool | None = None
    fail_on_damage: bool = False
    tls: TLS | None = None
    credentials: Credentials | None = None

    @property
    def cluster(self) -> ClusterAccess:
        """The servers to read from, and how they are connected to."""
        return ClusterAccess(self.name_servers, self.tls, self.credentials)

    @property
    def expression(self) -> str:
        """The tags as a subscription expression."""
        return tag.ALL if self.tags is None else " || ".join(sorted(self.tags))


def parse(options: Mapping[str, str], *, stream: bool | None = None) -> LiveOptions:
    """Check the options of a read; ``stream`` is None if the kind of read is not known yet.

    Raises SettingsError that names option, value, limit and remedy.
    """
    others = {True: BATCH_ONLY, False: STREAM_ONLY, None: ()}[stream]
    texts = OptionTexts(options, OPTIONS, alternatives=ALTERNATIVES, not_here=others)
    _refuse(texts, others, "stream, only of a batch" if stream else "batch, only of a stream")
    starting = texts.read("startingTimestamp", values.time_ms, None)
    ending = texts.read("endingTimestamp", values.time_ms, None)
    group = texts.read("group", values.group_name, None)
    parsed = LiveOptions(
        name_servers=name_servers("namesrv", texts["namesrv"]),
        subscription=_subscription(texts),
        group=group,
        reader_group=group or _reader_group(texts),
        start=positions.start(texts, starting),
        end=positions.end(texts, ending),
        starting_time=starting,
        ending_time=ending,
        min_partitions=texts.read("minPartitions", values.number, 1),
        records_per_partition=texts.read("maxRecordsPerPartition", values.number, None),
        bytes_per_partition=texts.read("maxBytesPerPartition", values.bytes_per_partition, None),
        offsets_per_trigger=texts.read("maxOffsetsPerTrigger", values.number, None),
        offsets_per_trigger_min=texts.read("minOffsetsPerTrigger", values.number, None),
        trigger_delay_s=texts.read("maxTriggerDelay", values.seconds, TRIGGER_DELAY_SECONDS),
        bytes_per_trigger=texts.read("maxBytesPerTrigger", values.size, None),
        fail_on_data_loss=texts.read("failOnDataLoss", values.flag, True),
        retry_s=texts.read("retrySeconds", values.number, RETRY_SECONDS),
        tags=texts.read("tags", values.tags, None),
        sql=texts.read("sql", lambda _, text: text, None),
        columns=texts.read("columns", values.columns, None),
        decompress=texts.read("decompress", values.flag, True),
        limit=texts.read("limit", values.number, None),
        push_filters=texts.read("pushFilters", values.flag, None),
        fail_on_damage=texts.read("mode", values.fails_on_damage, False),
        tls=tls_of_options(texts),
        credentials=credentials_of_options(texts),
    )
    values.check_times(texts, starting, ending)
    least, most = parsed.offsets_per_trigger_min, parsed.offsets_per_trigger
    if least is not None and most is not None and least > most:
        raise SettingsError(
            f"option minOffsetsPerTrigger {least} is above maxOffsetsPerTrigger {most}: give no more"
        )
    return parsed


def name_servers(name: str, text: str) -> tuple[str, ...]:
    """Parse the addresses of name servers."""
    try:
        return tuple(parse_name_servers(text))
    except SettingsError as error:
        raise SettingsError(f"option {name}: {error}") from None


def _refuse(texts: OptionTexts, others: tuple[str, ...], kind: str) -> None:
    """Raise SettingsError for options that exclude each other, and for those of another kind of read."""
    for names in ALTERNATIVES:
        _one_of(texts, names, needed=names is SUBSCRIPTIONS)
    for name in others:
        if name in texts:
            raise SettingsError(f"option {name} is not one of a {kind}: leave it out")


def _one_of(texts: OptionTexts, names: tuple[str, ...], *, needed: bool = False) -> None:
    found = [name for name in names if name in texts]
    if len(found) > 1 or (needed and not found):
        raise SettingsError(
            f"options {', '.join(names)}: give one of them, not {' and '.join(found) or 'none'}"
        )


def _reader_group(texts: OptionTexts) -> str:
    """Return the group that pulls if no group is set: the same in each task, and after a restart.

    Brokers keep groups, so a new name for each run would fill their tables.
    """
    if "groupIdPrefix" not in texts:
        return READER_GROUP
    read = "".join(f"{name} {texts[name]}" for name in SUBSCRIPTIONS if name in texts)
    return values.group_name("groupIdPrefix", f"{texts['groupIdPrefix']}-{zlib.crc32(read.encode()):08x}")


def _subscription(texts: OptionTexts) -> TopicChoice:
    return TopicChoice(
        texts.read("subscribe", values.topics, None),
        texts.read("subscribePattern", _pattern, None),
        texts.read("assign", _assigned, None),
    )


def _pattern(name: str, text: str) -> "re.Pattern[str]":
    try:
        return re.compile(text)
    except re.error as error:
        raise SettingsError(f"option {name} {text}: no regular expression: {error}") from None


def _assigned(name: str, text: str) -> frozenset[MessageQueue]:
    tree = values.json_tree(name, text)
    try:
        queues = frozenset(
            MessageQueue(valid_topic(topic), broker_name, queue_id)
            for topic, by_broker in tree.items()
            for broker_name, queue_ids in _brokers(by_broker).items()
            for queue_id in queue_ids
        )
    except (AttributeError, TypeError, IllegalName) as error:
        raise SettingsError(
            f'option {name} {text}: write queues as {{"orders": {{"broker-a": [0, 1]}}}}, '
            f'or as {{"orders": [0, 1]}} for each broker: {error}'
        ) from None
    if not queues or any(type(queue.queue_id) is not int or queue.queue_id < 0 for queue in queues):
        raise SettingsError(f"option {name} {text}: name one queue or more, by its number")
    return queues


def _brokers(queues: Any) -> Any:
    """Return the queues of a topic by broker; a list, Kafka's form, is for each broker."""
    return {EACH_BROKER: queues} if isinstance(queues, list) else queues
