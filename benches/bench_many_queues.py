"""10,000 queues in one store, beside 64: what an append costs, how long a restart takes, what the files take.

    python -m benches.bench_many_queues [--rounds 4] [--java]

The append is measured in both stores in turn, by the bulk path and by the plain one, in CPU time and wall
time, what keeps the store up included. A slave's store appends what its master's has, in pieces of one
message, as when they come one by one, and of a hundred. With ``--java`` the real Java broker is started on a
copy of the log and makes the same queues, to have its files' size; that takes some minutes.
"""

import argparse
import os
import shutil
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from benches import kit
from benches.bench_rebuild import comet_command, copied, goal_of, java_rebuild_s
from benches.fill import BODY_SIZE, HOST, ROUND_MIN, Fill
from benches.start import started
from rich.console import Console
from rich.table import Table
from tests.interop import peers

from cometmq.format import layout
from cometmq.store.append import NewMessage
from cometmq.store.reading import run
from cometmq.store.store import MessageStore

T = TypeVar("T")

QUEUES: Final = 8
MANY, FEW = 10_000 // QUEUES, 64 // QUEUES
MESSAGES: Final = 400_000
"""In a round, which ends as they are put into their queues; of 10,000 twice as many would wait for that."""
PLAIN_MESSAGES_AT_ONCE: Final = 2_000
"""In one turn; by the bulk path it is a message for each queue."""
PLAIN_AT_ONCE: Final = 20
"""What a socket read brings under load."""
PIECES: Final = 1, 100
"""Messages of another queue each, about, that a slave receives at once."""
PROPERTIES: Final = b"UNIQ_KEY\x017F0000010001C0000000000000000000\x02WAIT\x01true\x02"


class Cost(NamedTuple):
    """What a message costs, µs."""

    cpu: float
    wall: float


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benches.bench_many_queues", description="10,000 queues")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--java", action="store_true", help="measure the Java broker's files too")
    options = parser.parse_args()
    kit.compile_kernels()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="cometmq-bench-") as folder:
        many, few = Path(folder, "many"), Path(folder, "few")
        console.print(appends(many, few, options.rounds))
        console.print(received(Path(folder, "master"), Path(folder, "slave"), options.rounds))
        console.print(restarts(many))
        console.print(sizes(many, with_java=options.java))


# Appending


def appends(many: Path, few: Path, rounds: int) -> Table:
    """Append to both stores in turn; the first round, in which the queues are made, does not count."""
    costs: dict[tuple[str, int], list[Cost]] = {}
    with MessageStore.open(many) as store, MessageStore.open(few) as other:
        fills = {MANY: Fill(store, MANY, QUEUES), FEW: Fill(other, FEW, QUEUES)}
        stores = {MANY: store, FEW: other}
        plains = {topics: plain(stores[topics], fill) for topics, fill in fills.items()}
        bulks = {topics: partial(bulk, fill) for topics, fill in fills.items()}
        puts = {topics: stores[topics].queues for topics in fills}
        for number in range(rounds + 1):
            for way, actions in (("bulk", bulks), ("plain", plains)):
                for topics, cost in in_turn(actions, MESSAGES, puts).items():
                    if number:
                        costs.setdefault((way, topics), []).append(cost)
        rss = rss_mib(os.getpid())
    table = Table(
        title=f"append, µs a message (median of {rounds})", caption=f"RSS of both stores: {rss} MiB"
    )
    for column in ("path", "", f"{FEW * QUEUES} queues", f"{MANY * QUEUES:,} queues", "ratio"):
        table.add_column(column, justify="right")
    for way in ("bulk", "plain"):
        for field in Cost._fields:
            small, large = (
                statistics.median(getattr(cost, field) for cost in costs[way, topics])
                for topics in (FEW, MANY)
            )
            table.add_row(way, field, f"{small:.2f}", f"{large:.2f}", f"{large / small:.2f}")
    return table


def bulk(fill: Fill) -> int:
    """Append by the bulk path; give how many messages."""
    before = fill.count
    fill.round()
    return fill.count - before


