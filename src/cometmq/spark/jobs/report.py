"""What is in many stores: how much by topic, queue and hour, how late it was stored, which keys come again.

The logs are read once; what is kept of them, a few numbers and names for each message, Spark holds in memory
or on its disk while it counts. Sizes and latencies have percentiles by Spark's ``percentile_approx``: values
that occur, at most a ten-thousandth of the messages away from the true rank.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as f

from cometmq.spark.jobs.lags import Lag, lags, load_committed
from cometmq.spark.jobs.measures import measures
from cometmq.spark.jobs.watch import Progress, watched
from cometmq.spark.options import BYTES_PER_PARTITION
from cometmq.spark.remote import layer_of, path_of

T = TypeVar("T")

HOT_KEYS: Final = 10
"""So many of each topic are named."""

_SPREAD: Final = "percentile_approx({0}, array(0.5, 0.9, 0.99))"
_NAMES: Final = (
    "concat(transform(array_distinct(keys), name -> struct(false as is_id, name as name)), "
    "array(struct(true as is_id, unique_id as name)))"
)
_LAST: Final = "max(if(next_offset is null, null, struct(physical_offset, next_offset)))"
_NO_KEYS: Final = "cast(array() as array<struct<key: string, messages: bigint>>)"


class Spread(msgspec.Struct, frozen=True):
    """How some numbers are spread: half of them are at most ``p50``, and so on."""

    p50: int
    p90: int
    p99: int
    max: int


class Volume(msgspec.Struct, frozen=True, kw_only=True):
    """What came to a queue of a store in an hour.

    Attributes:
        hour: when the hour of the store time began, ms since the epoch.
        bytes: of the log that the messages take.
        body_bytes: of their bodies as stored, so of compressed ones compressed.
        latency_ms: from a message's born time to its store time, by the clocks of producer and broker.
    """

    store: str
    topic: str
    queue_id: int
    hour: int
    messages: int
    bytes: int
    body_bytes: Spread
    latency_ms: Spread


class KeyCount(msgspec.Struct, frozen=True):
    """A key, and how many messages of its topic have it."""

    key: str
    messages: int


class TopicReport(msgspec.Struct, frozen=True, kw_only=True):
    """A topic over all stores, queues and hours: as in ``Volume``, and its keys.

    Attributes:
        keys: how many different business keys its messages have.
        duplicate_keys: how many of these are on more than one message.
        repeated_ids: messages whose unique id another has: copies that were sent, or stored, again.
        hot_keys: of the duplicate keys those that are on the most messages, these first.
    """

    topic: str
    messages: int
    bytes: int
    body_bytes: Spread
    latency_ms: Spread
    keys: int
    duplicate_keys: int
    repeated_ids: int
    hot_keys: list[KeyCount]


class Report(msgspec.Struct, frozen=True):
    """What is in stores; ``msgspec.to_builtins`` makes a dict of it, ``msgspec.json.encode`` JSON.

    Attributes:
        volumes: by store, topic, queue and hour.
        topics: those with the most bytes first.
        lags: by store, group and topic, from what the store's ``config/consumerOffset.json`` says.
    """

    stores: list[str]
    volumes: list[Volume]
    topics: list[TopicReport]
    lags: list[Lag] = []


def report(
    spark: SparkSession,
    stores: Sequence[Path | str],
    *,
    hot_keys: int = HOT_KEYS,
    progress: Progress | None = None,
    bytes_per_task: int = BYTES_PER_PARTITION,
) -> Report:
    """Tell what is in stores; damage is passed over and logged, and brokers may serve them meanwhile.

    Args:
        hot_keys: how many of each topic are named.
        bytes_per_task: bytes of the log that one task reads.

    Raises:
        SettingsError: there is no such store.
        OSError: a file cannot be read.
    """
    messages = measures(spark, stores, bytes_per_task=bytes_per_task).persist()
    try:
        with watched(spark, "report", progress):
            by_queue = volumes(messages).withColumn("hour", f.unix_millis("hour")).collect()
            by_topic = topics(messages, hot_keys).collect()
    finally:
        messages.unpersist()
    ends = _ends(by_queue)
    paths = {str(path): path.absolute() for path in map(path_of, stores)}
    return Report(
        [str(path_of(store)) for store in stores],
        sorted((_read(row, Volume) for row in by_queue), key=_place),
        sorted((_read(row, TopicReport) for row in by_topic), key=lambda one: (-one.bytes, one.topic)),
        [
            lag
            for store, path in paths.items()
            for lag in lags(store, load_committed(layer_of(path), path), ends.get(store, {}))
        ],
    )


def volumes(messages: DataFrame) -> DataFrame:
    """Give a row for each store, topic, queue and hour; ``messages`` are as ``measures`` gives them.

    The column ``last`` is for lags: the place in the log of the last message, and the queue offset behind it.
    """
    return messages.groupBy("store", "topic", "queue_id", "hour").agg(*_volume(), f.expr(_LAST).alias("last"))


def topics(messages: DataFrame, hot_keys: int = HOT_KEYS) -> DataFrame:
    """Give a row for each topic."""
    names = messages.select("topic", f.explode(f.expr(_NAMES)).alias("named")).select("topic", "named.*")
    uses = names.where("name is not null").groupBy("topic", "is_id", "name").agg(_messages())
    counts = uses.groupBy("topic").agg(
        f.expr("count_if(not is_id)").alias("keys"),
        f.expr("count_if(not is_id and messages > 1)").alias("duplicate_keys"),
        f.expr("sum(if(is_id, messages - 1, 0))").alias("repeated_ids"),
    )
    ranks = Window.partitionBy("topic").orderBy(f.desc("messages"), "name")
    ranked = uses.where("not is_id and messages > 1").withColumn("rank", f.row_number().over(ranks))
    ranked = ranked.where(f.col("rank") <= hot_keys)
    in_order = "sort_array(collect_list(struct(rank, name, messages)))"
    hottest = ranked.groupBy("topic").agg(
        f.expr(f"transform({in_order}, one -> struct(one.name as key, one.messages as messages))").alias(
            "hot"
        )
    )
    joined = messages.groupBy("topic").agg(*_volume()).join(counts, "topic", "left")
    filled = joined.fillna(0, ["keys", "duplicate_keys", "repeated_ids"]).join(hottest, "topic", "left")
    return filled.withColumn("hot_keys", f.coalesce("hot", f.expr(_NO_KEYS))).drop("hot")


def _volume() -> list[Column]:
    return [_messages(), f.sum("bytes").alias("bytes"), _spread("body_bytes"), _spread("latency_ms")]


def _messages() -> Column:
    return f.count("*").alias("messages")


def _spread(name: str) -> Column:
    values = f.expr(_SPREAD.format(name))
    ranks = [values[number].alias(rank) for number, rank in enumerate(("p50", "p90", "p99"))]
    return f.struct(*ranks, f.max(name).alias("max")).alias(name)


def _read(row: Row, kind: type[T]) -> T:
    return msgspec.convert(row.asDict(recursive=True), kind)


def _ends(rows: Iterable[Row]) -> dict[str, dict[tuple[str, int], int]]:
    """Give by store, topic and queue the queue offset behind the message that lies last in the log.

    The highest one could be that of a topic of this name which was deleted.
    """
    last: dict[tuple[str, str, int], tuple[int, int]] = {}
    for row in rows:
        if row["last"] is not None:
            queue = (row["store"], row["topic"], row["queue_id"])
            last[queue] = max(last.get(queue, (-1, 0)), tuple(row["last"]))
    ends: defaultdict[str, dict[tuple[str, int], int]] = defaultdict(dict)
    for (store, topic, queue_id), (_, end) in last.items():
        ends[store][topic, queue_id] = end
    return ends


def _place(volume: Volume) -> tuple[str, str, int, int]:
    return volume.store, volume.topic, volume.queue_id, volume.hour
