"""What a run of the benches gave: as tables, as JSON, and as plots in ``docs/benchmarks/``."""

import datetime as dt
import json
import os
import platform
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import matplotlib as mpl
from benches import kafka_peer
from benches.stages import Costs
from matplotlib.figure import Figure
from rich.console import Group
from rich.table import Table
from tests.interop import jvm

RESULTS: Final = Path(__file__).parent / "results"
DOCS: Final = Path(__file__).parent.parent / "docs" / "benchmarks"
BROKERS: Final = ("cometmq", "rocketmq", "null", "kafka")
COLUMNS: Final = ["load", "CometMQ", "RocketMQ", "null", "Kafka", "/RocketMQ", "/null", "/Kafka"]
COLOURS: Final = ("#d95f02", "#7570b3", "#bbbbbb", "#1b9e77")
PLOTTED: Final = ("sync", "async", "oneway", "batch of 32")
UNTIMED: Final = ("oneway", "push", "pop")
"""How the names of cells begin whose messages nobody waits for: no answer comes, or a listener is called."""
# (title, field of a window, digits)
FIGURES: Final = [
    ("messages/s", "perSecond", 0),
    ("mean ms", "meanMs", 2),
    ("p50 ms", "p50Ms", 2),
    ("p99 ms", "p99Ms", 2),
    ("broker CPU µs/message", "cpuMicros", 1),
    ("client CPU µs/message", "clientCpuMicros", 1),
    ("consumed/s", "consumedPerSecond", 0),
    ("broker RSS MiB", "rssMiB", 0),
    ("… of it anonymous", "anonymousMiB", 0),
]

Window = dict[str, Any]
Memory = dict[str, dict[str, float]]
"""MiB that each broker kept some seconds after a stage, by stage and broker."""


class Result(NamedTuple):
    """A run: where, how, every window, memory kept, seconds that starts took, and where microseconds went."""

    machine: dict[str, object]
    settings: dict[str, Any]
    windows: list[Window]
    memory: Memory
    starts: dict[str, list[float]]
    stages: Costs


def machine() -> dict[str, object]:
    """Describe what the figures were measured on."""
    models = [
        line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")
    ]
    return {
        "at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "cpu": models[0].partition(":")[2].strip() if models else platform.machine(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "rocketmq": jvm.rocketmq_version(),
        "kafka": kafka_peer.version(),
    }


def save(result: Result) -> Path:
    """Keep a result under its time."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{str(result.machine['at']).replace(':', '')}.json"
    path.write_text(json.dumps(result._asdict(), indent=1) + "\n")
    return path


def tables_of(windows: list[Window]) -> Group:
    """Return the medians, a table for each figure; ratios are CometMQ's to the others."""
    tables = []
    for title, field, digits in FIGURES:
        table = Table(*COLUMNS[:1], title=title)
        for column in COLUMNS[1:]:
            table.add_column(column, justify="right")
        for row in _rows(windows, field, digits):
            table.add_row(*row)
        if table.row_count:
            tables.append(table)
    return Group(*tables)


def memory_table(memory: Memory) -> Table:
    """Show what brokers kept in memory after each stage."""
    table = Table("broker RSS MiB, after", *BROKERS)
    for stage, kept in memory.items():
        table.add_row(stage, *_memory_row(kept))
    return table


def write(result: Result) -> Path:
    """Write the page, its figures and its plots."""
    DOCS.mkdir(exist_ok=True)
    (DOCS / "peers.json").write_text(json.dumps(result._asdict(), indent=1) + "\n")
    mode_cells = [mode for mode in PLOTTED if any(_topics(result.windows, mode))]
    for mode in mode_cells:
        _plot(result.windows, mode)
    lines: list[str] = []
    for title, field, digits in FIGURES:
        rows = list(_rows(result.windows, field, digits))
        if rows:
            lines += [f"## {title}", "", *map(_markdown, [COLUMNS, ["---"] * len(COLUMNS), *rows]), ""]
    lines += _refused(result.windows)
    memory = [[stage, *_memory_row(kept)] for stage, kept in result.memory.items()]
    head = ["after", *BROKERS]
    lines += ["## Broker RSS MiB, seconds after the last load", ""]
    lines += [*map(_markdown, [head, ["---"] * len(head), *memory]), ""]
    lines += ["## Start to the first acknowledged message, s", "", *_starts(result.starts), ""]
    lines += ["## Where the microseconds of CometMQ's broker go", "", *_stages(result.stages), ""]
    plots = [f"![{mode}: messages/s by topics]({_plot_name(mode)})" for mode in mode_cells]
    where = ", ".join(f"{name} {value}" for name, value in (result.machine | result.settings).items())
    text = f"# Beside the peers\n\nWritten by `python -m benches --write`: {where}.\n\n"
    page = DOCS / "peers.md"
    page.write_text(text + "\n".join([*plots, "", *lines]))
    return page


