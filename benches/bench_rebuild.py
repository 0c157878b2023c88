"""Rebuilding what is derived from a CommitLog, and starting on one, beside the real Java broker.

    python -m benches.bench_rebuild [--mib 1024] [--times 3]

One CommitLog is filled. ConsumeQueues and Index are rebuilt from it alone: by ``cometmq store rebuild``, and
by a start of the Java broker on a copy without ``consumequeue/``, ``index/`` and ``checkpoint``. Both are
timed as processes, the Java broker until the last entry is in its files. What both made is compared byte for
byte. Then each is started on the log after a clean stop and after a SIGKILL, up to its first acknowledged
message.
"""

import argparse
import contextlib
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from benches import kit
from benches.peers import HEAP
from benches.start import started
from rich.console import Console
from rich.table import Table
from tests.interop import jvm, peers

from cometmq.format import layout
from cometmq.format.index import HEADER_SIZE, IndexHeader
from cometmq.format.queue_entry import SIZE
from cometmq.store.directory import StoreDirectory

POLL_S: Final = 0.01
REBUILD_TIMEOUT_S: Final = 300
MB: Final = 1e6


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benches.bench_rebuild", description="Rebuild beside Java"
    )
    parser.add_argument("--mib", type=int, default=1024, help="length of the CommitLog")
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    kit.compile_kernels()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="cometmq-bench-") as folder:
        clean, killed = Path(folder, "clean"), Path(folder, "killed")
        messages = fill(clean, options.mib)
        console.print(rebuilds(clean, messages, options.times))
        fill(killed, options.mib, "--kill")
        console.print(starts(clean, killed, options.times))


def fill(store: Path, mib: int, *arguments: str) -> int:
    """Fill a store in a process of its own; give how many messages that are."""
    command = [sys.executable, "-m", "benches.fill", str(store), str(mib), *arguments]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE)
    assert done.returncode == (-signal.SIGKILL if arguments else 0), done
    return int(done.stdout)


# Rebuilding


def rebuilds(store: Path, messages: int, times: int) -> Table:
    """Rebuild with both in turn, and compare what they made."""
    size = data_size(store)
    comet: list[float] = []
    java: list[float] = []
    for number in range(times):
        comet.append(timed(lambda: rebuild(store)))
        copy = copied(store, f"java-{number}")
        java.append(java_rebuild_s(copy, goal_of(store)))
        differences = compare(store, copy)
        shutil.rmtree(copy)
    title = f"{messages:,} messages, {size / MB:,.0f} MB: ConsumeQueues and Index from the CommitLog alone"
    table = Table(title=title, caption=differences)
    for column in ("", f"RocketMQ {jvm.rocketmq_version()}", "CometMQ", "ratio"):
        table.add_column(column, justify="right")
    rows = statistics.median(java), statistics.median(comet)
    table.add_row("process, s", *(f"{seconds:.2f}" for seconds in rows), f"{rows[0] / rows[1]:.1f}")
    table.add_row("messages/s", *(f"{messages / seconds:,.0f}" for seconds in rows), "")
    table.add_row("MB/s", *(f"{size / seconds / MB:,.0f}" for seconds in rows), "")
    return table


