"""What benches share: kernels made beforehand, topics of a load, warm-ups, windows, and CPU time."""

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from benches.cells import QUEUES, Cell
from benches.load import Load
from tests.interop import jvm
from tests.interop.peers import Peer

FASTER: Final = 1.03
"""A warm-up goes on while a window is faster than the best before it by this factor."""
USER_TIME: Final = 11  # counted from the state, which follows the name
SYSTEM_TIME: Final = 12


class Length(NamedTuple):
    """How long a run takes: at most ``warm_ups`` windows that do not count for each, then ``rounds``."""

    warm_ups: int
    window_s: float
    rounds: int


def compile_kernels(python: Path | str = sys.executable) -> None:
    """Fill the cache of kernels in a process of its own, before anything is measured."""
    subprocess.run([python, "-m", "cometmq.kernels"], check=True, stdout=subprocess.DEVNULL)


def create_topics(peer: Peer, count: int, home: Path) -> None:
    """Create the topics of a load, as operators of RocketMQ do."""
    topics = [f"bench-{number}" for number in range(count)]
    jvm.run("CreateTopic", peer.namesrv, peer.broker, QUEUES, *topics, home=home)


def warm_up(window: Callable[[], dict[str, Any]], times: int) -> None:
    """Run windows until they get no faster."""
    best = 0.0
    for _ in range(times):
        if (rate := window()["perSecond"]) < best * FASTER:
            return
        best = rate


def add_windows(parser: argparse.ArgumentParser, *, rounds: int, seconds: float, warm_ups: int) -> None:
    """Add the options that say how many windows there are, and how long each is."""
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--seconds", type=float, default=seconds)
    parser.add_argument("--warm-ups", type=int, default=warm_ups)


def rounds_of(options: argparse.Namespace) -> Iterator[bool]:
    """Iterate over the rounds of these options: whether each one counts, or warms up."""
    for number in range(options.warm_ups + options.rounds):
        yield number >= options.warm_ups


def whole_window(load: Load, peer: Peer, cell: Cell, seconds: float, **more: object) -> dict[str, Any]:
    """Load a broker for a window in which nothing may fail."""
    window = load.window(peer, cell, seconds, **more)
    assert not window["failed"] and not window["lost"], window
    return window


def cpu_s(pid: int) -> float:
    """Return what all threads of a process have used of the CPU."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[USER_TIME]) + int(fields[SYSTEM_TIME])) / os.sysconf("SC_CLK_TCK")
