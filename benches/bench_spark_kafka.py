"""Topics read by Spark: this source beside Spark's own for Kafka, in one run on ``local[2]``.

    python -m benches.bench_spark_kafka [--rows N] [--rounds N]

Both brokers hold the same rows, with bodies of 1 KiB and of 128 bytes, in topics with 8 queues. The sources
take turns; figures are medians of the rounds, and a ratio above 1 is in favour of CometMQ. There are two
tables: in the first both are told to give much at once, CometMQ's broker by four settings (``GENEROUS``)
and Kafka's consumer not to wait half a second at the end of each partition (``IMPATIENT``); in the second
both are as they come.

A third source has its rows at hand (``null_source``). The last column is CometMQ's speed as a part of that
one's: of the most that Spark allows a source in Python.

Spark starts Python for this source: a planner for each read, workers that stay, and a process for each
stream. What that costs shows in the lines of 2,000 rows, of starts and of micro-batches. For Kafka, Maven
fetches the connector (``spark_kafka/pom.xml``); it runs on the Spark that is installed.

Behind the tables come topics with very many queues, on brokers of their own: what a trigger of a stream takes
that finds nothing new, after a turn of each source that is not measured. ``--only-many-queues`` measures
nothing else.
"""

import argparse
import asyncio
import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyspark
from benches import kafka_peer, kit, null_source
from benches.bench_arrow_pull import GENEROUS
from benches.load import Load
from pyspark.sql import DataFrameReader, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from tests.interop import jvm, peers

from cometmq import Message, Producer
from cometmq.admin.topics import TopicAdmin
from cometmq.spark import session

POM: Final = Path(__file__).parent / "spark_kafka" / "pom.xml"
ROWS: Final = 300_000
ROUNDS: Final = 5
SIZES: Final = {"bench-0": 1024, "bench-1": 128}
"""Bytes of a body by topic, under the load generator's names for topics."""
FEW: Final = "bench-2"
FEW_ROWS: Final = 2_000
FEW_AT_ONCE: Final = 100
"""Of one micro-batch, when latency is measured: there are twenty."""
QUEUES: Final = 8
SENT_AT_ONCE: Final = 4_096
MANY_QUEUES: Final = 10_000
MANY: Final = tuple(f"bench-{number}" for number in range(4))
"""The topics that have them, on brokers of their own: Kafka makes no topic of 10,000 partitions at once."""
IDLE_TRIGGERS: Final = 20
EVERY_TRIGGER: Final = {"spark.sql.streaming.noDataProgressEventInterval": "0"}
"""Makes Spark tell of triggers that find nothing."""
LOOK_S: Final = 1
IMPATIENT: Final = {"kafka.fetch.max.wait.ms": "10"}


class Source(NamedTuple):
    """A source, and where its rows are.

    Attributes:
        columns: those that make a table of the same content; the last one is the body.
        for_count: the option that says what a count needs, for a source that Spark does not tell.
    """

    name: str
    where: dict[str, str]
    columns: tuple[str, ...]
    for_count: dict[str, str]

    def options(self, topic: str) -> dict[str, str]:
        """Return the options of a read of a whole topic."""
        return self.where | {"subscribe": topic, "startingOffsets": "earliest"}

    @property
    def for_table(self) -> dict[str, str]:
        """Return the option for ``columns``."""
        return self.for_count and {"columns": ",".join(self.columns)}


Measured = Callable[[Source], float]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benches.bench_spark_kafka", description="beside Kafka")
    parser.add_argument("--rows", type=int, default=ROWS, help="of each size (%(default)s)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of which medians are taken (%(default)s)")
    parser.add_argument("--queues", type=int, default=MANY_QUEUES, help="of the last line (%(default)s)")
    parser.add_argument("--only-many-queues", action="store_true", help="measure the last line alone")
    given = parser.parse_args()
    kit.compile_kernels()
    (connector,) = jvm.jars(POM).glob("spark-sql-kafka-*.jar")
    print(f"Spark {pyspark.__version__} local[2], {connector.stem}, Kafka {kafka_peer.version()}")
    print(f"{given.rows:,} rows of each size in {QUEUES} queues, medians of {given.rounds}")
    with tempfile.TemporaryDirectory(prefix="cometmq-bench-") as name:
        folder = Path(name)
        if not given.only_many_queues:
            with kafka_peer.kafka(folder / "kafka") as kafka:
                with brokers(folder, kafka.broker, GENEROUS, IMPATIENT) as sources:
                    fill(folder, sources, kafka, given.rows)
                    compare("told to give much", folder, [*sources, at_hand(given.rows)], given)
                with brokers(folder, kafka.broker, {}, {}) as sources:
                    compare("as they come", folder, [*sources, at_hand(given.rows)], given)
        compare_idle(folder / "many", given.queues)


