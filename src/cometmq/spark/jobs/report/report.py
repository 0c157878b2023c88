"""Report the content of many stores: volume by topic, queue and time, latency, hot keys and queues, lags.

The logs are read once; a few numbers and names for each message are cached by Spark, in memory or on disk,
while it counts. Percentiles of sizes and latencies are from Spark's ``percentile_approx``: values that occur,
at most a ten-thousandth of the messages away from the true rank.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as f

from cometmq.spark.files.remote import path_of
from cometmq.spark.files.remote_files import layer_of
from cometmq.spark.jobs.report.buckets import NO_BUCKETS, TIME_MAX, TIME_MIN, Buckets, buckets
from cometmq.spark.jobs.report.hot import (
    HOT_MIN,
    KEY_SHARE,
    KEY_TIMES,
    HotQueue,
    hot_queues,
    load_queue_counts,
)
from cometmq.spark.jobs.report.lags import Lag, lags, load_committed
from cometmq.spark.jobs.report.measures import measures
from cometmq.spark.jobs.watch import Progress, watched
from cometmq.spark.options import BYTES_PER_PARTITION

T = TypeVar("T")

HOT_KEYS: Final = 10
"""Hot keys listed for each topic, at most."""

_SPREAD: Final = "percentile_approx({0}, array(0.5, 0.9, 0.99))"
_NAMES: Final = (
    "concat(transform(array_distinct(keys), name -> struct(false as is_id, name as name)), "
    "array(struct(true as is_id, unique_id as name)))"
)
_LAST: Final = "max(if(next_offset is null, null, struct(physical_offset, next_offset)))"
_NO_KEYS: Final = "cast(array() as array<struct<key: string, messages: bigint>>)"
_BUCKET: Final = "timestamp_millis(unix_millis(store_time) - pmod(unix_millis(store_time), {0}))"
_TIME: Final = f"if(unix_millis(store_time) between {TIME_MIN} and {TIME_MAX}, unix_millis(store_time), null)"
_HOT_KEYS: Final = (
    f"filter(found, one -> one.messages * keys >= {KEY_TIMES} * key_uses "
    f"and one.messages * {KEY_SHARE} >= messages)"
)


class Spread(msgspec.Struct, frozen=True):
    """The percentiles of some numbers: half of them are at most ``p50``, and so on."""

    p50: int
    p90: int
    p99: int
    max: int


class Volume(msgspec.Struct, frozen=True, kw_only=True):
    """The messages of a queue of a store in a bucket of time.

    Attributes:
        bucket: begin of the bucket of store time, ms since the epoch. ``Report.buckets`` has its length.
        bytes: of their records.
        body_bytes: of their bodies as stored, perhaps compressed.
        latency_ms: from a message's born time to its store time, by the clocks of producer and broker.
    """

    store: str
    topic: str
    queue_id: int
    bucket: int
    messages: int
    bytes: int
    body_bytes: Spread
    latency_ms: Spread


class KeyCount(msgspec.Struct, frozen=True):
    """A key, and the number of its topic's messages with it."""

    key: str
    messages: int


