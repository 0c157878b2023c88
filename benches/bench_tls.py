"""What TLS costs: sends by Java clients to a RocketMQ and a CometMQ broker, plainly and by TLS, in one run.

    python -m benches.bench_tls [--rounds 3] [--seconds 4] [--warm-ups 6]

Both brokers accept both kinds of connections. Two load generators, one for each kind, put the same cells on
them in turn. RocketMQ's server brings its own OpenSSL; the certificate that it makes has an RSA key,
CometMQ's an ECDSA one, which matters to handshakes only.

The table gives the median of the windows: messages a second, the broker's CPU time for a message, and how
many cores neither broker nor clients used: above half a core the machine had other work.
"""

import argparse
import contextlib
import signal
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from benches import kit
from benches.cells import ROCKETMQ_ONLY, Cell
from benches.load import HEAP, PROGRAMS, Load
from benches.peers import HEAP as BROKER_HEAP
from rich.console import Console
from rich.table import Table
from tests.interop import jvm, peers
from tests.interop.peers import Peer

from cometmq import kernels
from cometmq.net.tls.throwaway import make_certificate

TOPICS: Final = 64
KINDS: Final = {"plain": "false", "TLS": "true"}
CELLS: Final = (
    Cell("sync", "sync", brokers=ROCKETMQ_ONLY),
    Cell("async", "async", threads=4, brokers=ROCKETMQ_ONLY),
    Cell("sync, 1 KiB", "sync", body_size=1024, brokers=ROCKETMQ_ONLY),
    Cell("push consume", "push", threads=0, brokers=ROCKETMQ_ONLY),
)
STORED: Final = 500_000


class Figure(NamedTuple):
    """One window: messages a second, microseconds of the broker's CPU for each, cores that others used."""

    rate: float
    cpu_us: float
    others_cores: float


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="python -m benches.bench_tls", description="what TLS costs")
    kit.add_windows(parser, rounds=3, seconds=4.0, warm_ups=6)
    options = parser.parse_args()
    console = Console()
    found: dict[tuple[str, str, str], list[Figure]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="cometmq-bench-") as name:
        folder = Path(name)
        with brokers(folder) as both, loads(folder) as by_kind:
            for peer in both:
                by_kind["plain"].fill(peer, TOPICS, STORED)
            for cell in CELLS:
                turns = [(peer, kind, load) for peer in both for kind, load in by_kind.items()]
                for counts in kit.rounds_of(options):
                    for peer, kind, load in turns:
                        window = kit.whole_window(load, peer, cell, options.seconds)
                        if counts:
                            figure = Figure(window["perSecond"], window["cpuMicros"], window["othersCores"])
                            found[cell.name, peer.name, kind].append(figure)
                console.print(f"{cell.name} is measured", highlight=False)
    console.print(table_of(found))


@contextlib.contextmanager
def brokers(folder: Path) -> Iterator[tuple[Peer, Peer]]:
    """Run both brokers, each with TLS beside plain connections."""
    kernels.load_if_possible()  # compiled once, before anything is measured
    made = make_certificate(folder / "tls")
    patient = peers.PATIENT  # a send that waits is to be measured, not refused
    settings = patient | {"tlsServerCertPath": made.cert, "tlsServerKeyPath": made.key}
    killed = signal.SIGKILL  # their stores are thrown away
    with (
        peers.rocketmq(folder / "rocketmq", patient, heap=BROKER_HEAP, ended_by=killed) as java,
        peers.cometmq(folder / "cometmq", settings, ended_by=killed) as comet,
    ):
        for peer in (java, comet):
            kit.create_topics(peer, TOPICS, folder)
        yield java, comet


@contextlib.contextmanager
def loads(folder: Path) -> Iterator[dict[str, Load]]:
    """Start a load generator for each kind of connection."""
    with contextlib.ExitStack() as stack:
        yield {kind: stack.enter_context(load(folder, enabled)) for kind, enabled in KINDS.items()}


def load(folder: Path, enabled: str) -> Load:
    """Start a load generator on RocketMQ's client, whose connections are TLS or not."""
    properties = jvm.SILENT | {"rocketmq.serialize.type": "JSON", "tls.enable": enabled}
    command = jvm.command(
        "Launch", "Load", home=folder, programs=PROGRAMS, options=HEAP, properties=properties
    )
    return Load(command)


def table_of(found: dict[tuple[str, str, str], list[Figure]]) -> Table:
    """Build the table of all cells."""
    titles = ("cell", "broker", "plain, msg/s", "TLS, msg/s", "plain, CPU µs", "TLS, CPU µs", "TLS costs")
    table = Table(*titles, "others' cores")
    for cell in CELLS:
        for broker in ROCKETMQ_ONLY:
            plain, hidden = (_median(found[cell.name, broker, kind]) for kind in KINDS)
            table.add_row(
                cell.name,
                broker,
                f"{plain.rate:,.0f}",
                f"{hidden.rate:,.0f}",
                f"{plain.cpu_us:.1f}",
                f"{hidden.cpu_us:.1f}",
                f"{hidden.cpu_us - plain.cpu_us:+.1f} µs",
                f"{plain.others_cores:.1f}, {hidden.others_cores:.1f}",
            )
    return table


def _median(figures: list[Figure]) -> Figure:
    return Figure(*(statistics.median(values) for values in zip(*figures, strict=True)))


if __name__ == "__main__":
    main()