@contextlib.contextmanager
def brokers(
    folder: Path, kafka: str, settings: Mapping[str, object], options: Mapping[str, str]
) -> Iterator[list[Source]]:
    """Run CometMQ with some settings; give both sources, Kafka's with some options."""
    with peers.cometmq(folder / "store", settings) as broker:
        yield [
            Source(
                "rocketmq",
                {"namesrv": broker.namesrv},
                ("topic", "queue_id", "queue_offset", "store_time", "body"),
                {"columns": "queue_offset"},
            ),
            Source(
                "kafka",
                {"kafka.bootstrap.servers": kafka, **options},
                ("topic", "partition", "offset", "timestamp", "value"),
                {},
            ),
        ]


def at_hand(rows: int) -> Source:
    """Return the source that has as many rows as the topics, and needs no broker."""
    counts = dict.fromkeys(SIZES, rows) | {FEW: FEW_ROWS}
    where = {f"{topic}.rows": str(count) for topic, count in counts.items()}
    where |= {f"{topic}.size": str(size_of(topic)) for topic in counts}
    return Source(null_source.NAME, where, null_source.COLUMNS, {"columns": "queue_offset"})


def compare(title: str, folder: Path, sources: list[Source], given: argparse.Namespace) -> None:
    """Measure the sources in turns, and print a line for each kind of read."""
    print_head(title)

    def add(what: str, measure: Measured, rounds: int = given.rounds, rows: int = 0) -> None:
        taken = [[measure(source) for source in sources] for _ in range(rounds)]
        print_line(what, [statistics.median(seconds) for seconds in zip(*taken, strict=True)], rows)

    add("2,000 rows, first read of a session", partial(first_seconds, folder))
    spark = started(folder)
    for source in sources:  # whoever comes first would pay for Spark's own first times
        parquet_seconds(spark, FEW, folder, source)
    add("2,000 rows, later read", partial(count_seconds, spark, FEW))
    for topic, size in SIZES.items():
        for what, measure in (
            ("count", partial(count_seconds, spark, topic)),
            ("count, no columns named", partial(count_seconds, spark, topic, named=False)),
            ("to Parquet", partial(parquet_seconds, spark, topic, folder)),
            ("stream, in its micro-batches", partial(stream_seconds, spark, topic, folder)),
        ):
            add(f"{size} B, {what}", measure, rows=given.rows)
    add("start of a stream", partial(stream_start_seconds, spark, folder))
    add("micro-batch of 100 rows", partial(micro_batch_seconds, spark, folder), rounds=1)
    spark.stop()


