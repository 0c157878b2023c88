"""The Python clients beside the Java one: the same load on one CometMQ broker, in one run.

    python -m benches.bench_clients [--quick] [--cells TEXT]

Async sends, 512 unanswered; single sends that share batches (``linger_ms``), beside the same async sends of
Java; batches of 32 from 32 senders; sends from 64 threads that wait (``cometmq.blocking``); push consumers of
new groups that read what was sent. 128-byte messages go to 64 topics of 8 queues; the clients take turns.
All share the machine's cores with the broker, so what counts is the CPU time that a message costs its client:
the ratio is that of messages per core. Of the other Python clients those are measured that can run here
(``other_clients``), in what they can do.
"""

import argparse
import contextlib
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from benches import other_clients
from benches.cells import QUEUES, Cell
from benches.load import Load
from benches.peers import TOPICS
from rich.console import Console
from rich.table import Table
from tests.interop import jvm, peers
from tests.interop.peers import Peer

CELLS: Final = (
    Cell("async send", "async", threads=4),
    Cell("async send, sharing batches", "linger", threads=4),
    Cell("batch of 32", "batch", threads=32),
    Cell("blocking send, 64 threads", "sync", threads=64),
    Cell("push consume", "push", threads=0),
)
JAVA: Final = "Java client"
OURS: Final = "CometMQ client"
FIGURES: Final = (("messages/s", "perSecond"), ("client CPU µs/message", "clientCpuMicros"))
WIDTH: Final = 130


class Length(NamedTuple):
    """How long each client has each load: ``warm_ups`` windows for Java's compiler, then ``rounds``."""

    rounds: int
    window_s: float
    warm_ups: int


FULL: Final = Length(3, 6.0, 4)
QUICK: Final = Length(1, 2.0, 1)

Window = dict[str, Any]
Windows = dict[str, list[Window]]
"""The windows of a load, by client."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benches.bench_clients", description="the clients")
    parser.add_argument("--quick", action="store_true", help="short windows, a cold Java client: to try it")
    parser.add_argument("--cells", default="", help="only loads with this text in their names")
    options = parser.parse_args()
    length = QUICK if options.quick else FULL
    console = Console(width=WIDTH)
    subprocess.run([sys.executable, "-m", "cometmq.kernels"], check=True, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory(prefix="cometmq-bench-") as name:
        folder = Path(name)
        with (
            peers.cometmq(folder / "store", ended_by=signal.SIGKILL) as broker,
            loads(folder, console) as clients,
        ):
            topics = [f"bench-{number}" for number in range(TOPICS)]
            jvm.run("CreateTopic", broker.namesrv, broker.broker, QUEUES, *topics, home=folder)
            chosen = [cell for cell in CELLS if options.cells in cell.name]
            windows = {cell.name: windows_of(cell, clients, broker, length) for cell in chosen}
    console.print(table_of(windows, list(clients)))


@contextlib.contextmanager
def loads(folder: Path, console: Console) -> Iterator[dict[str, Load]]:
    """Start a load generator on each client that can run; say why others cannot."""
    with contextlib.ExitStack() as stack:
        clients = {
            JAVA: stack.enter_context(Load.for_rocketmq(folder, "JSON")),
            OURS: stack.enter_context(Load([sys.executable, "-m", "benches.python_load"])),
        }
        try:
            clients[other_clients.BINDING] = stack.enter_context(other_clients.binding(folder))
        except other_clients.CannotRun as why:
            console.print(str(why))
        console.print(other_clients.GRPC_CANNOT)
        yield clients


def windows_of(cell: Cell, clients: dict[str, Load], broker: Peer, length: Length) -> Windows:
    """Put a load on the broker, by the clients in turn."""
    modes = {JAVA: "async" if cell.mode == "linger" else cell.mode, OURS: cell.mode}
    if cell.mode in other_clients.BINDING_MODES:
        modes[other_clients.BINDING] = cell.mode
    windows: Windows = {client: [] for client in clients if client in modes}
    for turn in range(length.warm_ups + length.rounds):
        for client in windows if turn >= length.warm_ups else (JAVA,):
            load = cell._replace(mode=modes[client])
            windows[client].append(clients[client].window(broker, load, length.window_s))
    return windows | {JAVA: windows[JAVA][length.warm_ups :]}


def table_of(cells: dict[str, Windows], clients: list[str]) -> Table:
    """Show the medians of all windows, and how many times better ours is than each other client."""
    others = [client for client in clients if client != OURS]
    table = Table("", OURS, *others, *(f"beside {other}" for other in others))
    table.title = "Clients against one CometMQ broker"
    for name, windows in cells.items():
        for label, figure in FIGURES:
            medians = {
                client: statistics.median(window[figure] for window in some)
                for client, some in windows.items()
            }
            ratios = {client: medians[OURS] / median for client, median in medians.items()}
            if figure != "perSecond":
                ratios = {client: 1 / ratio for client, ratio in ratios.items()}
            shown = [f"{medians[client]:,.1f}" if client in medians else "-" for client in [OURS, *others]]
            better = [f"{ratios[client]:.2f}x" if client in ratios else "-" for client in others]
            table.add_row(f"{name}: {label}", *shown, *better)
    return table


if __name__ == "__main__":
    main()
