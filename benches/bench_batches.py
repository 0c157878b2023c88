"""Batches: what the broker stores of them on one core, beside Kafka's async producer in the same run.

    python -m benches.bench_batches [--quick] [--no-kafka]

Three loads take turns, each with 128-byte messages to 128 topics of 8 queues: batches of 32 made beforehand,
over one raw connection (``raw_batches.py``); our own producer, whose single sends linger for company, in one
process; Kafka's own client sending to Kafka's broker, async. A broker's CPU time is that of its whole
process: sockets, store, dispatch and index. What CPU time a message costs counts where load and broker
share the machine's cores: a million microseconds divided by it are the messages that one core stores. The
broker is told to let sends wait: batches come as fast as the socket takes them.

Then what the write path costs beside the least that any could do: the bytes of batches go through a broker's
parts without a socket, and the bytes that it wrote go with ``pwrite`` to another file of the same directory,
in the same blocks.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import uvloop
from benches import bench_bulk_sends, kafka_peer, kit
from benches.cells import BODY_SIZE, FEW_THREADS, QUEUES, Cell
from benches.load import Load
from benches.raw_batches import BATCH, Batches, RawBatches
from rich.console import Console
from rich.table import Table
from tests.interop import peers
from tests.interop.peers import Peer

from cometmq import kernels
from cometmq.admin.topics import TopicAdmin
from cometmq.format import layout
from cometmq.store.settings import StoreSettings

TOPICS: Final = 128
ASYNC: Final = Cell("async", "async", topics=TOPICS, threads=FEW_THREADS)
LINGER: Final = Cell("linger", "linger", topics=TOPICS)
READ_SIZE: Final = 256_000
"""So much a read of the broker's event loop brings at most."""
WRITE_MIB: Final = 256
FIGURES: Final = (
    ("messages/s", "perSecond", 0),
    ("broker CPU µs/message", "cpuMicros", 2),
    ("messages/s on one core of the broker", "perCore", 0),
    ("client CPU µs/message", "clientCpuMicros", 2),
)

Window = dict[str, Any]


FULL: Final = kit.Length(warm_ups=6, window_s=6, rounds=3)
QUICK: Final = kit.Length(warm_ups=1, window_s=2, rounds=1)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benches.bench_batches", description="batches")
    parser.add_argument("--quick", action="store_true", help="one round of short windows, to try it")
    parser.add_argument("--no-kafka", action="store_true", help="leave Kafka out")
    options = parser.parse_args()
    length = QUICK if options.quick else FULL
    kit.compile_kernels()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="cometmq-bench-") as name, contextlib.ExitStack() as stack:
        windows = measure(dict(loads(Path(name), stack, with_kafka=not options.no_kafka)), length)
        console.print(table_of(windows))
    with tempfile.TemporaryDirectory(prefix="cometmq-bench-") as name:
        console.print(writes_table(uvloop.run(write_path(Path(name), 1 if options.quick else length.rounds))))


def loads(
    folder: Path, stack: contextlib.ExitStack, *, with_kafka: bool
) -> Iterator[tuple[str, Callable[[float], Window]]]:
    """Start brokers and load generators; give what puts each load on for some seconds, by its name."""
    comet = stack.enter_context(peers.cometmq(folder / "cometmq", peers.PATIENT, ended_by=signal.SIGKILL))
    asyncio.run(make_topics(comet))
    raw = RawBatches(comet, Batches(TOPICS, QUEUES, BODY_SIZE))
    python = stack.enter_context(Load([sys.executable, "-m", "benches.python_load"]))

    def batches(seconds: float) -> Window:
        sent = raw.window(seconds)
        cpu_micros = sent.broker_cpu_s * 1e6 / sent.messages
        return {"perSecond": sent.messages / sent.seconds, "cpuMicros": cpu_micros}

    yield f"CometMQ, batches of {BATCH} made beforehand", batches
    yield "CometMQ, our producer with linger", lambda seconds: python.window(comet, LINGER, seconds)
    if with_kafka:
        kafka = stack.enter_context(kafka_peer.kafka(folder / "kafka"))
        java = stack.enter_context(Load.for_kafka(folder))
        java.order(kafka, mode="create", topics=TOPICS)
        java.order(kafka, mode="touch", topics=TOPICS)
        yield f"Kafka {kafka_peer.version()}, async", lambda seconds: java.window(kafka, ASYNC, seconds)


