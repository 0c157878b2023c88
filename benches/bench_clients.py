"""The Python clients beside the Java one: the same load on one CometMQ broker, in one run.

    python -m benches.bench_clients [--quick]

Async sends, 512 unanswered; sends from 64 threads that wait (``cometmq.blocking``); batches of 32 from 32
senders. 128-byte messages go to 64 topics of 8 queues; the two clients take turns. All share the machine's
cores with the broker, so what counts is the CPU time that a message costs its client: the ratio is that
of messages per core.
"""

import argparse
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from benches.cells import QUEUES, Cell
from benches.load import Load
from benches.peers import TOPICS
from rich.console import Console
from rich.table import Table
from tests.interop import jvm, peers

CELLS: Final = (
    Cell("async send", "async", threads=4),
    Cell("blocking send, 64 threads", "sync", threads=64),
    Cell("batch of 32", "batch", threads=32),
)
ROUNDS: Final = 3
WINDOW_S: Final = 6.0
WARM_UPS: Final = 4
QUICK: Final = (1, 2.0, 1)

Window = dict[str, Any]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benches.bench_clients", description="the clients")
    parser.add_argument("--quick", action="store_true", help="short windows, a cold Java client: to try it")
    options = parser.parse_args()
    rounds, window_s, warm_ups = QUICK if options.quick else (ROUNDS, WINDOW_S, WARM_UPS)
    subprocess.run([sys.executable, "-m", "cometmq.kernels"], check=True, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory(prefix="cometmq-bench-") as name:
        folder = Path(name)
        with (
            peers.cometmq(folder / "store", ended_by=signal.SIGKILL) as broker,
            Load.for_rocketmq(folder, "JSON") as java,
            Load([sys.executable, "-m", "benches.python_load"]) as python,
        ):
            topics = [f"bench-{number}" for number in range(TOPICS)]
            jvm.run("CreateTopic", broker.namesrv, broker.broker, QUEUES, *topics, home=folder)
            windows: dict[str, list[tuple[Window, Window]]] = {}
            for cell in CELLS:
                for _ in range(warm_ups):
                    java.window(broker, cell, window_s)
                windows[cell.name] = [
                    (java.window(broker, cell, window_s), python.window(broker, cell, window_s))
                    for _ in range(rounds)
                ]
    Console().print(table_of(windows))


def table_of(windows: dict[str, list[tuple[Window, Window]]]) -> Table:
    """Show the medians of all windows, and the ratios."""
    table = Table("", "Java client", "CometMQ client", "ratio", title="Clients against one CometMQ broker")
    for name, pairs in windows.items():
        for label, figure in (("messages/s", "perSecond"), ("client CPU µs/message", "clientCpuMicros")):
            java, comet = (statistics.median(pair[side][figure] for pair in pairs) for side in range(2))
            ratio = comet / java if figure == "perSecond" else java / comet
            table.add_row(f"{name}: {label}", f"{java:,.1f}", f"{comet:,.1f}", f"{ratio:.2f}x")
    return table


if __name__ == "__main__":
    main()
