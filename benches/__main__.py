"""CometMQ beside Apache RocketMQ and Apache Kafka: the same load, on one machine, in one run.

    python -m benches [--quick] [--cells TEXT] [--serialize-type JSON|ROCKETMQ] [--no-kafka] [--write]

The real Java clients send to one broker after the other in turn (A B C A B C A B C), and read back. The
table gives the median of each broker's windows. CPU and memory are those of the broker's process; the client
shares the machine's cores with it, so its own CPU time bounds any ratio of rates. The null broker answers
all and stores nothing: it shows that bound. Then come the time from a start to the first message, and where
the microseconds of a message go in CometMQ's broker (``stages.py``).

For a popped message a broker works twice: when it is popped and acknowledged, and when its invisible time is
over. So a window of pops comes right after others on the same broker, which do not count but leave it the
later half of their work.

Before it counts, each broker is warmed up until it gets no faster: on two cores the reference's compiler
needs most of a minute of load, and a window taken earlier shows two or three times its real cost. What a
broker does in that minute is measured, too, by the cells that are called "just started". ``--quick`` takes
five minutes, does not wait so long, and its ratios flatter CometMQ. ``--write`` puts table, figures and plots
into ``docs/benchmarks/``.
"""

import argparse
import contextlib
import math
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from benches import cells, kafka_peer, kit, report, stages, start
from benches.cells import Cell, Stage
from benches.load import Load
from benches.peers import all_three
from benches.report import Memory, Window
from rich.console import Console
from tests.interop.peers import Peer


class Length(NamedTuple):
    """How long a run takes: at most ``warm_ups`` windows that do not count for each, then ``rounds``."""

    warm_ups: int
    window_s: float
    rounds: int
    starts: int


FULL: Final = Length(warm_ups=10, window_s=4, rounds=3, starts=5)
QUICK: Final = Length(warm_ups=2, window_s=3, rounds=1, starts=2)
DISTURBED_CORES: Final = 0.3
"""Other processes' use of the CPU that is worth a mention."""
REST_S: Final = 3.0
"""So long after a stage's last load brokers tell what memory they keep."""


