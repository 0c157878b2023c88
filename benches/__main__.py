"""CometMQ beside Apache RocketMQ: the same load, on one machine, in one run.

    python -m benches [--quick] [--serialize-type JSON|ROCKETMQ]

The real Java client sends 128-byte messages with 64 threads to 64 topics of 8 queues, to one broker after
the other in turn (A B C A B C A B C), in three ways. The table gives the median of the three windows of each.
CPU and memory are those of the broker's process; the client shares the machine's cores with it, so its own
CPU time bounds any ratio of rates. The null broker stores nothing: it shows that bound. Then the time from a
start to the first message.

Before it counts, each broker is warmed up until it gets no faster: on two cores the reference's compiler
needs most of a minute of load, and a window taken earlier shows two or three times its real cost. ``--quick``
does not wait so long and its ratios flatter CometMQ.
"""

import argparse
import datetime as dt
import json
import os
import platform
import statistics
import tempfile
from pathlib import Path
from typing import Any, Final, NamedTuple

from benches import start
from benches.peers import QUEUES, TOPICS, Load, all_three
from rich.console import Console
from rich.table import Table
from tests.interop import jvm

BROKERS: Final = ("rocketmq", "cometmq", "null")
MODES: Final = ("sync", "async", "oneway")
THREADS: Final = 64
BODY_SIZE: Final = 128
RESULTS: Final = Path(__file__).parent / "results"

Window = dict[str, Any]


class Length(NamedTuple):
    """How long a run takes: at most ``warm_ups`` windows that do not count for each, then ``rounds``."""

    warm_ups: int
    window_s: float
    rounds: int
    starts: int


FULL: Final = Length(warm_ups=10, window_s=6, rounds=3, starts=5)
QUICK: Final = Length(warm_ups=2, window_s=3, rounds=1, starts=2)
FASTER: Final = 1.03
"""A warm-up goes on while a window is faster than the best before it by this factor."""
DISTURBED_CORES: Final = 0.3
"""Other processes' use of the CPU that is worth a mention."""

# (title, field of a window, digits)
FIGURES: Final = [
    ("messages/s", "perSecond", 0),
    ("mean ms", "meanMs", 2),
    ("p50 ms", "p50Ms", 2),
    ("p99 ms", "p99Ms", 2),
    ("broker CPU µs/message", "cpuMicros", 1),
    ("client CPU µs/message", "clientCpuMicros", 1),
    ("broker RSS MiB", "rssMiB", 0),
    ("… of it anonymous", "anonymousMiB", 0),
]


def main() -> None:
    """Measure, print, and keep the result as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benches", description="CometMQ beside Apache RocketMQ")
    parser.add_argument("--quick", action="store_true", help="one round of short windows")
    parser.add_argument(
        "--serialize-type", choices=["JSON", "ROCKETMQ"], default="JSON", help="header encoding"
    )
    options = parser.parse_args()
    length = QUICK if options.quick else FULL
    console = Console()
    with tempfile.TemporaryDirectory(prefix="cometmq-bench-") as folder:
        windows = measure(Path(folder), length, options.serialize_type, console)
    console.print(table_of(windows))
    starts = start.measure(length.starts)
    console.print(start.table_of(starts))
    settings = {"serializeType": options.serialize_type, **length._asdict()}
    path = save({"machine": machine(), "settings": settings, "windows": windows, "starts": starts})
    console.print(f"All windows: {path}")
    lost = [
        window for window in windows if window["broker"] == "cometmq" and (window["lost"] or window["failed"])
    ]
    if lost:
        raise SystemExit(f"CometMQ lost or refused messages: {lost}")


def measure(folder: Path, length: Length, serialize_type: str, console: Console) -> list[Window]:
    """Run all windows, the brokers in turn; say each as it ends."""
    windows: list[Window] = []
    with all_three(folder) as peers, Load(folder, serialize_type) as load:
        for mode in MODES:
            for peer in peers:
                best = 0.0
                for _ in range(length.warm_ups):
                    rate = load.window(peer, mode, length.window_s, THREADS, BODY_SIZE)["perSecond"]
                    if rate < best * FASTER:
                        break
                    best = rate
            for _ in range(length.rounds):
                for peer in peers:
                    window = load.window(peer, mode, length.window_s, THREADS, BODY_SIZE)
                    windows.append({"broker": peer.name} | window)
                    console.print(one_line(windows[-1]), highlight=False)
    return windows


def one_line(window: Window) -> str:
    """Say a window in a line."""
    text = f"{window['broker']:>8} {window['mode']:<6} {window['perSecond']:>8,.0f} messages/s"
    if window["othersCores"] > DISTURBED_CORES:
        text += f"  (others used {window['othersCores']:.1f} cores)"
    if window["failed"]:
        text += f"  {window['failed']} failed: {window['errors']}"
    if window["lost"]:
        text += f"  {window['lost']} sent but not stored"
    return text


def table_of(windows: list[Window]) -> Table:
    """Give the medians of each way of sending, side by side.

    The ratios are CometMQ's to RocketMQ, and to the null broker: how much of what can be reached is.
    """
    title = f"{THREADS} threads, {BODY_SIZE} B, {TOPICS} topics x {QUEUES} queues"
    table = Table(title=title)
    table.add_column("send")
    table.add_column("figure")
    for column in (f"RocketMQ {jvm.rocketmq_version()}", "CometMQ", "null", "ratio", "to null"):
        table.add_column(column, justify="right")
    for mode in MODES:
        for name, field, digits in FIGURES:
            if mode == "oneway" and field.endswith("Ms"):
                continue  # nobody answers a oneway send: there is no time to measure
            java, comet, null = (median_of(windows, broker, mode, field) for broker in BROKERS)
            ratios = (f"{comet / other:.2f}" if other else "-" for other in (java, null))
            table.add_row(mode, name, *(f"{value:,.{digits}f}" for value in (java, comet, null)), *ratios)
        table.add_section()
    return table


def median_of(windows: list[Window], broker: str, mode: str, field: str) -> float:
    """Give the median over the rounds."""
    values: list[float] = [
        window[field] for window in windows if (window["broker"], window["mode"]) == (broker, mode)
    ]
    return statistics.median(values)


def machine() -> dict[str, object]:
    """Say what the figures were measured on."""
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
    }


def save(result: dict[str, Any]) -> Path:
    """Keep a result under its time."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{result['machine']['at'].replace(':', '')}.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    return path


if __name__ == "__main__":
    main()
