"""How fast the CommitLog is appended to, by each write path, and by none.

    python -m benches.bench_write_paths [directory]

Records of 128 B and of 4 KiB in batches of 1, 32 and 512, on one thread, with the flusher's threads beside
it as in a store with ASYNC_FLUSH. The paths take turns in each round, after what the one before left has
gone to the disk; the figures are medians of the rounds. Encoding the records is part of each append: the
last column is an append that is written nowhere. ``worst`` is the longest append of all rounds.

Then what one append and the sync of it take, as each does under SYNC_FLUSH, which excludes the pool.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from cometmq.format.host import pack_host
from cometmq.io.clock import SystemClock
from cometmq.io.files import Disk
from cometmq.io.open_files import OpenFiles
from cometmq.store.append import NewMessage
from cometmq.store.files.spread import spread_of
from cometmq.store.log.commit_log import CommitLog
from cometmq.store.log.flush import Flusher
from cometmq.store.settings import StoreSettings

RECORD_SIZES: Final = (128, 4096)
BATCHES: Final = (1, 32, 512)
ROUNDS: Final = 7
ROUND_BYTES: Final = 24 * 1024 * 1024
ROUND_APPENDS: Final = 20_000
ROUND_SYNCS: Final = 100
HOST: Final = pack_host("127.0.0.1", 10911)
OVERHEAD: Final = 91 + len("Orders")
PATHS: Final = {
    "file channel": StoreSettings(),
    "mapped file": StoreSettings(write_without_mmap=False),
    "pool": StoreSettings(transient_store_pool_enable=True),
}
NOWHERE: Final = "nowhere"


class NowhereLog(CommitLog):
    """A log that is written nowhere."""

    def _write(self, writes: object) -> None:
        """Forget what there is to write."""


class Desk(NamedTuple):
    """An open log and what brings it to the disk."""

    log: CommitLog
    flusher: Flusher


class Round(NamedTuple):
    """What one round of one path took."""

    us_per_record: float
    worst_ms: float


def main() -> None:
    """Run all; print a table."""
    parent = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    print("µs per record (MB/s) worst ms; medians of", ROUNDS, "rounds, the paths in turn")
    print(f"{'record':>7}{'batch':>6}" + "".join(f"{name:>30}" for name in [*PATHS, NOWHERE]))
    for size in RECORD_SIZES:
        for batch in BATCHES:
            with tempfile.TemporaryDirectory(dir=parent) as directory:
                print(f"{size:>7}{batch:>6}" + measure(Path(directory), size, batch), flush=True)
    print("\nSYNC_FLUSH: one record, one sync; median µs, 99th percentile, the paths in turn")
    for size in RECORD_SIZES:
        with tempfile.TemporaryDirectory(dir=parent) as directory:
            print(f"{size:>7}{1:>6}" + measure_syncs(Path(directory), size), flush=True)


def measure(directory: Path, size: int, batch: int) -> str:
    """Return the figures of each path for one size of record and of batch."""
    rounds: dict[str, list[Round]] = {name: [] for name in [*PATHS, NOWHERE]}
    with open_desks(directory) as desks:
        for _ in range(ROUNDS):
            for name, desk in desks.items():
                rounds[name].append(run(desk, [message_of(size)] * batch, size))
    return "".join(figures(rounds[name], size) for name in rounds)


def measure_syncs(directory: Path, size: int) -> str:
    """Return what an append and its sync take, for each path that can be synced so."""
    took: dict[str, list[float]] = {name: [] for name in PATHS if name != "pool"}
    with open_desks(directory) as desks:
        for _ in range(ROUNDS):
            for name in took:
                took[name] += run_synced(desks[name], message_of(size))
    return "".join(
        f"{f'{statistics.median(times):.0f} {statistics.quantiles(times, n=100)[-1]:.0f}':>30}"
        for times in took.values()
    )


@contextmanager
def open_desks(directory: Path) -> Iterator[dict[str, Desk]]:
    """Open a log for each path."""
    desks = {
        name: open_desk(directory / name.replace(" ", "-"), settings) for name, settings in PATHS.items()
    }
    desks[NOWHERE] = open_desk(directory / NOWHERE, StoreSettings(), NowhereLog)
    desks[NOWHERE].log.chain.extend()
    yield desks
    for desk in desks.values():
        desk.flusher.stop()
        desk.log.close()


def open_desk(root: Path, settings: StoreSettings, kind: type[CommitLog] = CommitLog) -> Desk:
    """Open a log that is written as the settings say."""
    files = OpenFiles(Disk(), writable=True)
    log = kind(files, spread_of(root, settings), settings.mapped_file_size_commit_log, settings)
    flusher = Flusher(log, settings, SystemClock(), lambda: None)
    flusher.start()
    return Desk(log, flusher)


def run(desk: Desk, messages: list[NewMessage], size: int) -> Round:
    """Append for one round; the disk gets it afterwards."""
    numbers = range(len(messages))
    appends = max(1, min(ROUND_BYTES // (len(messages) * size), ROUND_APPENDS))
    worst = 0.0
    begin = last = time.perf_counter()
    for _ in range(appends):
        desk.log.append(messages, numbers, 1)
        desk.flusher.keep_up()
        now = time.perf_counter()
        worst, last = max(worst, now - last), now
    took = last - begin
    desk.flusher.wait(desk.log.written_offset).result()
    return Round(took / appends / len(messages) * 1e6, worst * 1e3)


def run_synced(desk: Desk, message: NewMessage) -> list[float]:
    """Append and sync, one record at a time; give what each took, µs."""
    took = []
    for _ in range(ROUND_SYNCS):
        begin = time.perf_counter()
        desk.log.append([message], [0], 1)
        desk.flusher.wait(desk.log.written_offset).result()
        took.append((time.perf_counter() - begin) * 1e6)
    return took


def message_of(size: int) -> NewMessage:
    """Return a message whose record has ``size`` bytes."""
    return NewMessage("Orders", 0, bytes(size - OVERHEAD), b"", 0, HOST, HOST)


def figures(rounds: list[Round], size: int) -> str:
    """Format what the rounds of one path took."""
    us = statistics.median(entry.us_per_record for entry in rounds)
    worst = max(entry.worst_ms for entry in rounds)
    return f"{f'{us:.2f} ({size / us:,.0f}) {worst:.1f}':>30}"


if __name__ == "__main__":
    main()