def main() -> None:
    """Measure, print, and keep the result as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benches", description="CometMQ beside its peers")
    parser.add_argument("--quick", action="store_true", help="one round of short windows, few cells")
    parser.add_argument("--cells", default="", help="only cells with this text in their names")
    parser.add_argument("--no-kafka", action="store_true", help="leave Kafka out")
    parser.add_argument(
        "--serialize-type", choices=["JSON", "ROCKETMQ"], default="JSON", help="header encoding"
    )
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks/")
    options = parser.parse_args()
    length, planned = (QUICK, cells.QUICK) if options.quick else (FULL, cells.FULL)
    console = Console()
    windows: list[Window] = []
    memory: Memory = {}
    for stage in planned:
        chosen = tuple(cell for cell in stage.cells if options.cells in cell.name)
        if chosen:
            with tempfile.TemporaryDirectory(prefix="cometmq-bench-") as folder:
                bench = Bench(Path(folder), length, options.serialize_type, console)
                windows += bench.measure(stage._replace(cells=chosen), with_kafka=not options.no_kafka)
                if bench.memory_mib:
                    memory[stage.name] = bench.memory_mib
    starts = start.measure(length.starts)
    settings = {"serializeType": options.serialize_type, **length._asdict()}
    costs = stages.measure(length.window_s)
    result = report.Result(report.machine(), settings, windows, memory, starts, costs)
    console.print(report.tables_of(windows), report.memory_table(memory))
    console.print(start.table_of(starts), stages.table_of(costs))
    console.print(f"All windows: {report.save(result)}")
    if options.write:
        console.print(f"Written: {report.write(result)}")
    if failed := [window for window in windows if window["lost"] or window["failed"]]:
        console.print(f"Lost or refused: {failed}")
    if any(window["broker"] == "cometmq" for window in failed):
        raise SystemExit(1)


class Bench:
    """Measures brokers under loads.

    Attributes:
        memory_mib: what each broker kept in memory after the last stage; empty after one of cold brokers.
    """

    def __init__(self, folder: Path, length: Length, serialize_type: str, console: Console) -> None:
        self._folder = folder
        self._length = length
        self._serialize_type = serialize_type
        self._console = console
        self.memory_mib: dict[str, float] = {}

    def measure(self, stage: Stage, *, with_kafka: bool) -> list[Window]:
        """Run all windows of a stage, the brokers in turn; say each as it ends."""
        self._console.rule(stage.name)
        with Load.for_rocketmq(self._folder, self._serialize_type) as load:
            if stage.is_cold:
                return [window for cell in stage.cells for window in self._cold(stage, cell, load)]
            return self._warm(stage, load, with_kafka=with_kafka)

    def _warm(self, stage: Stage, load: Load, *, with_kafka: bool) -> list[Window]:
        """Measure one cell after the other on the same brokers."""
        needs_kafka = with_kafka and any("kafka" in cell.brokers for cell in stage.cells)
        with (
            all_three(self._folder, stage.settings, stage.topics) as three,
            self._kafka(stage.topics) if needs_kafka else contextlib.nullcontext() as kafka,
        ):
            loads = [(peer, load) for peer in three] + ([kafka] if kafka else [])
            if stage.stored:
                readers = {broker for cell in stage.cells for broker in cell.brokers}
                for peer, filler in loads:
                    if peer.name in readers:
                        filler.fill(peer, stage.topics, stage.stored)
            windows: list[Window] = []
            for cell in stage.cells:
                with_cell = [each for each in loads if each[0].name in cell.brokers]
                for peer, loaded_by in with_cell:
                    self._warm_up(cell, peer, loaded_by)
                windows += self._windows(cell, with_cell)
            time.sleep(REST_S)
            self.memory_mib = {peer.name: rss_mib(peer.pid) for peer, _ in loads}
            return windows

    def _cold(self, stage: Stage, cell: Cell, load: Load) -> list[Window]:
        """Measure a cell on brokers that were just started; the null one is for the client to warm up."""
        with (
            tempfile.TemporaryDirectory(dir=self._folder) as folder,
            all_three(Path(folder), stage.settings, cell.topics) as three,
        ):
            self._warm_up(cell, three[-1], load)
            windows = list(self._windows(cell, [(peer, load) for peer in three if peer.name in cell.brokers]))
            for peer in three:
                load.leave(peer)
            return windows

    @contextlib.contextmanager
    def _kafka(self, topics: int) -> Iterator[tuple[Peer, Load]]:
        with kafka_peer.kafka(self._folder / "kafka") as peer, Load.for_kafka(self._folder) as load:
            load.order(peer, mode="create", topics=topics)
            load.order(peer, mode="touch", topics=topics)
            yield peer, load

    def _windows(self, cell: Cell, loads: list[tuple[Peer, Load]]) -> Iterator[Window]:
        """Yield the windows that count."""
        for _ in range(self._length.rounds):
            for peer, load in loads:
                for _ in range(math.ceil(cell.later_s / self._length.window_s)):
                    load.window(peer, cell, self._length.window_s)
                window = load.window(peer, cell, self._length.window_s)
                self._console.print(one_line(peer.name, cell, window), highlight=False)
                time.sleep(cell.later_s)  # what the broker does later must not slow the others down
                yield {"broker": peer.name, "cell": cell.name} | window

    def _warm_up(self, cell: Cell, peer: Peer, load: Load) -> None:
        window = partial(load.window, peer, cell, self._length.window_s)
        kit.warm_up(window, self._length.warm_ups)


def rss_mib(pid: int) -> float:
    """Return what a process has in memory now."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def one_line(broker: str, cell: Cell, window: Window) -> str:
    """Describe a window in a line."""
    text = f"{broker:>8} {cell.name:<24} {window['perSecond']:>9,.0f} messages/s"
    if window["othersCores"] > DISTURBED_CORES:
        text += f"  (others used {window['othersCores']:.1f} cores)"
    if window["failed"]:
        text += f"  {window['failed']} failed: {window['errors']}"
    if window["lost"]:
        text += f"  {window['lost']} sent but not stored"
    return text


if __name__ == "__main__":
    main()
