"""What can be given to ``format("rocketmq")`` beside ``namesrv``, for reads of live topics.

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
groupIdPrefix           without ``group``: how the name of the group begins in whose name messages
                        are pulled; it goes on with a digest of what is read, and nothing is
                        committed for it
startingOffsets         ``earliest`` (default of a batch), ``latest`` (default of a stream),
                        ``group:NAME``, or JSON as in ``offsets``, which names every queue. Of a
                        query with a checkpoint it counts only when that is made
endingOffsets           the same, for a batch; ``latest`` when not given
startingTimestamp       store time of the earliest message to give: ms since the epoch, or ISO
                        8601 with a zone, ``2026-01-31T09:00:00+08:00``
endingTimestamp         store time before which messages are given, for a batch
minPartitions           tasks of a batch or micro-batch, at least, if there are so many messages
maxRecordsPerPartition  messages that one task reads; when not given, 100,000, or fewer in equal tasks
maxBytesPerPartition    bytes of their records, ``64m``, about: judged by samples of each queue
maxOffsetsPerTrigger    messages of one micro-batch, at most, in proportion to what waits in
                        each queue
minOffsetsPerTrigger    messages that a micro-batch waits for …
maxTriggerDelay         … for so many seconds at most, or ``30m``; 15 minutes when not given
maxBytesPerTrigger      bytes of the records of one micro-batch, about: judged by samples
failOnDataLoss          true (default) fails when messages to be read are gone, naming them, and
                        when startingOffsets lie behind a queue's end; false logs the same and
                        goes on
retrySeconds            how long a broker that is away is asked again; 60 when not given
tags                    ``TagA || TagB``: messages with one of these tags
sql                     a condition over properties, which brokers evaluate
                        (``enablePropertyFilter``): ``size > 3 AND color = 'red'``
columns                 columns to make, in this order, separated by commas; all when not given
decompress              true (default) gives bodies as their producers had them; false as they
                        are stored: ``sys_flag`` says how they are compressed
limit                   at most so many messages, read in one task; for a batch
pushFilters             whether WHERE clauses choose what is pulled, for a batch without a limit. When
                        not given, they do if Spark's setting
                        ``spark.sql.python.filterPushdown.enabled`` is on, as it is in
                        ``cometmq.spark.session``; with true it is an error if it is off
mode                    PERMISSIVE passes over damaged records and logs them; FAILFAST fails
======================  ========================================================================

Times for each queue, as JSON whose form ``times`` describes, and what happens where they come too late:

==================================  ============================================================
startingOffsetsByTimestamp          each queue begins with its first message stored at or after
                                    its time
endingOffsetsByTimestamp            … and ends before that message, or at its end where there
                                    is none; for a batch
startingOffsetsByTimestampStrategy  where a queue has no message stored at or after its starting
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
from cometmq.spark import values
from cometmq.spark.live import positions
from cometmq.spark.live.offsets import EACH_BROKER
from cometmq.spark.live.positions import THE_END, Position
from cometmq.spark.values import Given

RETRY_SECONDS: Final = 60
TRIGGER_DELAY_SECONDS: Final = 900
READER_GROUP: Final = "cometmq-spark"
"""In whose name is pulled when neither a group nor a prefix is given; nothing is committed for it."""

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
"""Of each of these, one is given at most."""
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
)


class TopicChoice(NamedTuple):
    """What is read: topics by name, by pattern, or queues. One of the three is there.

    Attributes:
        queues: one with the broker ``EACH_BROKER`` stands for the queues of this number on all of them.
    """

    topics: frozenset[str] | None = None
    pattern: "re.Pattern[str] | None" = None
    queues: frozenset[MessageQueue] | None = None

    def assigned(self, queue: MessageQueue) -> set[MessageQueue]:
        """Return which of the queues stand for this one; none if it is not to be read."""
        return {queue, queue._replace(broker_name=EACH_BROKER)} & (self.queues or set())


@dataclass(frozen=True)
class LiveOptions:
    """The options of a read of live topics, checked.

    Attributes:
        group: for which is committed; None for no group.
        reader_group: in whose name is pulled.
        start: None where the kind of read decides.
        starting_time: ms since the epoch, as is ``ending_time``, which is not included.
        tags: None for any.
        columns: None for all.
        push_filters: None where Spark's setting decides.
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

    @property
    def expression(self) -> str:
        """The tags, as brokers are asked for them."""
        return tag.ALL if self.tags is None else " || ".join(sorted(self.tags))