def compare_idle(folder: Path, queues: int) -> None:
    """Measure triggers that find nothing new in topics with very many queues, and print a line."""
    with (
        kafka_peer.kafka(folder / "kafka") as kafka,
        brokers(folder, kafka.broker, {}, {}) as sources,
        Load.for_kafka(folder) as load,
    ):
        load.order(kafka, mode="create", topics=len(MANY), queues=queues // len(MANY))
        asyncio.run(create(sources[0].where["namesrv"], queues))
        spark = started(folder, EVERY_TRIGGER)
        print_head("topics with very many queues", is_null_there=False)
        for source in sources:  # whoever comes first would pay for Spark's own first times
            idle_seconds(spark, folder, source)
        seconds = [idle_seconds(spark, folder, source) for source in sources]
        print_line(f"{queues:,} queues, idle trigger", seconds)
        spark.stop()


async def create(name_server: str, queues: int) -> None:
    """Create the topics with very many queues at CometMQ."""
    async with TopicAdmin(name_server) as admin:
        for topic in MANY:
            await admin.create(topic, queues=queues // len(MANY))


def print_head(title: str, *, is_null_there: bool = True) -> None:
    """Print the head of a table."""
    part = "of the null" if is_null_there else ""
    print(f"\n{title:<40} {'CometMQ':>11} {'Kafka':>11} {'ratio':>6} {part:>11}".rstrip())


def print_line(what: str, taken: Sequence[float], rows: int = 0) -> None:
    """Print what both took, in seconds, or how many of so many rows they read in a second.

    Args:
        taken: seconds of CometMQ, of Kafka, and mostly of the source that asks nobody.
    """
    ours, kafka, *null = taken
    shown = [f"{rows / seconds:,.0f}/s" if rows else f"{seconds:.2f} s" for seconds in (ours, kafka)]
    part = f"{null[0] / ours:.0%}" if null else ""
    print(f"{what:<40} {shown[0]:>11} {shown[1]:>11} {kafka / ours:>5.2f}x {part:>11}".rstrip(), flush=True)


def started(folder: Path, conf: Mapping[str, str] = {}) -> SparkSession:
    """Start Spark, and have it run something, so that the first read pays only for itself."""
    jars = ",".join(str(path) for path in sorted(jvm.jars(POM).glob("*.jar")))
    spark = session("local[2]", "bench", work_dir=folder / "spark", conf={"spark.jars": jars, **conf})
    spark.dataSource.register(null_source.NullSource)
    spark.range(FEW_ROWS).repartition(2).count()
    return spark


def fill(folder: Path, sources: list[Source], kafka: peers.Peer, rows: int) -> None:
    """Write the same rows into both, and check that they are there."""
    ours, other = sources
    counts = dict.fromkeys(SIZES, rows) | {FEW: FEW_ROWS}
    with Load.for_kafka(folder) as load:
        load.order(kafka, mode="create", topics=len(counts))
    asyncio.run(send(ours.where["namesrv"], counts))
    spark = started(folder)
    for topic, count in counts.items():
        body = f"cast(rpad(string(id), {size_of(topic)}, '.') AS binary) AS value"
        writer = spark.range(count).selectExpr(body).write.format(other.name)
        writer.options(**other.where, topic=topic).mode("append").save()
        found = [content(spark, topic, source) for source in sources]
        assert found[0] == found[1] and found[0][0] == count, f"{topic}: rows and their sums are {found}"
    spark.stop()


async def send(name_server: str, counts: Mapping[str, int]) -> None:
    """Send rows to CometMQ, many in each request."""
    async with TopicAdmin(name_server) as admin, Producer(name_server, "fill") as producer:
        for topic, count in counts.items():
            await admin.create(topic, queues=QUEUES)
            for start in range(0, count, SENT_AT_ONCE):
                bodies = (
                    str(n).ljust(size_of(topic), ".") for n in range(start, min(start + SENT_AT_ONCE, count))
                )
                await producer.send_many([Message(topic, body.encode()) for body in bodies])


def size_of(topic: str) -> int:
    """Return how many bytes a body of a topic has."""
    return SIZES.get(topic, min(SIZES.values()))


def content(spark: SparkSession, topic: str, source: Source) -> list[Any]:
    """Return how many rows a topic has, and the sum of their bodies' checksums."""
    frame = reader(spark, topic, source, source.for_table).load()
    return list(frame.agg(f.count("*"), f.sum(f.crc32(source.columns[-1]))).collect()[0])


def first_seconds(folder: Path, source: Source) -> float:
    """Time the first read of a session, which for some source starts Python."""
    spark = started(folder)
    try:
        return count_seconds(spark, FEW, source)
    finally:
        spark.stop()


def count_seconds(spark: SparkSession, topic: str, source: Source, *, named: bool = True) -> float:
    """Time a count of a topic's rows, with the columns named that it needs or without."""
    return seconds_of(reader(spark, topic, source, source.for_count if named else {}).load().count)


def parquet_seconds(spark: SparkSession, topic: str, folder: Path, source: Source) -> float:
    """Time a copy of a topic to Parquet files."""

    def copy() -> None:
        rows = reader(spark, topic, source, source.for_table).load().select(*source.columns)
        rows.write.mode("overwrite").parquet(str(folder / "parquet"))

    return seconds_of(copy)


def reader(spark: SparkSession, topic: str, source: Source, options: Mapping[str, str]) -> DataFrameReader:
    """Return the reader of a whole topic."""
    return spark.read.format(source.name).options(**source.options(topic), **options)


def stream_seconds(spark: SparkSession, topic: str, folder: Path, source: Source) -> float:
    """Time the micro-batches that read a topic to nowhere."""
    return sum(batch_seconds(drained(spark, topic, folder, source)))


def stream_start_seconds(spark: SparkSession, folder: Path, source: Source) -> float:
    """Time what a stream of few rows takes besides its micro-batches."""
    began = time.perf_counter()
    query = drained(spark, FEW, folder, source)
    return time.perf_counter() - began - sum(batch_seconds(query))


def micro_batch_seconds(spark: SparkSession, folder: Path, source: Source) -> float:
    """Return what a micro-batch of few rows takes: the median of a stream's, but for the first."""
    query = drained(spark, FEW, folder, source, maxOffsetsPerTrigger=str(FEW_AT_ONCE))
    return statistics.median(batch_seconds(query)[1:])


def idle_seconds(spark: SparkSession, folder: Path, source: Source) -> float:
    """Return what a trigger takes that finds nothing new: the median of a stream's, but for the first."""
    options = source.options(",".join(MANY)) | {"startingOffsets": "latest"}
    stream = spark.readStream.format(source.name).options(**options).load()
    with tempfile.TemporaryDirectory(dir=folder) as checkpoint:
        writer = stream.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(processingTime="0 seconds").start()
        while len(query.recentProgress) <= IDLE_TRIGGERS:
            query.awaitTermination(LOOK_S)
        taken: list[float] = [one["durationMs"]["triggerExecution"] / 1000 for one in query.recentProgress]
        query.stop()
    return statistics.median(taken[1:])


def batch_seconds(query: StreamingQuery) -> list[float]:
    """Return what each micro-batch took that had rows, its planning and its commit with it."""
    full = [one for one in query.recentProgress if one["numInputRows"]]
    return [one["durationMs"]["triggerExecution"] / 1000 for one in full]


def drained(spark: SparkSession, topic: str, folder: Path, source: Source, **limits: str) -> StreamingQuery:
    """Stream what a topic has to nowhere."""
    stream = spark.readStream.format(source.name).options(**source.options(topic), **source.for_table)
    with tempfile.TemporaryDirectory(dir=folder) as checkpoint:
        rows = stream.options(**limits).load().select(*source.columns)
        writer = rows.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
    return query


def seconds_of(work: Callable[[], object]) -> float:
    """Time a piece of work."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
