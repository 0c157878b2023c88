"""Whole topics pulled from a CometMQ broker into Arrow batches, beside what Kafka's Java consumer takes.

    python -m benches.bench_arrow_pull [--quick] [--no-kafka]

Both brokers hold 128-byte messages of 64 topics with 8 queues, sent in batches of some kilobytes, and give
up to a megabyte of a queue at once: Kafka by default, CometMQ because it is told to. Both readers are one
process and begin with the first messages; they take turns. Figures are messages/s, medians of the windows.
"""

import argparse
import asyncio
import contextlib
import signal
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import uvloop
from benches import kafka_peer, kit
from benches.cells import BODY_SIZE, FEW_THREADS, Cell
from benches.load import Load
from benches.peers import TOPICS
from rich.console import Console
from rich.table import Table
from tests.interop import peers
from tests.interop.peers import Peer

from cometmq import Message, Producer, PullConsumer, kernels
from cometmq.client.requests.queue_requests import PullStatus, QueuePull
from cometmq.kernels.arrow.plain import TYPES
from cometmq.message import MessageQueue
from cometmq.spark.pulled import batches

MESSAGES: Final = 4_000_000
"""A window of some seconds: what the other reader and its broker leave to do shall not fill half of it."""
REST_S: Final = 2.0
"""So long each waits for that before it begins."""
QUICK: Final = 100_000
ROUNDS: Final = 3
BATCH: Final = 32
SENDERS: Final = 32
CONNECTIONS: Final = 2
PULLS: Final = 4
"""So many pulls of one connection are unanswered at a time."""
PULL_BYTES: Final = 1 << 20
PULL_COUNT: Final = 8_192
KAFKA_FILL_S: Final = 6.0
WINDOW_S: Final = 60.0
"""Longer than what is there takes to read."""
GENEROUS: Final = {
    f"maxTransfer{what}OnMessageIn{where}": most
    for where in ("Memory", "Disk")
    for what, most in (("Count", PULL_COUNT), ("Bytes", PULL_BYTES))
}
AS_KAFKA: Final = ("topic", "queue_id", "queue_offset", "store_time", "tags", "body")
"""What Kafka's consumer gives of a record: key, value and where it was."""


class Window(NamedTuple):
    """What came, and what it cost."""

    messages: int
    seconds: float
    broker_us: float
    reader_us: float

    @property
    def per_second(self) -> float:
        """Messages a second."""
        return self.messages / self.seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benches.bench_arrow_pull", description="Arrow pulls")
    parser.add_argument("--quick", action="store_true", help="few messages: to try it")
    parser.add_argument("--no-kafka", action="store_true", help="without the peer")
    options = parser.parse_args()
    kit.compile_kernels()
    kernels.load()
    count = QUICK if options.quick else MESSAGES
    with tempfile.TemporaryDirectory(prefix="cometmq-bench-") as name:
        folder = Path(name)
        with (
            peers.cometmq(folder / "store", GENEROUS, ended_by=signal.SIGKILL) as broker,
            contextlib.nullcontext() if options.no_kafka else kafka_with(folder, count) as kafka,
        ):
            uvloop.run(fill(broker.namesrv, count))
            columns = {"columns of a Kafka record": AS_KAFKA, "all columns": tuple(TYPES)}
            windows: dict[str, list[Window]] = {which: [] for which in columns}
            kafka_rates: list[float] = []
            for _ in range(ROUNDS):
                for which, chosen in columns.items():
                    time.sleep(REST_S)
                    windows[which].append(uvloop.run(read(broker, chosen)))
                if kafka is not None:
                    time.sleep(REST_S)
                    kafka_rates.append(consumed(*kafka))
    Console().print(table_of(windows, kafka_rates))


@contextlib.contextmanager
def kafka_with(folder: Path, count: int) -> Iterator[tuple[Peer, Load]]:
    """Run Kafka, with so many messages or more."""
    cell = Cell("async", "async", threads=FEW_THREADS, topics=TOPICS)
    with kafka_peer.kafka(folder / "kafka") as peer, Load.for_kafka(folder) as load:
        load.order(peer, mode="create", topics=TOPICS)
        stored = 0.0
        while stored < count:
            stored += load.window(peer, cell, KAFKA_FILL_S)["count"]
        yield peer, load


def consumed(peer: Peer, load: Load) -> float:
    """Return the rate at which a new group's consumer takes all that is there."""
    rate: float = load.window(peer, Cell("push consume", "push", threads=0, topics=TOPICS), WINDOW_S)[
        "perSecond"
    ]
    return rate


async def fill(name_server: str, count: int) -> None:
    """Send messages, some in each request."""
    body = bytes(97 + place % 26 for place in range(BODY_SIZE))
    rounds = iter(range(-(-count // BATCH)))

    async def work(producer: Producer) -> None:
        for number in rounds:
            await producer.send_many([Message(f"bench-{number % TOPICS}", body) for _ in range(BATCH)])

    async with Producer(name_server, "load") as producer:
        await asyncio.gather(*(work(producer) for _ in range(SENDERS)))


async def read(broker: Peer, columns: Sequence[str]) -> Window:
    """Pull all that is there into batches of some columns."""
    async with contextlib.AsyncExitStack() as stack:
        consumers = [
            await stack.enter_async_context(PullConsumer(broker.namesrv, f"arrow-{number}"))
            for number in range(CONNECTIONS)
        ]
        queues = [queue for topic in range(TOPICS) for queue in await consumers[0].queues(f"bench-{topic}")]
        left = iter(queues)
        began, cpu, broker_cpu = time.perf_counter(), time.process_time(), kit.cpu_s(broker.pid)
        counts = await asyncio.gather(
            *(pull_all(consumer, left, columns) for consumer in consumers for _ in range(PULLS))
        )
        seconds = time.perf_counter() - began
        cpu, broker_cpu = time.process_time() - cpu, kit.cpu_s(broker.pid) - broker_cpu
    count = sum(counts)
    return Window(count, seconds, broker_cpu / count * 1e6, cpu / count * 1e6)


async def pull_all(consumer: PullConsumer, queues: Iterator[MessageQueue], columns: Sequence[str]) -> int:
    """Pull queue after queue; give how many messages came."""
    count = 0
    for queue in queues:
        first = QueuePull(queue, 0, max_count=PULL_COUNT, max_bytes=PULL_BYTES)
        pulled = await consumer.pull_records(first)
        while pulled.status is PullStatus.FOUND:
            following = asyncio.ensure_future(
                consumer.pull_records(msgspec.structs.replace(first, queue_offset=pulled.next_offset))
            )
            count += sum(batch.num_rows for batch in batches(pulled.body, columns, on_damage=print))
            pulled = await following
    return count


def table_of(windows: dict[str, list[Window]], kafka_rates: list[float]) -> Table:
    """Show the medians, and the ratios to Kafka's rate."""
    table = Table("", "messages/s", "broker µs", "reader µs", "of Kafka's", title="Pulled into Arrow batches")
    kafka_rate = statistics.median(kafka_rates) if kafka_rates else 0.0
    for name, ran in windows.items():
        rate, broker_us, reader_us = (
            statistics.median(getattr(window, figure) for window in ran)
            for figure in ("per_second", "broker_us", "reader_us")
        )
        ratio = f"{rate / kafka_rate:.2f}x" if kafka_rate else "-"
        table.add_row(name, f"{rate:,.0f}", f"{broker_us:.2f}", f"{reader_us:.2f}", ratio)
    if kafka_rate:
        table.add_row("Kafka's Java consumer", f"{kafka_rate:,.0f}", "", "", "")
    return table


if __name__ == "__main__":
    main()
