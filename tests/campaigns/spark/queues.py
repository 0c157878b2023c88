"""Ten thousand queues on two brokers: what a trigger of a stream costs, with news and without.

    python -m tests.campaigns queues [--queues 5000] [--messages 1000] [--triggers 20] [--seconds 0.5]

A topic has so many queues on each broker, and some messages, each in another queue. A reader plans and
reads a micro-batch, and is asked for more in vain, with every request counted. Then Spark streams the
topic: all messages must come in one micro-batch, no worker may have more than four connections, and
triggers without news must not take longer than they may, on a machine that does nothing else.
"""

import asyncio
import os
import random
import signal
import statistics
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeVar

from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.streaming.readwriter import DataStreamWriter
from tests.campaigns.kit.processes import BrokerProcess
from tests.campaigns.kit.spark_workers import spark_workers
from tests.spark.live.conftest import counted

from cometmq import Message, Producer
from cometmq.admin.topics import TopicAdmin
from cometmq.spark import session
from cometmq.spark.live.offsets import NestedOffsets
from cometmq.spark.live.options import parse
from cometmq.spark.live.stream import LiveStreamReader
from cometmq.wire.codes import RequestCode

T = TypeVar("T")

TOPIC: Final = "wide"
BROKERS: Final = ("broker-a", "broker-b")
REQUESTS_MAX: Final = 20
"""Of a trigger without news."""
CONNECTIONS_MAX: Final = 4
"""Of one worker of Spark."""
LOOK_S: Final = 1
CONF: Final = {"spark.sql.streaming.noDataProgressEventInterval": "0"}