def rebuild(store: Path) -> None:
    """Rebuild as an operator does."""
    command = [str(Path(sys.executable).with_name("cometmq")), "store", "rebuild", str(store)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


class Goal(NamedTuple):
    """The last entries that a rebuild writes, or those of a store that was killed: then there may be more.

    Attributes:
        queue_file: of the queue of the log's last message.
        queue_end: where its last entry ends.
        index_files: how many there are.
        next_entry: what the header of the last one says.
    """

    queue_file: Path
    queue_end: int
    index_files: int
    next_entry: int

    def is_reached(self, store: Path) -> bool:
        """Return whether all is there."""
        try:
            with (store / self.queue_file).open("rb") as file:
                file.seek(self.queue_end - SIZE)
                if not any(file.read(SIZE)):
                    return False
            files = sorted(layout.index_dir(store).iterdir())
            header = IndexHeader.unpack(files[-1].read_bytes()[:HEADER_SIZE])
        except (FileNotFoundError, IndexError):
            return False
        return (len(files), header.next_entry) >= (self.index_files, self.next_entry)


def goal_of(root: Path) -> Goal:
    """Find the last entries of a store that is whole."""
    with StoreDirectory(root) as store:
        room = store.log.chain.end_offset
        last = max(store.queues([]), key=lambda queue: queue.physical_end(room))
        start = last.chain.starts[-1]
        path = last.chain.path(start).relative_to(root)
        index = store.index([])
        return Goal(path, last.written_end() * SIZE - start, len(index), index[-1].header.next_entry)


def java_rebuild_s(store: Path, goal: Goal, timeout_s: float = REBUILD_TIMEOUT_S) -> float:
    """Start the Java broker without derived files; give the seconds until they are whole again."""
    for path in (layout.consume_queues_dir(store), layout.index_dir(store)):
        shutil.rmtree(path)
    layout.checkpoint_path(store).unlink()
    with tempfile.TemporaryFile() as output:
        begin = time.perf_counter()
        broker = subprocess.Popen(
            [*jvm.dies_with_parent(), *java_command(store, peers.free_port())],
            env=jvm.environment(store.parent),
            stdout=output,
            stderr=output,
        )
        try:
            while not goal.is_reached(store):
                assert broker.poll() is None, "the Java broker ended"
                assert time.perf_counter() < begin + timeout_s, "the Java broker does not get there"
                time.sleep(POLL_S)
            return time.perf_counter() - begin
        finally:
            broker.terminate()
            broker.wait(REBUILD_TIMEOUT_S)


def compare(comet: Path, java: Path) -> str:
    """Return where the derived files of two stores differ."""
    names = [
        {path.relative_to(root) for path in layout.consume_queues_dir(root).rglob("*") if path.is_file()}
        for root in (comet, java)
    ]
    differing = sum(not equal(comet / name, java / name) for name in names[0] & names[1])
    alone = names[0] ^ names[1]
    indexes = [sorted(layout.index_dir(root).iterdir()) for root in (comet, java)]
    pairs = list(zip(*indexes, strict=True))
    unequal = sum(not equal(*pair) for pair in pairs)
    return (
        f"queue files: {len(names[0] & names[1])} compared, {differing} differ, {len(alone)} only in one; "
        f"index files: {len(pairs)} compared, {unequal} differ (their names, times of making, do)"
    )


def equal(one: Path, other: Path) -> bool:
    """Return whether two files have the same bytes; nobody reads what was written in neither."""
    written = max(map(written_end, (one, other)))
    with one.open("rb") as first, other.open("rb") as second:
        return one.stat().st_size == other.stat().st_size and first.read(written) == second.read(written)


def written_end(path: Path) -> int:
    """Return where the last hole of a sparse file begins."""
    end = 0
    with path.open("rb") as file, contextlib.suppress(OSError):  # there is no more data
        while True:
            end = os.lseek(file.fileno(), os.lseek(file.fileno(), end, os.SEEK_DATA), os.SEEK_HOLE)
    return end


# Starting


def starts(clean: Path, killed: Path, times: int) -> Table:
    """Start both on both stores in turn; CometMQ first, for the Java broker leaves its own files."""
    size = data_size(clean)
    title = f"process start to the first acknowledged message, on {size / MB:,.0f} MB, s (median of {times})"
    table = Table(title=title)
    for column in ("after", f"RocketMQ {jvm.rocketmq_version()}", "CometMQ", "ratio"):
        table.add_column(column, justify="right")
    for name, store in (("a clean stop", clean), ("SIGKILL", killed)):
        found: dict[str, list[float]] = {}
        ended_by = signal.SIGTERM if store is clean else signal.SIGKILL
        for broker, command in (("cometmq", comet_command), ("rocketmq", java_command)):
            copy = copied(store, broker)
            for number in range(times + (broker == "rocketmq")):  # its first start writes its own tables
                port = peers.free_port()
                environment = jvm.environment(copy.parent)
                with started(command(copy, port), port, environment, ended_by=ended_by) as running:
                    if number or broker == "cometmq":
                        found.setdefault(broker, []).append(running.seconds)
            shutil.rmtree(copy)
        java, comet = (statistics.median(found[broker]) for broker in ("rocketmq", "cometmq"))
        table.add_row(name, f"{java:.2f}", f"{comet:.2f}", f"{java / comet:.1f}")
    return table


def comet_command(store: Path, port: int) -> list[str]:
    """Return the command line of CometMQ."""
    return peers.cometmq_command(store, port=port, namesrv_port=peers.free_port())


def java_command(store: Path, port: int) -> list[str]:
    """Return the command line of the Java broker, which needs no name server for this."""
    home = store.with_name(f"{store.name}-rocketmq")
    home.mkdir(exist_ok=True)
    settings = {
        "listenPort": port,
        "bindAddress": peers.HOST,
        "brokerIP1": peers.HOST,
        "storePathRootDir": store,
        "storePathCommitLog": layout.commitlog_dir(store),
        "mappedFileSizeCommitLog": next(layout.commitlog_dir(store).iterdir()).stat().st_size,
    }
    return jvm.command(
        "org.apache.rocketmq.broker.BrokerStartup",
        "-c",
        peers.write_settings(home / "broker.conf", settings),
        home=home,
        options=(*HEAP, *jvm.BROKER_OPENS),
    )


def copied(store: Path, name: str) -> Path:
    """Copy a store, holes left out."""
    copy = store.with_name(name)
    subprocess.run(["cp", "-a", "--sparse=always", str(store), str(copy)], check=True)
    subprocess.run(["sync"], check=True)  # nobody shall wait for the copy to be written
    return copy


def data_size(store: Path) -> int:
    """Return the bytes of the CommitLog up to the last record."""
    with StoreDirectory(store) as directory:
        return directory.data_bytes()


def timed(action: Callable[[], None]) -> float:
    """Return the seconds that something takes."""
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
