"""The Python clients beside the Java one: the same load on one CometMQ broker, in one run.

    python -m benches.bench_clients [--quick] [--cells TEXT]

Async sends, 512 unanswered; single sends that share batches (``linger_ms``), beside the same async sends of
Java; batches of 32 from 32 senders, by ``send_batch``, which gives one result as Java does, and by
``send_many``, which makes batches of whatever it gets and gives a result for each message; sends from 64
threads that wait (``cometmq.blocking``); push consumers of new groups that read what was sent. 128-byte
messages go to 64 topics of 8 queues; the clients take turns. All share the machine's cores with the broker,
so what counts is the CPU time that a message costs its client: the ratio is that of messages per core. Of the
other Python clients those are measured that can run here (``other_clients``), in what they can do.

CPU time is that of the client's whole process, user and system, over the messages that were answered
meanwhile: with the JVM's compiler and collector, with Python's loop and its threads. So each load is first
put on each client until its messages get no cheaper: a JVM goes on compiling for a minute, and until then its
messages cost several times as much. The C++ binding has nothing to compile: it is warmed up once. Only then
the rounds begin, in which the clients take turns. Shown are medians over the rounds, of the ratios too, each
with the least and the most: of each load when it is over, and of all in the end.
"""

import argparse
import contextlib
import signal
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from benches import kit, other_clients
from benches.cells import Cell
from benches.load import Load
from benches.peers import TOPICS
from rich.console import Console
from rich.table import Table
from tests.interop import peers
from tests.interop.peers import Peer

CELLS: Final = (
    Cell("async send", "async", threads=4),
    Cell("async send, sharing batches", "linger", threads=4),
    Cell("batch of 32", "batch", threads=32),
    Cell("send_many of 32", "many", threads=32),
    Cell("blocking send, 64 threads", "sync", threads=64),
    Cell("push consume", "push", threads=0),
)
JAVA: Final = "Java client"
OURS: Final = "CometMQ client"
RATE: Final = "perSecond"
COST: Final = "clientCpuMicros"
JAVAS: Final = {"linger": "async", "many": "batch"}
"""What the Java client does where it has nothing of the kind."""
FIGURES: Final = (("messages/s", RATE), ("client CPU µs/message", COST))
GOALS: Final = {"async send": 0.7, "async send, sharing batches": 1.0, "batch of 32": 1.0}
"""How many messages of ours a core shall send for one of the Java client."""
SETTLED: Final = 0.95
"""A window that costs more than this part of the cheapest one before shows nothing left to compile."""
WIDTH: Final = 150


class Length(NamedTuple):
    """How long each client has each load.

    Attributes:
        rounds: windows that count.
        warm_ups: windows before, at least and at most: until two in a row are not cheaper than those before.
    """

    rounds: int
    window_s: float
    warm_ups: tuple[int, int]


ONE: Final = (1, 1)
"""The binding's warm-ups: it has nothing to compile, and a window of its push consumer takes a minute."""
FULL: Final = Length(5, 4.0, (3, 15))
QUICK: Final = Length(1, 2.0, ONE)

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
    kit.compile_kernels()
    with tempfile.TemporaryDirectory(prefix="cometmq-bench-") as name:
        folder = Path(name)
        with (
            peers.cometmq(folder / "store", ended_by=signal.SIGKILL) as broker,
            loads(folder, console) as clients,
        ):
            kit.create_topics(broker, TOPICS, folder)
            chosen = [cell for cell in CELLS if options.cells in cell.name]
            windows = {}
            for cell in chosen:
                windows[cell.name] = windows_of(cell, clients, broker, length, console)
                console.print(table_of({cell.name: windows[cell.name]}, list(clients)))
    console.print(table_of(windows, list(clients)))
    if options.quick:
        return
    missed = [
        f"{name}: {ratio:.2f} messages a core for one of the {JAVA}, the goal is {GOALS[name]}"
        for name, some in windows.items()
        if name in GOALS and (ratio := statistics.median(ratios(some, JAVA, COST))) < GOALS[name]
    ]
    if missed:
        sys.exit("\n".join(missed))


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


def windows_of(
    cell: Cell, clients: dict[str, Load], broker: Peer, length: Length, console: Console
) -> Windows:
    """Load the broker by the clients in turn, when all are warm."""
    modes = {JAVA: JAVAS.get(cell.mode, cell.mode), OURS: cell.mode}
    if cell.mode in other_clients.BINDING_MODES:
        modes[other_clients.BINDING] = cell.mode
    orders = {client: cell._replace(mode=mode) for client, mode in modes.items() if client in clients}
    for client, order in orders.items():
        warm_ups = ONE if client == other_clients.BINDING else length.warm_ups
        costs = warm_up(clients[client], broker, order, length._replace(warm_ups=warm_ups))
        console.print(f"{cell.name}, {client} warming up: {', '.join(f'{cost:.1f}' for cost in costs)} µs")
    windows: Windows = {client: [] for client in orders}
    for _ in range(length.rounds):
        for client, order in orders.items():
            windows[client].append(clients[client].window(broker, order, length.window_s))
    for client in [client for client, some in windows.items() if not all(window[RATE] for window in some)]:
        if client in (JAVA, OURS):
            sys.exit(f"{cell.name}: {client} got nothing done in a window of {length.window_s} s")
        console.print(f"{cell.name}: {client} got nothing done in a window: it is left out")
        del windows[client]
    return windows


def warm_up(client: Load, broker: Peer, load: Cell, length: Length) -> list[float]:
    """Load a client until it gets no cheaper; return what its messages cost on the way, µs."""
    least, most = length.warm_ups
    costs: list[float] = []
    while len(costs) < least or (len(costs) < most and not is_settled(costs)):
        costs.append(client.window(broker, load, length.window_s)[COST])
    return costs


def is_settled(costs: list[float]) -> bool:
    """Return whether neither of the last two windows was cheaper than all before."""
    return min(costs[-2:]) > SETTLED * min(costs[:-2])


def ratios(windows: Windows, other: str, figure: str) -> list[float]:
    """Return how many times better ours was than another client, by round."""
    pairs = [(ours[figure], its[figure]) for ours, its in zip(windows[OURS], windows[other], strict=True)]
    return [ours / its if figure == RATE else its / ours for ours, its in pairs]


def table_of(cells: dict[str, Windows], clients: list[str]) -> Table:
    """Show what each client reached, and how many times better ours is than each other one."""
    others = [client for client in clients if client != OURS]
    table = Table("", OURS, *others, *(f"beside {other}" for other in others))
    table.title = "Clients against one CometMQ broker: medians (least to most)"
    for name, windows in cells.items():
        for label, figure in FIGURES:
            decimals = 0 if figure == RATE else 1
            reached = [
                shown([window[figure] for window in windows.get(client, [])], decimals)
                for client in [OURS, *others]
            ]
            better = [
                shown(ratios(windows, client, figure) if client in windows else [], 2) for client in others
            ]
            table.add_row(f"{name}: {label}", *reached, *better)
    return table


def shown(figures: list[float], decimals: int) -> str:
    """Return the median with the least and the most."""
    if not figures:
        return "-"
    middle, least, most = (
        f"{figure:,.{decimals}f}" for figure in (statistics.median(figures), min(figures), max(figures))
    )
    return f"{middle} ({least} to {most})"


if __name__ == "__main__":
    main()