def options(parser: ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--queues", type=int, default=5_000, help="on each broker (%(default)s)")
    parser.add_argument("--messages", type=int, default=1_000)
    parser.add_argument("--triggers", type=int, default=20, help="without news (%(default)s)")
    parser.add_argument("--seconds", type=float, default=0.5, help="that one may take (%(default)s)")


def main(options: Namespace) -> list[str]:
    """Run the campaign and print what it found."""
    with tempfile.TemporaryDirectory(prefix="cometmq-queues-") as folder:
        return asyncio.run(Campaign(Path(folder), options).run())


class Campaign:
    """Two brokers behind a name server, each a process of its own."""

    def __init__(self, folder: Path, given: Namespace) -> None:
        self._folder = folder
        self._given = given
        first = BrokerProcess(folder / BROKERS[0], broker_name=BROKERS[0])
        self._name_server = first.name_server
        second = BrokerProcess(folder / BROKERS[1], broker_name=BROKERS[1], namesrv_addr=first.name_server)
        self._brokers = [first, second]
        self._wrong: list[str] = []

    async def run(self) -> list[str]:
        """Return which limits were passed."""
        for broker in self._brokers:
            await broker.start()
        try:
            await self._fill()
            await asyncio.to_thread(self._read)
            await asyncio.to_thread(self._stream)
        finally:
            for broker in self._brokers:
                await broker.end(signal.SIGTERM)
        return self._wrong

    async def _fill(self) -> None:
        async with TopicAdmin(self._name_server) as admin, Producer(self._name_server) as producer:
            made = await admin.create(TOPIC, queues=self._given.queues)
            assert sorted(made) == list(BROKERS), made
            queues = random.sample(await producer.queues(TOPIC), self._given.messages)
            for queue in queues:
                await producer.send(Message(TOPIC, b"%d" % queue.queue_id), queue)
        print(f"{self._given.queues:,} queues on each of {len(BROKERS)}, messages in {len(queues):,}")

    def _read(self) -> None:
        """Read as Spark does, in this process, and count requests."""
        options = {"namesrv": self._name_server, "subscribe": TOPIC, "startingOffsets": "earliest"}
        reader = LiveStreamReader(parse(options, stream=True), ("queue_offset", "body"))
        try:
            start = self._counted("initialOffset", reader.initialOffset)
            end = self._counted("latestOffset with news", lambda: latest(reader, start))
            parts = self._counted("partitions", lambda: reader.partitions(start, end))
            rows = self._counted(
                "read", lambda: sum(batch.num_rows for part in parts for batch in reader.read(part))
            )
            self._check("tasks", len(parts), 1)
            self._check("rows that are missing", self._given.messages - rows, 0)
            seconds = []
            for _ in range(self._given.triggers):
                began = time.perf_counter()
                with counted() as traffic:
                    assert latest(reader, end) == end
                seconds.append(time.perf_counter() - began)
                self._check("requests without news", traffic.total, REQUESTS_MAX)
            self._judge("latestOffset without news", seconds)
        finally:
            reader.stop()

    def _counted(self, what: str, work: Callable[[], T]) -> T:
        began = time.perf_counter()
        with counted() as traffic:
            done = work()
        named = ", ".join(f"{RequestCode(code).name} {count}" for code, count in traffic.requests.items())
        seconds = time.perf_counter() - began
        print(
            f"{what}: {seconds:.2f} s, {len(traffic.opened)} connections, {traffic.total} requests: {named}"
        )
        return done

    def _stream(self) -> None:
        """Read all messages by Spark, and then look for more in vain."""
        with session("local[2]", "queues", work_dir=self._folder / "work", conf=CONF) as spark:
            query = self._writer(spark).trigger(availableNow=True).start()
            query.awaitTermination()
            self._check_connections()
            full = [one for one in query.recentProgress if one["numInputRows"]]
            rows = [one["numInputRows"] for one in full]
            took = full[0]["durationMs"]["triggerExecution"] / 1000
            print(f"Spark: {rows} rows in micro-batches, the first one in {took:.2f} s")
            self._check("micro-batches", len(rows), 1)
            self._check("rows that are missing", self._given.messages - sum(rows), 0)
            query = self._writer(spark).trigger(processingTime="100 milliseconds").start()
            while len(query.recentProgress) < self._given.triggers:
                query.awaitTermination(LOOK_S)
            self._check_connections()
            seconds = [one["durationMs"]["triggerExecution"] / 1000 for one in query.recentProgress[1:]]
            query.stop()
            self._judge("Spark: a trigger without news", seconds)

    def _check_connections(self) -> None:
        servers = [self._name_server, *(f"127.0.0.1:{broker.port}" for broker in self._brokers)]
        of_workers = connections(int(address.rpartition(":")[2]) for address in servers)
        print(f"Spark: connections of workers: {of_workers}")
        self._check("connections of a worker", max(of_workers), CONNECTIONS_MAX)

    def _writer(self, spark: SparkSession) -> DataStreamWriter:
        options = {"namesrv": self._name_server, "subscribe": TOPIC, "startingOffsets": "earliest"}
        rows = spark.readStream.format("rocketmq").options(**options).load()
        return rows.writeStream.format("noop").option("checkpointLocation", str(self._folder / "checkpoint"))

    def _judge(self, what: str, seconds: list[float]) -> None:
        median = statistics.median(seconds)
        print(f"{what}: {median:.3f} s (median of {len(seconds)}; {min(seconds):.3f} to {max(seconds):.3f})")
        self._check(f"seconds of {what}", median, self._given.seconds)

    def _check(self, what: str, found: float, most: float) -> None:
        if found > most:
            self._wrong.append(f"{what}: {found}, not {most} at most")


def latest(reader: LiveStreamReader, start: NestedOffsets) -> NestedOffsets:
    """Ask up to where the next micro-batch reads."""
    return reader.latestOffset(start, ReadAllAvailable())


def connections(ports: Iterable[int]) -> list[int]:
    """Count the connections to some ports of this machine of each of Spark's workers that has some."""
    wanted = {f"{port:04X}" for port in ports}
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    sockets = {f"socket:[{line[9]}]" for line in lines if line[2].rpartition(":")[2] in wanted}
    found = []
    for process in spark_workers():
        opened = [os.readlink(path) for path in (process / "fd").iterdir()]
        found.append(len(sockets.intersection(opened)))
    return [count for count in found if count]
