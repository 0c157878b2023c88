"""Replaying messages, from a store or what was archived or exported, into a live cluster at a set rate.

All messages of one queue are one task's, which sends them in the order of the log, so each queue's order is
kept. For that they are moved once, from the tasks that read the log to those that send; they are counted
before, without their bodies. A task has the share of the rate that it has of the messages: all end at about
the same time, and together they send no faster than was asked, however unequal the queues are.

What is sent again, by a task that is tried again or a replay that is run again, has the same idempotence key:
topic, queue, offset and broker from which the message came.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from cometmq.client.producer.producer import Producer
from cometmq.errors import SettingsError
from cometmq.format.layout import valid_topic
from cometmq.message import MessageQueue
from cometmq.spark.files.remote import path_of
from cometmq.spark.jobs.sources import stored
from cometmq.spark.jobs.watch import Progress, watched
from cometmq.spark.live.options import RETRY_SECONDS, name_servers
from cometmq.spark.live.survey import is_users
from cometmq.spark.options import BYTES_PER_PARTITION
from cometmq.spark.sink.rows import rows_of
from cometmq.spark.sink.sink import SinkOptions, send_rows

GROUP: Final = "cometmq-spark-replay"
BORN_TIME: Final = "ORIGIN_BORN_TIME"
"""The property with the born time, ms: the protocol has one born time for all messages of a batch."""
ORIGIN: Final = ("topic", "queue_id", "queue_offset", "store_host")
KNOWN_BY: Final = (*ORIGIN, "tags", "store_time", "physical_offset")
CONTENT: Final = ("keys", "properties", "body", "flag", "born_time")
CHUNKS_PER_SECOND: Final = 10
CHUNK_MAX: Final = 1_000
TIME_MIN: Final = -(2**63)
TIME_MAX: Final = 2**63 - 1
_SENT: Final[dict[str, pa.DataType]] = {"topic": pa.string(), "messages": pa.int64()}

_WITH_BORN_TIME: Final = (
    f"if(map_contains_key(properties, '{BORN_TIME}'), properties, "
    f"map_concat(properties, map('{BORN_TIME}', string(unix_millis(born_time)))))"
)


class ReplayFilter(NamedTuple):
    """Which messages are replayed; all of it must hold.

    Attributes:
        topics: all but RocketMQ's own by default, those of retries and dead letters among these.
        tags: one of these.
        begin_time: earliest store time, ms.
        end_time: latest store time, ms.
    """

    topics: frozenset[str] | None = None
    tags: frozenset[str] | None = None
    begin_time: int = TIME_MIN
    end_time: int = TIME_MAX


class Pace:
    """Says when the next messages may go. What was not sent while a broker was away is not made up for.

    Args:
        per_second: so many messages.

    Attributes:
        chunk: how many to send at once.
    """

    def __init__(self, per_second: float) -> None:
        self.chunk = max(1, min(int(per_second / CHUNKS_PER_SECOND), CHUNK_MAX))
        self._per_second = per_second
        self._due = float("-inf")

    def wait_s(self, messages: int, now: float) -> float:
        """Give for how many seconds from ``now`` so many messages, which then go, have to wait."""
        due = max(self._due, now)
        self._due = due + messages / self._per_second
        return due - now


def replay(
    spark: SparkSession,
    source: Path | str,
    namesrv: str,
    *,
    rate: int,
    wanted: ReplayFilter = ReplayFilter(),  # noqa: B008  an immutable value
    topic: str | None = None,
    retry_s: int = RETRY_SECONDS,
    progress: Progress | None = None,
    bytes_per_task: int = BYTES_PER_PARTITION,
) -> dict[str, int]:
    """Send messages again; return how many were sent, by the topic they came from.

    Args:
        source: a store, or what ``archive`` filled, or ``export`` with all columns; a path, or an address
            that fsspec reads.
        namesrv: name servers, ``host:port``, several joined by ``;``.
        rate: messages a second that all tasks together send at most.
        topic: where all go; each to its own topic by default. Topics must be there, or be made by the broker.
        retry_s: how long what could not be sent is tried again.
        bytes_per_task: bytes of the log that one task reads.

    Raises:
        SettingsError: there is nothing such, or it lacks columns, or needs a package; ``rate`` is no rate.
        IllegalName: ``topic`` can be none.
        NetworkError, RemoteError: as Spark's error, which names it.
    """
    if rate < 1:
        raise SettingsError(f"rate {rate}: give 1 message a second or more")
    target = None if topic is None else valid_topic(topic)
    options = SinkOptions(name_servers("namesrv", namesrv), target, GROUP, retry_s)
    tasks = spark.sparkContext.defaultParallelism

    def chosen(columns: tuple[str, ...], wanted: ReplayFilter) -> DataFrame:
        found = _messages(spark, path_of(source).absolute(), columns, wanted, bytes_per_task)
        owner = f.pmod(f.hash("topic", "queue_id", "store_host"), f.lit(tasks))
        return found.withColumn("task", owner)

    def send(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sent = asyncio.run(send_all(options, rates, batches))
        rows = [{"topic": topic, "messages": messages} for topic, messages in sent.items()]
        yield pa.RecordBatch.from_pylist(rows, pa.schema(_SENT))

    with watched(spark, "replay", progress):
        found = chosen(KNOWN_BY, wanted).groupBy("topic", "task")
        counted = found.agg(f.count("*").alias("messages"), f.max("physical_offset").alias("last")).collect()
        counts = [row for row in counted if wanted.topics is not None or is_users(row["topic"])]
        if not counts:
            return {}
        topics = frozenset(row["topic"] for row in counts)
        rates = shares(rate, ((row["task"], row["messages"]) for row in counts))
        whole = chosen((*KNOWN_BY, *CONTENT), wanted._replace(topics=topics)).where("length(body) > 0")
        whole = whole.where(f.col("physical_offset") <= max(row["last"] for row in counts))
        rows = placed(whole, tasks).mapInArrow(send, "topic string, messages bigint").collect()
    sent: Counter[str] = Counter()
    for row in rows:
        sent[row["topic"]] += row["messages"]
    return dict(sorted(sent.items()))


def placed(messages: DataFrame, tasks: int) -> DataFrame:
    """Return messages in the partition that their column ``task`` names, in the order of the log."""
    timed = messages.withColumn("properties", f.expr(_WITH_BORN_TIME))
    return timed.repartitionById(tasks, "task").sortWithinPartitions("physical_offset")


def shares(rate: int, counts: Iterable[tuple[int, int]]) -> dict[int, float]:
    """Give the rate of each task, from how many messages it has of each topic."""
    messages: Counter[int] = Counter()
    for task, count in counts:
        messages[task] += count
    return {task: rate * count / messages.total() for task, count in messages.items()}


async def send_all(
    options: SinkOptions, rates: Mapping[int, float], batches: Iterable[pa.RecordBatch]
) -> Counter[str]:
    """Send the rows of a task, at the task's rate; give how many there were, by topic."""
    sent: Counter[str] = Counter()
    loop = asyncio.get_running_loop()
    async with Producer(";".join(options.name_servers), options.group) as producer:
        pace: Pace | None = None
        for batch in (batch for batch in batches if batch.num_rows):
            pace = pace or Pace(rates[batch.column("task")[0].as_py()])
            for chunk in _chunks(batch, pace.chunk):
                await asyncio.sleep(pace.wait_s(chunk.num_rows, loop.time()))
                keys = _keys(chunk)
                rows = rows_of(_to(chunk, options.topic), None, lambda *_, keys=keys: next(keys))
                await send_rows(producer, rows, options.retry_s, queue_like)
                sent.update(map(str, chunk.column("topic").to_pylist()))
    return sent