def _refused(windows: list[Window]) -> list[str]:
    """Describe what brokers refused or lost, if they did."""
    failures = [window for window in windows if window["failed"] or window["lost"]]
    if not failures:
        return []
    head = ["load", "broker", "refused", "lost", "why"]
    rows = [
        [window["cell"], window["broker"], str(window["failed"]), str(window["lost"]), *_reason(window)]
        for window in failures
    ]
    return ["## Refused or lost, by window", "", *map(_markdown, [head, ["---"] * len(head), *rows]), ""]


def _reason(window: Window) -> list[str]:
    """Return the error that came most often."""
    errors: dict[str, int] = window["errors"]
    return [max(errors, key=errors.__getitem__, default="")]


def _memory_row(kept: dict[str, float]) -> list[str]:
    return [f"{kept[broker]:,.0f}" if broker in kept else "-" for broker in BROKERS]


def _starts(starts: dict[str, list[float]]) -> Iterator[str]:
    rows = [
        [cache, *(f"{value:.2f}" for value in (min(took), statistics.median(took), max(took)))]
        for cache, took in starts.items()
    ]
    head = ["kernel cache", "fastest", "median", "slowest"]
    return map(_markdown, [head, ["---"] * len(head), *rows])


def _stages(costs: Costs) -> Iterator[str]:
    loads = list(costs.values())
    rows = [[stage, *(f"{load[stage]:.2f}" for load in loads)] for stage in loads[0]]
    return map(_markdown, [["CPU µs/message", *costs], ["---"] * (len(costs) + 1), *rows])


def _cells(windows: list[Window]) -> list[str]:
    return list(dict.fromkeys(str(window["cell"]) for window in windows))


def _rows(windows: list[Window], field: str, digits: int) -> Iterator[list[str]]:
    for cell in _cells(windows):
        comet, *others = (_median(windows, broker, cell, field) for broker in BROKERS)
        if comet:  # a cell whose messages nobody waits for has no times, say
            values = (f"{value:,.{digits}f}" if value else "-" for value in (comet, *others))
            ratios = (f"{comet / other:.2f}" if other else "-" for other in others)
            yield [cell, *values, *ratios]


def _median(windows: list[Window], broker: str, cell: str, field: str) -> float:
    """Return the median over the rounds; 0 where there is none."""
    if cell.startswith(UNTIMED) and field.endswith("Ms"):
        return 0.0
    values: list[float] = [
        window[field]
        for window in windows
        if (window["broker"], window["cell"]) == (broker, cell) and window["perSecond"]
    ]
    return statistics.median(values) if values else 0.0


def _markdown(row: list[str]) -> str:
    return f"| {' | '.join(row)} |"


def _topics(windows: list[Window], mode: str) -> list[int]:
    """Return the numbers of topics that a way of sending was measured with."""
    names = [cell for cell in _cells(windows) if cell.startswith(f"{mode}, ") and cell.endswith(" topics")]
    return sorted(int(name.removeprefix(f"{mode}, ").removesuffix(" topics")) for name in names)


def _plot(windows: list[Window], mode: str) -> None:
    """Plot messages/s of each broker over the number of topics."""
    topics = _topics(windows, mode)
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    axes = figure.add_subplot()
    width = 0.8 / len(BROKERS)
    for number, (broker, colour) in enumerate(zip(BROKERS, COLOURS, strict=True)):
        rates = [_median(windows, broker, f"{mode}, {count} topics", "perSecond") for count in topics]
        places = [place + (number - (len(BROKERS) - 1) / 2) * width for place in range(len(topics))]
        axes.bar(places, rates, width, label=broker, color=colour)
    axes.set_xticks(range(len(topics)), [f"{count} topics" for count in topics])
    axes.set_ylabel("messages/s")
    axes.set_title(f"{mode}, 128 B, 8 queues a topic")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.legend(frameon=False, ncols=len(BROKERS))
    # so that the same figures give the same file, with its text as text
    with mpl.rc_context({"svg.hashsalt": "cometmq", "svg.fonttype": "none"}):
        figure.savefig(DOCS / _plot_name(mode), metadata={"Date": None})


def _plot_name(mode: str) -> str:
    return f"{mode.replace(' ', '-')}.svg"
