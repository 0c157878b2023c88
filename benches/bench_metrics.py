"""What scrapes and the console cost a loaded broker: windows of sends with and without them, in turn.

    python -m benches.bench_metrics [--rounds 11] [--seconds 15] [--warm-ups 4]

The broker has the 1,000 topics of 8 queues and the 100 groups of ``bench_console``, beside the topics of the
load. In a watched window Prometheus scrapes every 15 s, as by its default, an overview that is open in a
browser renews itself every 10 s, and the console samples the lags of all groups: a window of 15 s has one
scrape, two views, and one sample, twice as many as in real life. In the other windows the console is stopped
(SIGSTOP) and nobody asks. One broker serves both kinds: what a scrape costs is its own work, for no message
counts anything for it.

Load, console and broker share the machine, so the rates have what the console takes of it, too; the CPU time
for a message is the broker's. The table has the medians of the windows; the ratio is the median of those of
two neighbours, as a shared machine is faster in some minutes than in others. Limit: 3 % less.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import statistics
import tempfile
import threading
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Self

from benches import kit
from benches.bench_console import command, fill, get
from benches.cells import FEW_THREADS, ROCKETMQ_ONLY, Cell
from benches.load import Load
from rich.console import Console
from rich.table import Table
from tests.interop import peers
from tests.interop.peers import Peer

from cometmq import kernels

TOPICS: Final = 64
CELLS: Final = (
    Cell("sync", "sync", brokers=ROCKETMQ_ONLY),
    Cell("async", "async", threads=FEW_THREADS, brokers=ROCKETMQ_ONLY),
)
KINDS: Final = ("off", "on")
INTERVALS_S: Final = {"metrics": 15.0, "console": 10.0}
"""How often Prometheus asks for metrics, and a browser renews the console's first view."""
FIRST: Final = 0.25
"""When each looks first, as a share of its interval: a window of 15 s has one scrape and two views."""
WARM_UP_S: Final = 4.0
"""Longest window that is not counted."""
Windows = dict[tuple[str, str], list[dict[str, Any]]]
"""What the load generator says of each window, by cell and kind."""


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benches.bench_metrics", description="what being watched costs"
    )
    kit.add_windows(parser, rounds=11, seconds=15.0, warm_ups=4)
    options = parser.parse_args()
    kernels.load_if_possible()  # compiled once, before anything is measured
    with (
        tempfile.TemporaryDirectory(prefix="cometmq-bench-") as name,
        watched(Path(name)) as (peer, watchers),
    ):
        with Load.for_rocketmq(Path(name), "JSON") as load:
            windows = measure(peer, load, watchers, options)
        samples = watchers.samples()
    console = Console()
    console.print(table_of(windows))
    for look, took_ms in watchers.took_ms.items():
        console.print(f"{look}: {len(took_ms)} looks, median {statistics.median(took_ms):.0f} ms each")
    console.print(f"lags: {samples} samples")


def measure(peer: Peer, load: Load, watchers: "Watchers", options: argparse.Namespace) -> Windows:
    """Load the broker in windows of both kinds in turn; return those that count."""
    windows: Windows = defaultdict(list)
    for cell in CELLS:
        for number, counts in enumerate(kit.rounds_of(options)):
            seconds = options.seconds if counts else min(WARM_UP_S, options.seconds)
            for kind in KINDS if number % 2 else reversed(KINDS):  # a machine that slows down hits both
                with watchers.watching() if kind == "on" else contextlib.nullcontext():
                    window = kit.whole_window(load, peer, cell, seconds)
                if counts:
                    windows[cell.name, kind].append(window)
                    print(f"{cell.name:>6} {kind:>4} {window['perSecond']:>9,.0f}/s", flush=True)
    return windows


@contextlib.contextmanager
def watched(folder: Path) -> Iterator[tuple[Peer, "Watchers"]]:
    """Run a broker with many topics and groups, and a console for it."""
    port = peers.free_port()
    settings = peers.PATIENT | {"metricsExporterType": "PROM", "metricsPromExporterPort": port}
    with peers.cometmq(folder / "cometmq", settings, ended_by=signal.SIGKILL) as peer:
        asyncio.run(fill(peer.namesrv))
        kit.create_topics(peer, TOPICS, folder)
        with command("console", "--namesrv", peer.namesrv) as (pid, ready):
            urls = {
                "metrics": f"http://{peers.HOST}:{port}/metrics",
                "console": f"http://{ready['console']}/",
            }
            with Watchers(urls, pid) as watchers:
                yield peer, watchers


class Watchers:
    """Prometheus, a console, and a browser at its first view; as a context manager it stops the console.

    Attributes:
        took_ms: how long each answer took, by who asked.
    """

    def __init__(self, urls: Mapping[str, str], console_pid: int) -> None:
        self.took_ms: dict[str, list[float]] = {name: [get(url)] for name, url in urls.items()}
        self._urls = urls
        self._console_pid = console_pid

    def __enter__(self) -> Self:
        os.kill(self._console_pid, signal.SIGSTOP)
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self._console_pid, signal.SIGCONT)  # or it would not end

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Run the lookers meanwhile, each at its interval."""
        over = threading.Event()
        os.kill(self._console_pid, signal.SIGCONT)
        with ThreadPoolExecutor(len(self._urls)) as at_once:
            looking = [at_once.submit(self._look, name, over) for name in self._urls]
            try:
                yield
            finally:
                over.set()
        os.kill(self._console_pid, signal.SIGSTOP)
        for one in looking:
            one.result()

    def samples(self) -> int:
        """Return how often the console has sampled lags."""
        os.kill(self._console_pid, signal.SIGCONT)
        with urllib.request.urlopen(f"{self._urls['console']}groups/group-000/lags") as answer:
            return len(json.load(answer)["times"])

    def _look(self, name: str, over: threading.Event) -> None:
        wait_s = FIRST * INTERVALS_S[name]
        while not over.wait(wait_s):
            self.took_ms[name].append(get(self._urls[name]))
            wait_s = INTERVALS_S[name]


def table_of(windows: Windows) -> Table:
    """Build the table of all cells."""
    table = Table("cell", "alone, msg/s", "watched, msg/s", "ratio", "broker's CPU, µs/msg")
    for cell in CELLS:
        pairs = [[float(window["perSecond"]) for window in windows[cell.name, kind]] for kind in KINDS]
        off, on = map(statistics.median, pairs)
        ratio = statistics.median(watched / alone for alone, watched in zip(*pairs, strict=True))
        cpu = " → ".join(f"{_median(windows[cell.name, kind], 'cpuMicros'):.2f}" for kind in KINDS)
        table.add_row(cell.name, f"{off:,.0f}", f"{on:,.0f}", f"{ratio:.3f}", cpu)
    return table


def _median(windows: list[dict[str, Any]], name: str) -> float:
    return statistics.median(float(window[name]) for window in windows)


if __name__ == "__main__":
    main()
