"""How long producers wait at worst, through file rolls and retention, beside the Java broker.

    python -m benches.bench_pauses [--seconds 60] [--rate 5000] [--topics 1] [--rounds 1] [--quick]
                                   [--directory D]

A producer sends on a fixed schedule, to topics of 4 queues in turn, to one broker after the other. A latency
counts from the moment at which the schedule wanted the send, so the longest is the worst pause, whoever else
was held up by it.
CommitLog files are small and expire at once: within each window files must be begun and others removed, or
the bench exits with 1. So it does where CometMQ's p99 is above the Java broker's, a pause of it reaches
100 ms, or it refuses a send. What a broker refuses ("system busy") is counted, and is no latency.

Neither broker removes anything in its first minute; they are sent to during it, which warms them up.
``--quick`` spares that, and expects no removals: it only shows that all works.
"""

import argparse
import asyncio
import signal
import socket
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from benches.bench_cold_read import LIVE, create_frame, for_seconds, produce
from benches.peers import HEAP
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from tests.interop import peers, remoting

from cometmq.format import layout

SETTINGS: Final[Mapping[str, object]] = {
    "mappedFileSizeCommitLog": 8 << 20,
    "fileReservedTime": 0,
    "deleteWhen": ";".join(f"{hour:02}" for hour in range(24)),
    "flushConsumeQueueThoroughInterval": 10_000,
}
"""Of both brokers. What is removed must be vouched for, which a thorough round does."""
START: Final[dict[str, Callable[..., AbstractContextManager[peers.Peer]]]] = {
    "rocketmq": partial(peers.rocketmq, heap=HEAP),
    "cometmq": peers.cometmq,
}
WARM_UP_S: Final = 75
QUICK_S: Final = 5
PAUSE_MS_MAX: Final = 100


class Load(NamedTuple):
    """So many messages a second, to so many topics."""

    rate: int
    topics: int


class Window(NamedTuple):
    """One broker's window.

    Attributes:
        latencies_ms: from the scheduled time to the answer.
        begun: CommitLog files that were begun.
        removed: those that were removed.
        refused: how many sends it refused, by what it said, in the warm-up and since.
    """

    latencies_ms: NDArray[np.float64]
    begun: int
    removed: int
    refused: Counter[str]


def main() -> int:
    """Measure and print; give the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benches.bench_pauses", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rate", type=int, default=5_000, help="messages a second")
    parser.add_argument("--topics", type=int, default=1, help="at most 10,000")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="no minute of warm-up, and so no removals")
    parser.add_argument("--directory", type=Path, help="where the stores are made, on a disk that counts")
    options = parser.parse_args()
    warm_up_s = QUICK_S if options.quick else WARM_UP_S
    windows: dict[str, list[Window]] = {"rocketmq": [], "cometmq": []}
    with tempfile.TemporaryDirectory(prefix="cometmq-pauses-", dir=options.directory) as folder:
        for number in range(options.rounds):
            for name, measured in windows.items():
                store = Path(folder) / f"{name}-{number}"
                load = Load(options.rate, options.topics)
                measured.append(measure(name, store, load, options.seconds, warm_up_s))
    console = Console()
    console.print(table_of(windows, options.rate))
    for name, rounds in windows.items():
        for words, count in sum((window.refused for window in rounds), Counter()).items():
            console.print(f"{name} refused {count:,}: {words}", markup=False)
    is_all_stored = not any(window.refused for window in windows["cometmq"])
    is_held = is_all_stored and (options.quick or is_well(windows))
    console.print("held" if is_held else f"NOT HELD: see above; no pause may reach {PAUSE_MS_MAX} ms")
    return 0 if is_held else 1


def measure(name: str, store: Path, load: Load, seconds: float, warm_up_s: float) -> Window:
    """Start a broker; send to it on the schedule."""
    settings = {**SETTINGS, **peers.PATIENT}  # a send that waits is to be measured, not refused
    with START[name](store, settings, ended_by=signal.SIGKILL) as broker:
        port = int(broker.broker.partition(":")[2])
        with socket.create_connection((peers.HOST, port)) as connection:
            for number in range(load.topics):
                assert remoting.ask(connection, create_frame(LIVE % number)).code == 0
        warm_up = asyncio.run(produce(port, load.rate, for_seconds(warm_up_s), load.topics))
        before = log_files(store)
        produced = asyncio.run(produce(port, load.rate, for_seconds(seconds), load.topics))
        after = log_files(store)
    refused = warm_up.refused + produced.refused
    return Window(produced.latencies * 1000, len(after - before), len(before - after), refused)


def log_files(store: Path) -> set[int]:
    """Return where the files of a CommitLog begin that are written to or have been."""
    deadline = time.monotonic() + peers.START_TIMEOUT_S
    while not (directory := layout.commitlog_dir(store)).is_dir():
        assert time.monotonic() < deadline, f"{directory} is not there"
    return {int(path.name) for path in directory.iterdir() if path.name.isdigit()}


def is_well(windows: Mapping[str, Sequence[Window]]) -> bool:
    """Return whether files came and went in each window, and CometMQ's latencies are as they should be."""
    all_windows = [window for rounds in windows.values() for window in rounds]
    java, comet = (median_of(windows[name], 99) for name in ("rocketmq", "cometmq"))
    worst = max(window.latencies_ms.max() for window in windows["cometmq"])
    return (
        all(window.begun and window.removed for window in all_windows)
        and comet <= java
        and worst < PAUSE_MS_MAX
    )


def median_of(windows: Sequence[Window], percent: float) -> float:
    """Return the median over the rounds of a percentile, ms."""
    return statistics.median(float(np.percentile(window.latencies_ms, percent)) for window in windows)


def table_of(windows: Mapping[str, Sequence[Window]], rate: int) -> Table:
    """Show both brokers."""
    table = Table(title=f"{rate:,} messages/s: latency from the scheduled time, ms")
    for column in ("", "p50", "p99", "worst pause", "messages", "refused", "files begun", "files removed"):
        table.add_column(column, justify="right")
    for name, rounds in windows.items():
        figures = [median_of(rounds, percent) for percent in (50, 99)]
        figures.append(max(float(window.latencies_ms.max()) for window in rounds))
        counts = (
            sum(len(window.latencies_ms) for window in rounds),
            sum(window.refused.total() for window in rounds),
            sum(window.begun for window in rounds),
            sum(window.removed for window in rounds),
        )
        table.add_row(name, *(f"{figure:.2f}" for figure in figures), *(f"{count:,}" for count in counts))
    return table


if __name__ == "__main__":
    sys.exit(main())
