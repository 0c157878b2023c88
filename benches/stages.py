"""Where a message's microseconds go in the broker: by stage, while the real Java client sends.

    python -m benches.stages [--seconds 6]

128-byte messages to 64 topics of 8 queues, as in ``python -m benches``: from 64 threads that wait, and 512
unanswered from 4. The broker is ``timed_broker``. Figures are µs of CPU time for a message; the last lines
are the whole process, by what the kernel did for it and what it did itself.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from benches import kit
from benches.cells import FEW_THREADS, Cell
from benches.load import Load
from benches.peers import TOPICS
from rich.console import Console
from rich.table import Table
from tests.interop import peers
from tests.interop.peers import Peer

CELLS: Final = (Cell("sync, 64 threads", "sync"), Cell("async, 512 unanswered", "async", threads=FEW_THREADS))
WARM_UPS: Final = 3
WINDOW_S: Final = 6.0
ANSWER_S_MAX: Final = 10.0
LOOK_S: Final = 0.01
REST: Final = "event loop, receiving, other threads"
SYSTEM: Final = "all of it, in system calls"
USER: Final = "all of it, in the process"
TURN: Final = "messages in a turn of the loop"

Costs = dict[str, dict[str, float]]
"""µs a message, by load and stage."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benches.stages", description="where microseconds go")
    parser.add_argument("--seconds", type=float, default=WINDOW_S, help="of a window (%(default)s)")
    Console().print(table_of(measure(parser.parse_args().seconds)))


def measure(window_s: float = WINDOW_S) -> Costs:
    """Load a broker in each way; return what a message costs it, by load and stage."""
    kit.compile_kernels()
    with tempfile.TemporaryDirectory(prefix="cometmq-bench-") as name:
        folder = Path(name)
        port, namesrv_port = peers.free_port(), peers.free_port()
        _, *arguments = peers.cometmq_command(folder / "store", port=port, namesrv_port=namesrv_port)
        command = [sys.executable, "-m", "benches.timed_broker", *arguments]
        environment = os.environ | {"STAGES": str(folder / "stages.json")}
        address = f"{peers.HOST}:{port}"
        with (
            peers.Process(
                command, ready=address, environment=environment, ended_by=signal.SIGKILL
            ) as process,
            Load.for_rocketmq(folder, "JSON") as load,
        ):
            broker = Peer("cometmq", f"{peers.HOST}:{namesrv_port}", address, process.pid, folder / "store")
            kit.create_topics(broker, TOPICS, folder)
            return {cell.name: _costs(broker, load, cell, folder, window_s) for cell in CELLS}


def table_of(costs: Costs) -> Table:
    """Show the stages, a column for each load."""
    table = Table("µs of the broker's CPU for a message", *costs)
    for stage in next(iter(costs.values())):
        table.add_row(stage, *(f"{each[stage]:.2f}" for each in costs.values()))
    return table


def _costs(broker: Peer, load: Load, cell: Cell, folder: Path, window_s: float) -> dict[str, float]:
    for _ in range(WARM_UPS):
        load.window(broker, cell, window_s)
    before = _told(broker, folder)
    load.window(broker, cell, window_s)
    after = _told(broker, folder)
    messages = after["messages"] - before["messages"]
    each = {name: (after[name] - before[name]) / messages for name in ("user", "system")}
    stages = {stage: (after["stages"][stage] - took) / messages for stage, took in before["stages"].items()}
    rest = each["user"] + each["system"] - sum(stages.values())
    turn = messages / (after["turns"] - before["turns"])
    return {**stages, REST: rest, SYSTEM: each["system"], USER: each["user"], TURN: turn}


def _told(broker: Peer, folder: Path) -> dict[str, Any]:
    """Return what the broker says that it has used."""
    path = folder / "stages.json"
    path.unlink(missing_ok=True)
    os.kill(broker.pid, signal.SIGUSR1)
    until = time.monotonic() + ANSWER_S_MAX
    while not path.exists():
        assert time.monotonic() < until, "the broker does not tell"
        time.sleep(LOOK_S)
    told: dict[str, Any] = json.loads(path.read_text())
    return told


if __name__ == "__main__":
    main()
