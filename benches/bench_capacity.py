"""What one machine takes with one broker, and with two at once.

    python -m benches.bench_capacity [--rounds 5] [--seconds 4] [--warm-ups 6] [--write]

Two brokers run, each with a load generator of its own: ``java/RawLoad.java``, whose messages cost it some
microseconds. In turn one of them is loaded, and both. The table has the medians of the windows: messages a
second of all brokers together, and the CPU time that a broker takes for one. Generators and brokers share
the machine, so with two brokers on two cores the generators have their part of these.

``--write`` puts the table into ``docs/capacity.md``.
"""

import argparse
import contextlib
import os
import re
import signal
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

from benches import kit
from benches.load import Load
from tests.interop import peers
from tests.interop.peers import Peer

from cometmq import kernels

PAGE: Final = Path(__file__).parent.parent / "docs" / "capacity.md"
TABLE: Final = re.compile(r"(?<=<!-- measured -->\n).*?(?=<!-- end -->)", re.DOTALL)
TOPICS: Final = 64
BROKERS: Final = (1, 2)


class Kind(NamedTuple):
    """What is sent to a broker: over so many connections, each with so many sends under way."""

    name: str
    connections: int
    under_way: int
    body_size: int
    settings: Mapping[str, object]


KINDS: Final = (
    Kind("128 B, unanswered", 64, 8, 128, {}),
    Kind("1 KiB, unanswered", 64, 8, 1024, {}),
    Kind("128 B, SYNC_FLUSH", 64, 8, 128, {"flushDiskType": "SYNC_FLUSH"}),
)


class Loaded(NamedTuple):
    """A broker, and the generator that loads it."""

    peer: Peer
    load: Load

    def window(self, kind: Kind, seconds: float) -> dict[str, Any]:
        """Load it for some seconds."""
        found = self.load.order(
            self.peer,
            seconds,
            connections=kind.connections,
            window=kind.under_way,
            header="JSON",
            bodySize=kind.body_size,
            topics=TOPICS,
        )
        assert not found["failed"], found
        return found


def main() -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(
        prog="python -m benches.bench_capacity", description="one broker and two"
    )
    kit.add_windows(parser, rounds=5, seconds=4.0, warm_ups=6)
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.name}")
    options = parser.parse_args()
    kernels.load_if_possible()  # compiled once, before anything is measured
    rows = [measure(kind, options) for kind in KINDS]
    text = table_of(rows)
    print(text)
    if options.write:
        PAGE.write_text(TABLE.sub(lambda _: text, PAGE.read_text()))


def measure(kind: Kind, options: argparse.Namespace) -> list[str]:
    """Load one broker and both in turn; return the row of the table."""
    windows: dict[int, list[list[dict[str, Any]]]] = {count: [] for count in BROKERS}
    with (
        tempfile.TemporaryDirectory(prefix="cometmq-bench-") as name,
        ThreadPoolExecutor(len(BROKERS)) as at_once,
        brokers(Path(name), kind.settings) as both,
    ):
        for counts in kit.rounds_of(options):
            for count in BROKERS:
                found = list(at_once.map(lambda one: one.window(kind, options.seconds), both[:count]))
                if counts:
                    windows[count].append(found)
    one, two = (_rate(windows[count]) for count in BROKERS)
    cpu = [_cpu(windows[count]) for count in BROKERS]
    return [kind.name, f"{one:,.0f}", f"{two:,.0f}", f"{two / one:.2f}", f"{cpu[0]:.1f}, {cpu[1]:.1f} µs"]


@contextlib.contextmanager
def brokers(folder: Path, settings: Mapping[str, object]) -> Iterator[list[Loaded]]:
    """Run two brokers with their generators."""
    with contextlib.ExitStack() as stack:
        both = []
        for name in ("a", "b"):
            own = {**peers.PATIENT, "brokerName": name, **settings}
            peer = stack.enter_context(peers.cometmq(folder / name, own, ended_by=signal.SIGKILL))
            kit.create_topics(peer, TOPICS, folder)
            both.append(Loaded(peer, stack.enter_context(Load.raw(folder))))
        yield both


def _rate(windows: Sequence[Sequence[Mapping[str, Any]]]) -> float:
    """Return the median of the rates of all brokers of a window together."""
    return statistics.median(sum(float(one["perSecond"]) for one in window) for window in windows)


def _cpu(windows: Sequence[Sequence[Mapping[str, Any]]]) -> float:
    """Return the median of a broker's CPU time for a message, in µs."""
    return statistics.median(float(one["cpuMicros"]) for window in windows for one in window)


def table_of(rows: Sequence[Sequence[str]]) -> str:
    """Build the table, as a page has it."""
    head = [
        "load",
        "one broker, messages/s",
        "two brokers, messages/s",
        "ratio",
        "CPU of a broker, of each of two",
    ]
    lines = [head, ["---"] * len(head), *rows]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"\nMedians on a machine of {os.cpu_count()} cores:\n\n{table}\n\n"


if __name__ == "__main__":
    main()