def parse(options: Mapping[str, str], *, stream: bool | None = None) -> LiveOptions:
    """Check the options of a read; ``stream`` is None where it is not known yet what it will be.

    Raises SettingsError that names option, value, limit and remedy.
    """
    others = {True: BATCH_ONLY, False: STREAM_ONLY, None: ()}[stream]
    given = Given(options, OPTIONS, alternatives=ALTERNATIVES, not_here=others)
    _refuse(given, others, "stream, only of a batch" if stream else "batch, only of a stream")
    starting = given.read("startingTimestamp", values.time_ms, None)
    ending = given.read("endingTimestamp", values.time_ms, None)
    group = given.read("group", values.group_name, None)
    parsed = LiveOptions(
        name_servers=name_servers("namesrv", given["namesrv"]),
        subscription=_subscription(given),
        group=group,
        reader_group=group or _reader_group(given),
        start=positions.start(given, starting),
        end=positions.end(given, ending),
        starting_time=starting,
        ending_time=ending,
        min_partitions=given.read("minPartitions", values.number, 1),
        records_per_partition=given.read("maxRecordsPerPartition", values.number, None),
        bytes_per_partition=given.read("maxBytesPerPartition", values.bytes_per_partition, None),
        offsets_per_trigger=given.read("maxOffsetsPerTrigger", values.number, None),
        offsets_per_trigger_min=given.read("minOffsetsPerTrigger", values.number, None),
        trigger_delay_s=given.read("maxTriggerDelay", values.seconds, TRIGGER_DELAY_SECONDS),
        bytes_per_trigger=given.read("maxBytesPerTrigger", values.size, None),
        fail_on_data_loss=given.read("failOnDataLoss", values.flag, True),
        retry_s=given.read("retrySeconds", values.number, RETRY_SECONDS),
        tags=given.read("tags", values.tags, None),
        sql=given.read("sql", lambda _, text: text, None),
        columns=given.read("columns", values.columns, None),
        decompress=given.read("decompress", values.flag, True),
        limit=given.read("limit", values.number, None),
        push_filters=given.read("pushFilters", values.flag, None),
        fail_on_damage=given.read("mode", values.fails_on_damage, False),
    )
    values.check_times(given, starting, ending)
    least, most = parsed.offsets_per_trigger_min, parsed.offsets_per_trigger
    if least is not None and most is not None and least > most:
        raise SettingsError(
            f"option minOffsetsPerTrigger {least} is above maxOffsetsPerTrigger {most}: give no more"
        )
    return parsed


def name_servers(name: str, text: str) -> tuple[str, ...]:
    """Read the addresses of name servers."""
    from cometmq.client.routes import parse_name_servers  # noqa: PLC0415  asyncio and more

    try:
        return tuple(parse_name_servers(text))
    except SettingsError as error:
        raise SettingsError(f"option {name}: {error}") from None


def _refuse(given: Given, others: tuple[str, ...], kind: str) -> None:
    """Refuse what does not go together, and what another kind of read has."""
    for names in ALTERNATIVES:
        _one_of(given, names, needed=names is SUBSCRIPTIONS)
    for name in others:
        if name in given:
            raise SettingsError(f"option {name} is not one of a {kind}: leave it out")


def _one_of(given: Given, names: tuple[str, ...], *, needed: bool = False) -> None:
    found = [name for name in names if name in given]
    if len(found) > 1 or (needed and not found):
        raise SettingsError(
            f"options {', '.join(names)}: give one of them, not {' and '.join(found) or 'none'}"
        )


def _reader_group(given: Given) -> str:
    """Return the group in whose name is pulled without a group: the same in each task, and after a restart.

    Brokers remember groups, so a new name for each run would fill their tables.
    """
    if "groupIdPrefix" not in given:
        return READER_GROUP
    read = "".join(f"{name} {given[name]}" for name in SUBSCRIPTIONS if name in given)
    return values.group_name("groupIdPrefix", f"{given['groupIdPrefix']}-{zlib.crc32(read.encode()):08x}")


def _subscription(given: Given) -> TopicChoice:
    return TopicChoice(
        given.read("subscribe", values.topics, None),
        given.read("subscribePattern", _pattern, None),
        given.read("assign", _assigned, None),
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
    """Return the queues of a topic by broker; Kafka's shape, a list, names those of each broker."""
    return {EACH_BROKER: queues} if isinstance(queues, list) else queues
