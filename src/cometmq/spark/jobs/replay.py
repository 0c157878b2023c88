"""Replay messages from a store, an archive or an export into a live cluster at a set rate.

One task sends all messages of a queue, in the order of the log, so each queue's order is kept. So they are
shuffled once, from the tasks that read the log to those that send; they are counted before, without their
bodies. A task's share of the rate is its share of the messages: all tasks end at about the same time, and
together do not exceed the rate, however unequal the queues are.

A message that a retried task, or a second replay, sends again has the same idempotence key: topic, queue,
offset and broker of the original.
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

from cometmq.client.credentials import find_credentials
from cometmq.client.producer.producer import Producer
from cometmq.cluster.system_names import is_user_topic
from cometmq.errors import SettingsError
from cometmq.format.layout import valid_topic
from cometmq.message import MessageQueue
from cometmq.net.tls.client import TLS, tls_of
from cometmq.spark.files.remote import path_of
from cometmq.spark.files.splits import log_files
from cometmq.spark.jobs.export.filled import ALL_TIMES, filled
from cometmq.spark.jobs.ranges import LogRange, records
from cometmq.spark.jobs.watch import Progress, watched
from cometmq.spark.live.options import RETRY_SECONDS, name_servers
from cometmq.spark.options import BYTES_PER_PARTITION
from cometmq.spark.sink.rows import rows_of
from cometmq.spark.sink.sink import SinkOptions, send_rows
from cometmq.wire.acl import Credentials

GROUP: Final = "cometmq-spark-replay"
BORN_TIME: Final = "ORIGIN_BORN_TIME"
"""The property with the born time, ms: the protocol has one born time for all messages of a batch."""
ORIGIN: Final = ("topic", "queue_id", "queue_offset", "store_host")
KNOWN_BY: Final = (*ORIGIN, "tags", "store_time", "physical_offset")
CONTENT: Final = ("keys", "properties", "body", "flag", "born_time")
CHUNKS_PER_SECOND: Final = 10
CHUNK_MAX: Final = 1_000
_SENT: Final[dict[str, pa.DataType]] = {"topic": pa.string(), "messages": pa.int64()}

_WITH_BORN_TIME: Final = (
    f"if(map_contains_key(properties, '{BORN_TIME}'), properties, "
    f"map_concat(properties, map('{BORN_TIME}', string(unix_millis(born_time)))))"
)


class ReplayFilter(NamedTuple):
    """Conditions on the messages to replay; all must hold.

    Attributes:
        topics: by default all but system topics, retry topics and dead-letter topics.
        tags: one of these.
        begin_time: earliest store time, ms.
        end_time: latest store time, ms.
    """

    topics: frozenset[str] | None = None
    tags: frozenset[str] | None = None
    begin_time: int = ALL_TIMES[0]
    end_time: int = ALL_TIMES[1]


class Pace:
    """Limits the rate of sends. Time in which a broker was away is not made up for.

    Args:
        per_second: messages per second.

    Attributes:
        chunk: messages to send at once.
    """

    def __init__(self, per_second: float) -> None:
        self.chunk = max(1, min(int(per_second / CHUNKS_PER_SECOND), CHUNK_MAX))
        self._per_second = per_second
        self._due = float("-inf")

    def wait_s(self, messages: int, now: float) -> float:
        """Return the seconds from ``now`` that these messages have to wait, and count them as sent."""
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
    credentials: Credentials | None = None,
    tls: TLS | bool | None = None,
    progress: Progress | None = None,
    bytes_per_task: int = BYTES_PER_PARTITION,
) -> dict[str, int]:
    """Send messages again; return how many were sent, by the topic of the originals.

    Args:
        source: a store, a target of ``archive``, or one of ``export`` with all columns; a path, or an
            address that fsspec reads.
        namesrv: name servers, ``host:port``, several joined by ``;``.
        rate: messages per second of all tasks together, at most.
        wanted: the messages to replay.
        topic: where all are sent; each to its own topic by default. Topics must exist, unless the broker
            creates them.
        retry_s: how long sends that fail are retried.
        credentials: sign the requests; None for those of the environment (``client/credentials.py``).
        tls: how to connect by TLS; True to trust the system's authorities, None to connect plainly.
        bytes_per_task: bytes of the log that one task reads.

    Raises:
        SettingsError: the source does not exist, lacks columns, or needs a package; or ``rate`` is below 1.
        IllegalName: ``topic`` is no topic name.
        NetworkError, RemoteError: within Spark's error, which names it.
    """
    if rate < 1:
        raise SettingsError(f"rate {rate}: give 1 message a second or more")
    target = None if topic is None else valid_topic(topic)
    servers = name_servers("namesrv", namesrv)
    signer = find_credentials(credentials)
    options = SinkOptions(servers, target, GROUP, retry_s, tls=tls_of(tls), credentials=signer)
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
        counts = [row for row in counted if wanted.topics is not None or is_user_topic(row["topic"])]
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


def stored(
    spark: SparkSession,
    source: Path,
    columns: tuple[str, ...],
    *,
    topics: frozenset[str] | None = None,
    times: tuple[int, int] = ALL_TIMES,
    bytes_per_task: int = BYTES_PER_PARTITION,
) -> DataFrame:
    """Return columns of the messages in a store, an archive, exported Parquet or a Delta table.

    Args:
        topics: None for all.
        times: first and last store time of interest, ms: see ``filled``.
        bytes_per_task: bytes of a store's log that one task reads.

    Raises:
        SettingsError: it is none of these, or lacks columns, or Delta's package is not installed.
    """
    found = filled(spark, source, columns, topics=topics, times=times)
    if found is not None:
        return found
    return records(
        spark, log_files(source), columns, LogRange(), topics=topics, bytes_per_task=bytes_per_task
    )


def placed(messages: DataFrame, tasks: int) -> DataFrame:
    """Move messages to the partition in their column ``task``, and sort each by the log."""
    timed = messages.withColumn("properties", f.expr(_WITH_BORN_TIME))
    return timed.repartitionById(tasks, "task").sortWithinPartitions("physical_offset")


def shares(rate: int, counts: Iterable[tuple[int, int]]) -> dict[int, float]:
    """Return the rate of each task, from its counts of messages, as (task, count)."""
    messages: Counter[int] = Counter()
    for task, count in counts:
        messages[task] += count
    return {task: rate * count / messages.total() for task, count in messages.items()}


async def send_all(
    options: SinkOptions, rates: Mapping[int, float], batches: Iterable[pa.RecordBatch]
) -> Counter[str]:
    """Send the rows of a task at its rate; return how many were sent, by topic."""
    sent: Counter[str] = Counter()
    loop = asyncio.get_running_loop()
    async with options.producer() as producer:
        pace: Pace | None = None
        for batch in (batch for batch in batches if batch.num_rows):
            pace = pace or Pace(rates[batch.column("task")[0].as_py()])
            for chunk in _chunks(batch, pace.chunk):
                await asyncio.sleep(pace.wait_s(chunk.num_rows, loop.time()))
                keys = _keys(chunk)
                rows = rows_of(_with_topic(chunk, options.topic), None, lambda *_, keys=keys: next(keys))
                await send_rows(producer, rows, options.retry_s, matching_queue)
                sent.update(map(str, chunk.column("topic").to_pylist()))
    return sent


async def matching_queue(producer: Producer, topic: str, queue_id: int) -> MessageQueue:
    """Return the queue for messages of queue ``queue_id``: its id modulo the number of queues."""
    queues = sorted(await producer.queues(topic))
    return queues[queue_id % len(queues)]


def _messages(
    spark: SparkSession, source: Path, columns: tuple[str, ...], wanted: ReplayFilter, bytes_per_task: int
) -> DataFrame:
    times = (wanted.begin_time, wanted.end_time)
    found = stored(spark, source, columns, topics=wanted.topics, times=times, bytes_per_task=bytes_per_task)
    conditions = [f.expr("unix_millis(store_time)").between(*times)]
    if wanted.tags is not None:
        conditions.append(f.col("tags").isin(*wanted.tags))
    return found.where(reduce(and_, conditions))


def _chunks(batch: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    return (batch.slice(begin, size) for begin in range(0, batch.num_rows, size))


def _keys(batch: pa.RecordBatch) -> Iterator[str]:
    """Yield the idempotence key of each row, which ``drop_duplicates`` also uses for the originals."""
    for origin in zip(*(batch.column(name).to_pylist() for name in ORIGIN), strict=True):
        yield "/".join(map(str, origin))


def _with_topic(batch: pa.RecordBatch, topic: str | None) -> pa.RecordBatch:
    if topic is None:
        return batch
    place = batch.schema.get_field_index("topic")
    return batch.set_column(place, "topic", pa.array([topic] * batch.num_rows, pa.string()))