class TopicReport(msgspec.Struct, frozen=True, kw_only=True):
    """A topic in all stores, queues and times: as in ``Volume``, its keys, hot keys and hot queues.

    Attributes:
        keys: number of different business keys.
        duplicate_keys: number of these that are on several messages.
        repeated_ids: messages with the unique id of another one: copies that were sent, or stored, again.
        hot_keys: those on the most messages first.
        hot_queues: those with the most messages first.
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
    hot_queues: list[HotQueue] = []


class Report(msgspec.Struct, frozen=True):
    """The content of stores; ``msgspec.to_builtins`` converts it to a dict, ``msgspec.json.encode`` to JSON.

    Attributes:
        volumes: by store, topic, queue and bucket.
        topics: those with the most bytes first.
        lags: by store, group and topic, from the store's ``config/consumerOffset.json``.
        first_time: the earliest store time, ms since the epoch; None if there is none from 2001 to 2099.
        last_time: the latest one.
        buckets: the buckets of time from the first to the last.
    """

    stores: list[str]
    volumes: list[Volume]
    topics: list[TopicReport]
    lags: list[Lag] = []
    first_time: int | None = None
    last_time: int | None = None
    buckets: Buckets = NO_BUCKETS


def report(
    spark: SparkSession,
    stores: Sequence[Path | str],
    *,
    hot_keys: int = HOT_KEYS,
    progress: Progress | None = None,
    bytes_per_task: int = BYTES_PER_PARTITION,
) -> Report:
    """Report the content of stores; damage is logged and skipped, and brokers may serve them meanwhile.

    Args:
        hot_keys: listed for each topic, at most.
        bytes_per_task: bytes of the log that one task reads.

    Raises:
        SettingsError: there is no such store.
        OSError: a file cannot be read.
    """
    messages = measures(spark, stores, bytes_per_task=bytes_per_task).persist()
    try:
        with watched(spark, "report", progress):
            first, last = messages.agg(f.min(f.expr(_TIME)), f.max(f.expr(_TIME))).collect()[0]
            chosen = buckets(first, last)
            in_buckets = volumes(messages, chosen.step_ms)
            by_queue = in_buckets.withColumn("bucket", f.unix_millis("bucket")).collect()
            by_topic = topics(messages, hot_keys).collect()
    finally:
        messages.unpersist()
    hot = _hot_queues(stores, by_queue)
    found = [_read(row, TopicReport, hot_queues=hot.get(row["topic"], [])) for row in by_topic]
    return Report(
        [str(path_of(store)) for store in stores],
        sorted((_read(row, Volume) for row in by_queue), key=_place),
        sorted(found, key=lambda one: (-one.bytes, one.topic)),
        _lags(stores, _ends(by_queue)),
        first_time=first,
        last_time=last,
        buckets=chosen,
    )


def volumes(messages: DataFrame, bucket_ms: int) -> DataFrame:
    """Build a row for each store, topic, queue and bucket of time from the rows of ``measures``.

    The column ``bucket`` is its begin, a multiple of ``bucket_ms`` since the epoch. The column ``last`` is
    for lags: the CommitLog offset of the last message, and the queue offset behind it.
    """
    bucket = f.expr(_BUCKET.format(bucket_ms)).alias("bucket")
    return messages.groupBy("store", "topic", "queue_id", bucket).agg(*_volume(), f.expr(_LAST).alias("last"))


def topics(messages: DataFrame, hot_keys: int = HOT_KEYS) -> DataFrame:
    """Build a row for each topic, with at most ``hot_keys`` of its hot keys."""
    names = messages.select("topic", f.explode(f.expr(_NAMES)).alias("named")).select("topic", "named.*")
    uses = names.where("name is not null").groupBy("topic", "is_id", "name").agg(_messages())
    counts = uses.groupBy("topic").agg(
        f.expr("count_if(not is_id)").alias("keys"),
        f.expr("count_if(not is_id and messages > 1)").alias("duplicate_keys"),
        f.expr("sum(if(is_id, messages - 1, 0))").alias("repeated_ids"),
        f.expr("sum(if(is_id, 0, messages))").alias("key_uses"),
    )
    ranks = Window.partitionBy("topic").orderBy(f.desc("messages"), "name")
    ranked = uses.where(f"not is_id and messages >= {HOT_MIN}").withColumn("rank", f.row_number().over(ranks))
    ranked = ranked.where(f.col("rank") <= hot_keys)
    in_order = "sort_array(collect_list(struct(rank, name, messages)))"
    most_used = f.expr(f"transform({in_order}, one -> struct(one.name as key, one.messages as messages))")
    found = ranked.groupBy("topic").agg(most_used.alias("found"))
    joined = messages.groupBy("topic").agg(*_volume()).join(counts, "topic", "left")
    filled = joined.fillna(0, ["keys", "duplicate_keys", "repeated_ids"]).join(found, "topic", "left")
    hot = f.coalesce(f.expr(_HOT_KEYS), f.expr(_NO_KEYS))
    return filled.withColumn("hot_keys", hot).drop("found", "key_uses")


def _volume() -> list[Column]:
    return [_messages(), f.sum("bytes").alias("bytes"), _spread("body_bytes"), _spread("latency_ms")]


def _messages() -> Column:
    return f.count("*").alias("messages")


def _spread(name: str) -> Column:
    values = f.expr(_SPREAD.format(name))
    ranks = [values[number].alias(rank) for number, rank in enumerate(("p50", "p90", "p99"))]
    return f.struct(*ranks, f.max(name).alias("max")).alias(name)


def _read(row: Row, kind: type[T], **more: Any) -> T:
    return msgspec.convert(row.asDict(recursive=True) | more, kind)


def _hot_queues(stores: Sequence[Path | str], rows: Iterable[Row]) -> dict[str, list[HotQueue]]:
    messages: Counter[tuple[str, str, int]] = Counter()
    for row in rows:
        messages[row["store"], row["topic"], row["queue_id"]] += row["messages"]
    counts = {
        (str(path), topic): count
        for path in {path_of(store) for store in stores}
        for topic, count in load_queue_counts(layer_of(path), path.absolute()).items()
    }
    return hot_queues(messages, counts)


def _lags(stores: Sequence[Path | str], ends: Mapping[str, Mapping[tuple[str, int], int]]) -> list[Lag]:
    paths = {str(path): path.absolute() for path in map(path_of, stores)}
    return [
        lag
        for store, path in paths.items()
        for lag in lags(store, load_committed(layer_of(path), path), ends.get(store, {}))
    ]


def _ends(rows: Iterable[Row]) -> dict[str, dict[tuple[str, int], int]]:
    """Return by store, topic and queue the queue offset behind the message that is last in the log.

    The highest one could be of a deleted topic of the same name.
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
    return volume.store, volume.topic, volume.queue_id, volume.bucket
