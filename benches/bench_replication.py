"""What a slave costs: sends to a master that waits for its slave, of RocketMQ and of CometMQ, in one run.

    python -m benches.bench_replication [--rounds 5] [--seconds 4] [--warm-ups 6]

Up are a pair of each product (``SYNC_MASTER``, ``inSyncReplicas=2``: a send is answered once the slave has
its message), and, to compare, a CometMQ master alone, which waits for nobody. One Java client sends to them
in turn.

The table gives the median of the windows: messages a second, the mean time of a send, the CPU time of master
and slave for a message, and how many cores others used: above half a core the machine had other work.
"""

import argparse
import contextlib
import json
import signal
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from benches import kit
from benches.cells import Cell
from benches.load import Load
from benches.peers import HEAP
from rich.console import Console
from rich.table import Table
from tests.interop import peers
from tests.interop.patience import wait_until
from tests.interop.peers import Peer
from tests.kit.replication_peers import HA_STATUS, asked, ha_port

from cometmq import kernels

TOPICS: Final = 64
BOTH: Final[Mapping[str, object]] = {**peers.PATIENT, "brokerName": "pair"}
SYNC: Final[Mapping[str, object]] = {**BOTH, "brokerRole": "SYNC_MASTER", "inSyncReplicas": 2}
SLAVE: Final[Mapping[str, object]] = {**BOTH, "brokerRole": "SLAVE", "brokerId": 1}
CELLS: Final = (
    Cell("sync", "sync"),
    Cell("async", "async", threads=4),
    Cell("sync, 1 KiB", "sync", body_size=1024),
    Cell("async, 1 KiB", "async", threads=4, body_size=1024),
)


class Replicas(NamedTuple):
    """A master, and its slave if it has one."""

    name: str
    master: Peer
    slave: Peer | None = None


class Figure(NamedTuple):
    """One window: messages a second, their mean time, their CPU in microseconds, cores that others used."""

    rate: float
    mean_ms: float
    master_us: float
    slave_us: float
    others_cores: float


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="python -m benches.bench_replication", description="a slave's cost")
    kit.add_windows(parser, rounds=5, seconds=4.0, warm_ups=6)
    options = parser.parse_args()
    found: dict[tuple[str, str], list[Figure]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="cometmq-bench-") as name, contextlib.ExitStack() as stack:
        kernels.load_if_possible()  # compiled once, before anything is measured
        folder = Path(name)
        turns = [
            stack.enter_context(pair("rocketmq", folder / "java")),
            stack.enter_context(pair("cometmq", folder / "comet")),
            stack.enter_context(alone(folder / "alone")),
        ]
        load = stack.enter_context(Load.for_rocketmq(folder, "JSON"))
        for cell in CELLS:
            for counts in kit.rounds_of(options):
                for replicas in turns:
                    figure = measured(load, replicas, cell, options.seconds)
                    if counts:
                        found[cell.name, replicas.name].append(figure)
    Console().print(table_of(found))


def measured(load: Load, replicas: Replicas, cell: Cell, seconds: float) -> Figure:
    """Measure one window."""
    more: dict[str, object] = {} if replicas.slave is None else {"slavePid": replicas.slave.pid}
    window = kit.whole_window(load, replicas.master, cell, seconds, **more)
    names = ("perSecond", "meanMs", "cpuMicros", "slaveCpuMicros", "othersCores")
    return Figure(*(window[name] for name in names))


@contextlib.contextmanager
def pair(product: str, folder: Path) -> Iterator[Replicas]:
    """Run a master and its slave, which is in sync."""
    names = peers.START_NAMESRV[product](folder / "names")
    with (
        names as namesrv,
        broker(product, folder / "master", namesrv, SYNC) as master,
        broker(product, folder / "slave", namesrv, SLAVE) as slave,
    ):
        wait_until(lambda: json.loads(asked(master.broker, HA_STATUS).body)["inSyncSlaveNums"] == 1)
        make_topics(master, folder)
        yield Replicas(f"{product}, with a slave", master, slave)


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[Replicas]:
    """Run a master without a slave, which waits for nobody."""
    with peers.cometmq_namesrv() as namesrv, broker("cometmq", folder / "master", namesrv, BOTH) as master:
        make_topics(master, folder)
        yield Replicas("cometmq, alone", master)


def broker(
    product: str, store: Path, namesrv: str, settings: Mapping[str, object]
) -> contextlib.AbstractContextManager[Peer]:
    """Run a broker, whose store is thrown away."""
    own = {**settings, **ha_port()}
    if product == "cometmq":
        return peers.cometmq_broker(store, namesrv, own, ended_by=signal.SIGKILL)
    return peers.rocketmq_broker(store, namesrv, own, ended_by=signal.SIGKILL, heap=HEAP)


def make_topics(master: Peer, home: Path) -> None:
    """Create the topics of the load."""
    kit.create_topics(master, TOPICS, home)


def table_of(found: Mapping[tuple[str, str], list[Figure]]) -> Table:
    """Lay out the medians."""
    table = Table("cell", "brokers", "msg/s", "mean ms", "master, CPU µs", "slave, CPU µs", "others' cores")
    for (cell, replicas), figures in found.items():
        rate, mean_ms, master_us, slave_us, others = (
            statistics.median(column) for column in zip(*figures, strict=True)
        )
        slave = f"{slave_us:.1f}" if slave_us else "-"
        table.add_row(
            *(cell, replicas, f"{rate:,.0f}", f"{mean_ms:.2f}", f"{master_us:.1f}", slave, f"{others:.1f}")
        )
    return table


if __name__ == "__main__":
    main()