async def make_topics(comet: Peer) -> None:
    """Create the topics of the load."""
    async with TopicAdmin(comet.namesrv) as topics:
        for topic in range(TOPICS):
            await topics.create(f"bench-{topic}", queues=QUEUES)


def measure(loads: dict[str, Callable[[float], Window]], length: kit.Length) -> dict[str, list[Window]]:
    """Warm up, then run the loads in turn."""
    for load in loads.values():
        kit.warm_up(partial(load, length.window_s), length.warm_ups)
    windows: dict[str, list[Window]] = {name: [] for name in loads}
    for _ in range(length.rounds):
        for name, load in loads.items():
            windows[name].append(load(length.window_s))
    for window in (window for each in windows.values() for window in each):
        assert not window.get("failed"), window
        if "cpuMicros" in window:
            window["perCore"] = 1e6 / window["cpuMicros"]
    return windows


def table_of(windows: dict[str, list[Window]]) -> Table:
    """Return the medians side by side."""
    table = Table(title=f"{BODY_SIZE} B, {TOPICS} topics x {QUEUES} queues")
    for column in ("", *windows):
        table.add_column(column, justify="right")
    for title, figure, digits in FIGURES:
        known = [[window[figure] for window in each if figure in window] for each in windows.values()]
        table.add_row(
            title, *(f"{statistics.median(values):,.{digits}f}" if values else "-" for values in known)
        )
    return table


class Writes(NamedTuple):
    """What was written: MB/s of the log's bytes, for each second of the thread's CPU time."""

    write_path: float
    plain: float


async def write_path(folder: Path, rounds: int) -> list[Writes]:
    """Send batches through a broker's parts, and write what they became once more, in turn."""
    kernels.load()
    found = []
    for number in range(rounds):
        store, plain = folder / f"store-{number}", folder / f"plain-{number}"
        seconds, ends = await through_broker(store)
        log = b"".join(path.read_bytes() for path in sorted(layout.commitlog_dir(store).iterdir()))
        found.append(Writes(*((ends[-1] - ends[0]) / 1e6 / s for s in (seconds, copied(log, ends, plain)))))
    return found


async def through_broker(store: Path) -> tuple[float, list[int]]:
    """Store batches by a broker's parts; return the thread's CPU time, s, and where each write ended."""
    batches = Batches(bench_bulk_sends.TOPICS, bench_bulk_sends.QUEUES, BODY_SIZE)
    with bench_bulk_sends.connected(store, StoreSettings(), is_null=False) as (server, session, opened):
        for _ in range(2):  # the queues become known by their first messages
            session.data_received(batches.round())
            server.turn.handle()
        ends, seconds = [opened.written_offset], 0.0
        while ends[-1] - ends[0] < WRITE_MIB << 20:
            frames = batches.round()
            reads = [frames[at : at + READ_SIZE] for at in range(0, len(frames), READ_SIZE)]
            begin = time.thread_time()
            for data in reads:
                session.data_received(data)
                server.turn.handle()
                await asyncio.sleep(0)  # the index follows in turns of its own
                ends.append(opened.written_offset)
            seconds += time.thread_time() - begin
    return seconds, ends


def copied(log: bytes, ends: list[int], path: Path) -> float:
    """Write the log's bytes again, in the same blocks; give the thread's CPU time, s."""
    with memoryview(log) as data, path.open("wb") as file:
        os.truncate(file.fileno(), len(log))
        begin = time.thread_time()
        for start, end in pairwise(ends):
            os.pwrite(file.fileno(), data[start:end], start)
        return time.thread_time() - begin


def writes_table(found: list[Writes]) -> Table:
    """Return the medians."""
    table = Table(title=f"Batches of {BATCH} x {BODY_SIZE} B: MB of the log per second of CPU")
    for column in ("", "MB/s"):
        table.add_column(column, justify="right")
    ours, plain = (statistics.median(values) for values in zip(*found, strict=True))
    table.add_row("from frames to records, queue entries, index and answers", f"{ours:,.0f}")
    table.add_row("pwrite of the same bytes in the same blocks", f"{plain:,.0f}")
    table.add_row("a part of what pwrite alone gives", f"{ours / plain:.0%}")
    return table


if __name__ == "__main__":
    main()
