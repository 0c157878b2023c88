"""What scrapes and the console cost a loaded broker: windows of sends with and without them, in turn.

    python -m benches.bench_metrics [--rounds 5] [--seconds 4] [--warm-ups 4] [--interval 1]

One broker serves both: what a scrape costs is its own work, for no message counts anything for it. Prometheus
scrapes every 15 s by default; here it is each second, so that a window has some of them. The console's first
view is asked for as often, from a process of its own that shares the machine's cores. The table has the
medians of the windows, and the ratio of their rates. Limit: 3 % less.
"""

import argparse
import contextlib
import signal
import statistics
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from benches.bench_console import command, get
from benches.cells import FEW_THREADS, QUEUES, ROCKETMQ_ONLY, Cell
from benches.load import Load
from rich.console import Console
from rich.table import Table
from tests.interop import jvm, peers

from cometmq import kernels

TOPICS: Final = 64
CELLS: Final = (
    Cell("sync", "sync", brokers=ROCKETMQ_ONLY),
    Cell("async", "async", threads=FEW_THREADS, brokers=ROCKETMQ_ONLY),
)
KINDS: Final = ("off", "on")


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benches.bench_metrics", description="what being watched costs"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--warm-ups", type=int, default=4)
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between looks")
    options = parser.parse_args()
    kernels.load_if_possible()  # compiled once, before anything is measured
    rates: dict[tuple[str, str], list[float]] = defaultdict(list)
    looks_ms: dict[str, list[float]] = {"metrics": [], "console": []}
    with tempfile.TemporaryDirectory(prefix="cometmq-bench-") as name:
        folder, port = Path(name), peers.free_port()
        settings = peers.PATIENT | {"metricsExporterType": "PROM", "metricsPromExporterPort": port}
        with (
            peers.cometmq(folder / "cometmq", settings, ended_by=signal.SIGKILL) as peer,
            Load.for_rocketmq(folder, "JSON") as load,
            command("console", "--namesrv", peer.namesrv) as (_, console_ready),
        ):
            urls = {
                "metrics": f"http://{peers.HOST}:{port}/metrics",
                "console": f"http://{console_ready['console']}/",
            }
            topics = [f"bench-{number}" for number in range(TOPICS)]
            jvm.run("CreateTopic", peer.namesrv, peer.broker, QUEUES, *topics, home=folder)
            for cell in CELLS:
                for count in range(options.warm_ups + options.rounds):
                    for kind in KINDS:
                        interval_s = options.interval if kind == "on" else None
                        with watching(urls, interval_s, looks_ms):
                            window = load.window(peer, cell, options.seconds)
                        assert not window["failed"] and not window["lost"], window
                        if count >= options.warm_ups:
                            rates[cell.name, kind].append(window["perSecond"])
    console = Console()
    console.print(table_of(rates))
    for name, took_ms in looks_ms.items():
        console.print(f"{name}: {len(took_ms)} looks, median {statistics.median(took_ms):.0f} ms each")


@contextlib.contextmanager
def watching(
    urls: Mapping[str, str], interval_s: float | None, took_ms: dict[str, list[float]]
) -> Iterator[None]:
    """Ask for each page at an interval, in a thread, and record how long that takes; None asks for none."""
    stopping = threading.Event()

    def watch() -> None:
        while interval_s is not None and not stopping.wait(interval_s):
            for name, url in urls.items():
                took_ms[name].append(get(url))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def table_of(rates: dict[tuple[str, str], list[float]]) -> Table:
    """Build the table of all cells."""
    table = Table("cell", "alone, msg/s", "watched, msg/s", "ratio")
    for cell in CELLS:
        off, on = (statistics.median(rates[cell.name, kind]) for kind in KINDS)
        table.add_row(cell.name, f"{off:,.0f}", f"{on:,.0f}", f"{on / off:.3f}")
    return table


if __name__ == "__main__":
    main()