def plain(store: MessageStore, fill: Fill) -> Callable[[], int]:
    """Return what appends by the plain path, to all queues in turn."""
    body = bytes(BODY_SIZE)
    queues = islice(cycle(fill.queues), ROUND_MIN)  # as many objects, however few queues
    turn = cycle([NewMessage(name, queue, body, PROPERTIES, 0, HOST, HOST) for name, queue in queues])

    def append() -> int:
        for _ in range(PLAIN_MESSAGES_AT_ONCE // PLAIN_AT_ONCE):
            store.append(list(islice(turn, PLAIN_AT_ONCE)))
        return PLAIN_MESSAGES_AT_ONCE

    return append


def in_turn(
    actions: Mapping[int, Callable[[], int]], messages: int, ends: Mapping[int, Callable[[], object]]
) -> dict[int, Cost]:
    """Run things by turns until each has had its messages; return what one has cost each.

    The turns are of milliseconds, so that a moment at which the machine is slow is no one's alone.

    Args:
        ends: what completes each.
    """
    counts, cpu_s, wall_s = (
        dict.fromkeys(actions, 0),
        dict.fromkeys(actions, 0.0),
        dict.fromkeys(actions, 0.0),
    )

    def measured(name: int, action: Callable[[], T]) -> T:
        cpu, wall = time.process_time(), time.perf_counter()
        result = action()
        cpu_s[name] += time.process_time() - cpu
        wall_s[name] += time.perf_counter() - wall
        return result

    while min(counts.values()) < messages:
        for name, action in actions.items():
            counts[name] += measured(name, action)
    for name, end in ends.items():
        measured(name, end)
    return {
        name: Cost(cpu_s[name] * 1e6 / count, wall_s[name] * 1e6 / count) for name, count in counts.items()
    }


def received(master: Path, slave: Path, rounds: int) -> Table:
    """Append a master's records to a slave's store; the first round of each length does not count."""
    table = Table(title=f"a slave's append of {MANY * QUEUES:,} queues (median of {rounds})")
    for column in ("messages in a piece", "CPU, µs a message"):
        table.add_column(column, justify="right")
    with MessageStore.open(master) as source, MessageStore.open(slave) as store:
        fill = Fill(source, MANY, QUEUES)
        for messages in PIECES:
            costs = []
            for _ in range(rounds + 1):
                begin, before = source.written_offset, fill.count
                fill.round()
                count, data = fill.count - before, log_bytes(source, begin)
                size = messages * (len(data) // count)
                cpu = time.process_time()
                for at in range(0, len(data), size):
                    store.received.append(begin + at, data[at : at + size])
                store.queues()  # it puts what is staged
                costs.append((time.process_time() - cpu) * 1e6 / count)
            table.add_row(str(messages), f"{statistics.median(costs[1:]):.2f}")
    return table


def log_bytes(store: MessageStore, begin: int) -> bytes:
    """Read the log from an offset to its end."""
    data = b""
    while begin + len(data) < store.written_offset:
        at = begin + len(data)
        piece = run(store.readings.log_bytes(at, store.written_offset - at))
        assert piece is not None
        data += piece
    return data


# Restarting


def restarts(store: Path) -> Table:
    """Start a broker after a clean stop and after a kill, up to its first acknowledged message."""
    table = Table(title=f"process start to the first acknowledged message, {MANY * QUEUES:,} queues")
    for column in ("after", "s", "RSS MiB"):
        table.add_column(column, justify="right")
    for name, ended_by in (("a clean stop", signal.SIGKILL), ("SIGKILL", signal.SIGTERM)):
        port = peers.free_port()  # the first start ends as the second one finds it
        command = comet_command(store, port)
        with started(command, port, ended_by=ended_by) as broker:
            table.add_row(name, f"{broker.seconds:.2f}", str(rss_mib(broker.pid)))
    return table


def rss_mib(pid: int) -> int:
    """Return the resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) // 1024


# What the files take


def sizes(store: Path, *, with_java: bool) -> Table:
    """Return the disk use of the queues' files."""
    table = Table(title=f"disk use of {MANY * QUEUES:,} queues' files")
    for column in ("broker", "files", "length MiB", "on disk MiB"):
        table.add_column(column, justify="right")
    table.add_row("CometMQ", *disk_use(layout.consume_queues_dir(store)))
    if with_java:
        copy = copied(store, "java")
        seconds = java_rebuild_s(copy, goal_of(store))
        table.add_row("RocketMQ", *disk_use(layout.consume_queues_dir(copy)))
        table.caption = f"RocketMQ made them within {seconds:.0f} s of its start"
        shutil.rmtree(copy)
    return table


def disk_use(directory: Path) -> tuple[str, str, str]:
    """Return how many files there are, their lengths and the blocks that they take."""
    stats = [path.stat() for path in directory.rglob("*") if path.is_file()]
    length, blocks = sum(stat.st_size for stat in stats), sum(stat.st_blocks for stat in stats) * 512
    return f"{len(stats):,}", f"{length >> 20:,}", f"{blocks >> 20:,}"


if __name__ == "__main__":
    main()
