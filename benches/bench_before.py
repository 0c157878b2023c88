"""This checkout beside an earlier one, by the loads of ``python -m benches --quick``, in turn and in one run.

    python -m benches.bench_before CHECKOUT [--starts 4] [--rounds 3] [--seconds 3] [--cells TEXT …]

CHECKOUT has another commit and an environment of its own (``.venv``); ``--cells`` leaves out what that one
cannot do. Both brokers are up at the same time, and one Java client sends to them in turn, so what the
machine does meanwhile, or how warm the client is, is the same for both. The order changes from round to
round. All this is done with several starts of both, which take turns in starting first: two processes of the
same code can differ by a fifth for as long as they run, and no number of windows evens that out.

The table gives the medians of the windows, messages a second and microseconds of the broker's CPU for each,
and the ratios of these medians.
"""

import argparse
import contextlib
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from signal import SIGKILL
from typing import Any, Final

from benches import kit
from benches.cells import QUICK, Cell, Stage
from benches.load import Load
from rich.console import Console
from rich.table import Table
from tests.interop import peers
from tests.interop.peers import Peer

BEFORE, NOW = "before", "now"
WARM_UPS: Final = 2
FIGURES: Final = (("messages/s", "perSecond", 0), ("CPU µs/message", "cpuMicros", 2))
"""Title, field of a window, digits."""
Found = dict[tuple[str, str], list[dict[str, Any]]]
"""Windows by cell and broker."""


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="python -m benches.bench_before", description="two commits in turn")
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--starts", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument(
        "--cells", action="append", help="only cells with this text in their names; repeatable"
    )
    options = parser.parse_args()
    program = options.checkout / ".venv" / "bin" / "cometmq"
    if not program.exists():
        parser.error(f"{program} is not there: run `make setup` in {options.checkout}")
    for python in (program.with_name("python"), Path(sys.executable)):
        kit.compile_kernels(python)
    found: Found = defaultdict(list)
    for stage in QUICK:
        chosen = tuple(
            cell for cell in stage.cells if any(text in cell.name for text in options.cells or ("",))
        )
        with tempfile.TemporaryDirectory(prefix="cometmq-bench-") as folder:
            if chosen:
                measure(stage._replace(cells=chosen), program, Path(folder), options, found)
    Console().print(table_of(found))


def measure(stage: Stage, program: Path, folder: Path, options: argparse.Namespace, found: Found) -> None:
    """Measure the cells of a stage on both brokers in turn, with several starts of both."""
    programs = {BEFORE: program, NOW: Path(peers.cometmq_program())}
    with Load.for_rocketmq(folder, "JSON") as load:
        for start in range(options.starts):
            with both(folder / str(start), programs, stage) as brokers:
                if stage.stored:
                    for peer in brokers.values():
                        load.fill(peer, stage.topics, stage.stored)
                for cell in stage.cells:
                    measure_cell(cell, brokers, load, options, found)
                for peer in brokers.values():
                    load.leave(peer)
            programs = dict(reversed(programs.items()))  # the one that started last starts first


def measure_cell(
    cell: Cell, brokers: Mapping[str, Peer], load: Load, options: argparse.Namespace, found: Found
) -> None:
    """Measure one cell on both brokers, round after round."""
    for number in range(WARM_UPS + options.rounds):
        for name in (BEFORE, NOW) if number % 2 else (NOW, BEFORE):
            window = load.window(brokers[name], cell, options.seconds)
            if number >= WARM_UPS:
                found[cell.name, name].append(window)
                print(line_of(cell, name, window), flush=True)


@contextlib.contextmanager
def both(folder: Path, programs: Mapping[str, Path], stage: Stage) -> Iterator[dict[str, Peer]]:
    """Run both brokers, started in the order of ``programs``, with the topics of a stage."""
    brokers: dict[str, Peer] = {}
    with contextlib.ExitStack() as stack:
        for name, program in programs.items():
            run = peers.cometmq_of(program, folder / name, stage.settings, ended_by=SIGKILL)
            peer = brokers[name] = stack.enter_context(run)
            kit.create_topics(peer, stage.topics, folder)
        yield brokers


def line_of(cell: Cell, name: str, window: dict[str, Any]) -> str:
    """Describe a window in a line."""
    text = f"{name:>6} {cell.name:<20} {window['perSecond']:>9,.0f}/s {window['cpuMicros']:6.2f} µs"
    trouble = f"  {window['failed']} failed, {window['lost']} lost: {window['errors']}"
    return text + (trouble if window["failed"] or window["lost"] else "")


def table_of(found: Found) -> Table:
    """Format the table of medians and their ratios."""
    table = Table(title="medians")
    table.add_column("load")
    for title, _, _ in FIGURES:
        for name in (f"{title}, {BEFORE}", NOW, "ratio"):
            table.add_column(name, justify="right")
    for cell in dict.fromkeys(cell for cell, _ in found):
        row = [cell]
        for _, field, digits in FIGURES:
            before, now = (
                statistics.median(window[field] for window in found[cell, name]) for name in (BEFORE, NOW)
            )
            row += [f"{before:,.{digits}f}", f"{now:,.{digits}f}", f"{now / before:.2f}"]
        table.add_row(*row)
    return table


if __name__ == "__main__":
    main()
