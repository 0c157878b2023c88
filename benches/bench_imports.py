"""How soon CometMQ is there: imports, the help, the pytest plugin, the embedded broker; and the wheel's size.

    python -m benches.bench_imports [--rounds 15]

Programs run in turn, each a process of its own, beside one that does nothing: what is shown is the median
time, how much that is above the one beside it, and the least CPU time, which says more on a machine that has
other things to do. What a public name adds is CPU time, measured inside its process.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Console
from rich.table import Table

import cometmq

ROOT: Final = Path(__file__).parents[1]
WIDTH: Final = 110
PLUGIN: Final = "cometmq.testing.plugin"
NOTHING: Final = "nothing"
NOTHING_TESTED: Final = "pytest --collect-only"
ALONE: Final = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
ALL: Final = "from cometmq import *"
NAME: Final = """
import json, sys, time
before, begun = set(sys.modules), time.process_time()
{program}
took = time.process_time() - begun
print(json.dumps([took, sorted(set(sys.modules) - before)]))
"""
STARTS: Final = """
import json, time
begun = time.perf_counter()
from cometmq.testing import EmbeddedBroker
cpu = time.process_time()
times = [time.perf_counter()]
for _ in range({rounds}):
    with EmbeddedBroker():
        times.append(time.perf_counter())
    times.append(time.perf_counter())
print(json.dumps([cpu, begun, *times]))
"""


class Cell(NamedTuple):
    """A program that is measured.

    Attributes:
        command: of its process.
        beside: the program that its time is compared with.
        goal_ms: what it may take, or more than the one beside it.
    """

    name: str
    command: list[str]
    beside: str | None = None
    goal_ms: float | None = None


class Run(NamedTuple):
    """What a run took, ms."""

    wall: float
    cpu: float


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benches.bench_imports", description="How soon it is there"
    )
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    console = Console(width=WIDTH)
    with tempfile.TemporaryDirectory(prefix="cometmq-bench-") as folder:
        console.print(times_table(cells(), rounds, Path(folder)))
        console.print(names_table(rounds))
        console.print(modules_table())
        console.print(f"import cometmq: {', '.join(imported('import cometmq')[1])}")
        console.print(starts_line(rounds))
        console.print(wheel_line(Path(folder)))


def cells() -> list[Cell]:
    """Give what runs in turn."""
    pytest = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider"]
    return [
        Cell(NOTHING, [sys.executable, "-c", "pass"]),
        Cell("import cometmq", [sys.executable, "-c", "import cometmq"], NOTHING, 60),
        Cell(ALL, [sys.executable, "-c", ALL], NOTHING),
        Cell("cometmq --help", [str(Path(sys.executable).with_name("cometmq")), "--help"], None, 150),
        Cell("cometmq send --help", [str(Path(sys.executable).with_name("cometmq")), "send", "--help"]),
        Cell(NOTHING_TESTED, pytest),
        Cell("… with the plugin", [*pytest, "-p", PLUGIN], NOTHING_TESTED, 30),
    ]


def times_table(programs: list[Cell], rounds: int, directory: Path) -> Table:
    """Run all in turn; show the medians."""
    runs: dict[str, list[Run]] = {cell.name: [] for cell in programs}
    for _ in range(rounds + 1):  # the first, which may have to compile, does not count
        for cell in programs:
            runs[cell.name].append(run(cell.command, directory))
    best = {
        name: Run(statistics.median(took.wall for took in of[1:]), min(took.cpu for took in of[1:]))
        for name, of in runs.items()
    }
    table = Table("program", "median ms", "least CPU ms", "above", "ms more", "CPU ms more", "goal ms")
    for cell in programs:
        wall, cpu = best[cell.name]
        goal = "" if cell.goal_ms is None else f"{cell.goal_ms:.0f}"
        more = ("", "")
        if cell.beside is not None:
            beside = best[cell.beside]
            more = (f"{wall - beside.wall:.1f}", f"{cpu - beside.cpu:.1f}")
        table.add_row(cell.name, f"{wall:.1f}", f"{cpu:.1f}", cell.beside or "", *more, goal)
    return table


def run(command: list[str], directory: Path) -> Run:
    """Run a program to its end."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=directory, env=os.environ | ALONE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return Run((time.perf_counter() - begun) * 1000, (usage.ru_utime + usage.ru_stime) * 1000)


def names_table(rounds: int) -> Table:
    """Show what each public name takes, in an interpreter that has nothing else of ours."""
    table = Table("public name", "least CPU ms", "modules", "of ours", title="What each public name adds")
    for name in cometmq.__all__:
        runs = [imported(f"from cometmq import {name}") for _ in range(max(rounds // 3, 1))]
        modules = runs[0][1]
        ours = sum(module.split(".")[0] == "cometmq" for module in modules)
        least = min(took for took, _ in runs) * 1000
        table.add_row(name, f"{least:.1f}", str(len(modules)), str(ours))
    return table


def modules_table() -> Table:
    """Show the modules that come with the package's name, and with all its public names, by package."""
    bare = Counter(package_of(module) for module in imported("import cometmq")[1])
    whole = Counter(package_of(module) for module in imported(ALL)[1])
    table = Table("package", "import cometmq", ALL, title="Modules imported")
    for package in sorted(whole | bare):
        table.add_row(package, str(bare[package]), str(whole[package]))
    return table


def starts_line(rounds: int) -> str:
    """Tell how soon an embedded broker is ready: the first of a process, and the others."""
    cpu, begun, imported_at, *times = json.loads(output(STARTS.format(rounds=rounds + 1)))
    ready = [(at - since) * 1000 for since, at in zip([imported_at, *times[1::2]], times[::2], strict=False)]
    gone = [(at - since) * 1000 for since, at in zip(times[::2], times[1::2], strict=True)]
    return (
        f"embedded broker: imported in {(imported_at - begun) * 1000:.0f} ms ({cpu * 1000:.0f} ms CPU with"
        f" the interpreter), the first ready in {ready[0]:.0f} ms more (goal: 300 ms in all),"
        f" others in {statistics.median(ready[1:]):.0f} ms; stopped in {statistics.median(gone):.0f} ms"
    )


def wheel_line(directory: Path) -> str:
    """Build the wheel, and tell its size."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = directory.glob("*.whl")
    return f"{wheel.name}: {wheel.stat().st_size / 1024:.0f} KiB"


def imported(program: str) -> tuple[float, list[str]]:
    """Give the CPU time that a program took, s, and the modules that it imported."""
    took, modules = json.loads(output(NAME.format(program=program)))
    return took, modules


def output(program: str) -> str:
    """Run a program in an interpreter of its own; give what it prints."""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def package_of(module: str) -> str:
    """Give the top-level package; those of the standard library are one."""
    top = module.split(".", maxsplit=1)[0]
    return (
        "(standard library)"
        if top.lstrip("_") in sys.stdlib_module_names or top in sys.stdlib_module_names
        else top
    )


if __name__ == "__main__":
    main()
