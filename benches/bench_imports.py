"""How soon CometMQ is there: imports, the help, the pytest plugin and its fixture; and the wheel's size.

    python -m benches.bench_imports [--rounds 15] [--only-goals]

Programs run in turn, each a process of its own, beside one that does nothing: what is shown is the median
time, how much that is above the one beside it, and the least CPU time, which says more on a machine that has
other things to do. What a public name adds is CPU time, measured inside its process. The fixture is timed
inside pytest: from when a test asks for it until its broker takes messages, imports included. All modules are
compiled by a first run that does not count, as an installation compiles them.

It ends with exit code 1 if a median is above its goal: run it on a machine that has nothing else to do.
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
from collections.abc import Mapping
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
FIXTURE: Final = "rocketmq"
FIXTURE_GOAL_MS: Final = 300
USES: Final = ("first", "second")
"""A session's first test with the fixture pays the imports."""
CACHES: Final = {"as it is": {}, "empty": {"NUMBA_CACHE_DIR": "kernels"}}
"""Kernel caches that the fixture is used with: environment of pytest."""
CONFTEST: Final = f"""
import time
import pytest

@pytest.hookimpl(hookwrapper=True)
def pytest_fixture_setup(fixturedef):
    cpu, begun = time.process_time(), time.perf_counter()
    yield
    if fixturedef.argname == "{FIXTURE}":
        print()
        print("ready", time.perf_counter() - begun, time.process_time() - cpu)
"""
TESTS: Final = "\n".join(f"def test_{use}({FIXTURE}): pass" for use in USES)


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


class Shown(NamedTuple):
    """A table, and what is above its goal."""

    table: Table
    late: list[str]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benches.bench_imports", description="How soon it is there"
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only-goals", action="store_true", help="only what has a goal")
    options = parser.parse_args()
    console = Console(width=WIDTH)
    with tempfile.TemporaryDirectory(prefix="cometmq-bench-") as folder:
        os.environ |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": f"{folder}/compiled"}
        programs = times_table(cells(), options.rounds, Path(folder))
        console.print(programs.table)
        fixtures = fixture_table(options.rounds, Path(folder))
        console.print(fixtures.table)
        if not options.only_goals:
            console.print(names_table(options.rounds))
            console.print(modules_table())
            console.print(f"import cometmq: {', '.join(imported('import cometmq')[1])}")
            console.print(wheel_line(Path(folder)))
    if late := programs.late + fixtures.late:
        sys.exit("\n".join(late))


def cells() -> list[Cell]:
    """Return what runs in turn."""
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


def times_table(programs: list[Cell], rounds: int, directory: Path) -> Shown:
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
    late = []
    for cell in programs:
        wall, cpu = took = best[cell.name]
        goal = "" if cell.goal_ms is None else f"{cell.goal_ms:.0f}"
        more = ("", "")
        if cell.beside is not None:
            beside = best[cell.beside]
            took = Run(wall - beside.wall, cpu - beside.cpu)
            more = (f"{took.wall:.1f}", f"{took.cpu:.1f}")
        table.add_row(cell.name, f"{wall:.1f}", f"{cpu:.1f}", cell.beside or "", *more, goal)
        if cell.goal_ms is not None and took.wall > cell.goal_ms:
            late.append(f"{cell.name} takes {took.wall:.0f} ms: the goal is {cell.goal_ms:.0f} ms")
    return Shown(table, late)


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


def fixture_table(rounds: int, directory: Path) -> Shown:
    """Show how soon the fixture is ready in sessions of pytest that use it twice."""
    project = directory / "project"
    project.mkdir()
    (project / "conftest.py").write_text(CONFTEST)
    (project / "test_it.py").write_text(TESTS)
    runs: dict[tuple[str, str], list[Run]] = {(use, cache): [] for cache in CACHES for use in USES}
    for number in range(rounds + 1):  # the first, which may have to compile, does not count
        for cache, environment in CACHES.items():
            folders = {name: str(directory / f"{folder}-{number}") for name, folder in environment.items()}
            for use, took in zip(USES, session(project, folders), strict=True):
                runs[use, cache].append(took)
    table = Table("use", "kernel cache", "median ms", "most ms", "least CPU ms", "goal ms")
    table.title = f"The fixture {FIXTURE}"
    late = []
    for (use, cache), of in runs.items():
        walls, cpu = [took.wall for took in of[1:]], min(took.cpu for took in of[1:])
        median = statistics.median(walls)
        table.add_row(use, cache, f"{median:.1f}", f"{max(walls):.1f}", f"{cpu:.1f}", str(FIXTURE_GOAL_MS))
        if median > FIXTURE_GOAL_MS:
            late.append(
                f"{FIXTURE}, {use} use, kernel cache {cache}, takes {median:.0f} ms: "
                f"the goal is {FIXTURE_GOAL_MS} ms"
            )
    return Shown(table, late)


def session(project: Path, environment: Mapping[str, str]) -> list[Run]:
    """Run pytest on a project; give what each use of the fixture took."""
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "-p", PLUGIN]
    ran = subprocess.run(
        command,
        cwd=project,
        env=os.environ | ALONE | dict(environment),
        capture_output=True,
        text=True,
        check=True,
    )
    said = (line.split() for line in ran.stdout.splitlines() if line.startswith("ready "))
    return [Run(float(wall) * 1000, float(cpu) * 1000) for _, wall, cpu in said]


def wheel_line(directory: Path) -> str:
    """Build the wheel, and tell its size."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = directory.glob("*.whl")
    return f"{wheel.name}: {wheel.stat().st_size / 1024:.0f} KiB"


def imported(program: str) -> tuple[float, list[str]]:
    """Return the CPU time that a program took, s, and the modules that it imported."""
    took, modules = json.loads(output(NAME.format(program=program)))
    return took, modules


def output(program: str) -> str:
    """Run a program in an interpreter of its own; give what it prints."""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def package_of(module: str) -> str:
    """Return the top-level package; those of the standard library are one."""
    top = module.split(".", maxsplit=1)[0]
    return (
        "(standard library)"
        if top.lstrip("_") in sys.stdlib_module_names or top in sys.stdlib_module_names
        else top
    )


if __name__ == "__main__":
    main()