async def queue_like(producer: Producer, topic: str, queue_id: int) -> MessageQueue:
    """Give the queue for what was in queue ``queue_id``: the one with its number, if there are as many."""
    queues = sorted(await producer.queues(topic))
    return queues[queue_id % len(queues)]


def _messages(
    spark: SparkSession, source: Path, columns: tuple[str, ...], wanted: ReplayFilter, bytes_per_task: int
) -> DataFrame:
    found = stored(spark, source, columns, topics=wanted.topics, bytes_per_task=bytes_per_task)
    conditions = [f.expr("unix_millis(store_time)").between(wanted.begin_time, wanted.end_time)]
    if wanted.tags is not None:
        conditions.append(f.col("tags").isin(*wanted.tags))
    return found.where(reduce(and_, conditions))


def _chunks(batch: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    return (batch.slice(begin, size) for begin in range(0, batch.num_rows, size))


def _keys(batch: pa.RecordBatch) -> Iterator[str]:
    """Give the idempotence keys: by what ``drop_duplicates`` knows the original, too."""
    for origin in zip(*(batch.column(name).to_pylist() for name in ORIGIN), strict=True):
        yield "/".join(map(str, origin))


def _to(batch: pa.RecordBatch, topic: str | None) -> pa.RecordBatch:
    if topic is None:
        return batch
    place = batch.schema.get_field_index("topic")
    return batch.set_column(place, "topic", pa.array([topic] * batch.num_rows, pa.string()))
