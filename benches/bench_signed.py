"""What signatures and policies cost: signed sends to RocketMQ and CometMQ, and unsigned ones in the same run.

    python -m benches.bench_signed [--rounds 3] [--seconds 4] [--warm-ups 6]

Four brokers are up: of each product one that lets everybody do everything, and one that wants signatures of
a user whom a policy allows to send to these topics. The same Java client sends to them in turn, with
RocketMQ's own hook where signatures are wanted.

The tables give the median of the windows: messages a second, and the broker's CPU time for a message.
"""

import argparse
import asyncio
import contextlib
import signal
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
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
from tests.kit.accounts import OF_JAVA, SETTINGS

from cometmq import kernels
from cometmq.net.connection import Connection
from cometmq.wire.acl import Credentials
from cometmq.wire.bodies import Body, encode
from cometmq.wire.bodies.access import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command

TOPICS: Final = 64
ADMIN: Final = Credentials("admin", "12345678")
USER: Final = Credentials("load", "a secret of the load")
CREATES_TOPICS: Final = str(int(RequestCode.UPDATE_AND_CREATE_TOPIC))
CHECKING: Final = (
    SETTINGS | OF_JAVA | {"authenticationWhitelist": CREATES_TOPICS, "authorizationWhitelist": CREATES_TOPICS}
)
"""The settings of the brokers that check requests, but for those that create the topics of the load."""
KINDS: Final[Mapping[str, Mapping[str, object]]] = {"unsigned": {}, "signed": CHECKING}
CELLS: Final = (
    Cell("sync", "sync", brokers=ROCKETMQ_ONLY),
    Cell("async", "async", threads=4, brokers=ROCKETMQ_ONLY),
    Cell("async, 1 KiB", "async", threads=4, body_size=1024, brokers=ROCKETMQ_ONLY),
)


class Figure(NamedTuple):
    """One window: messages a second, and microseconds of the broker's CPU for each."""

    rate: float
    cpu_us: float


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="python -m benches.bench_signed", description="what checks cost")
    kit.add_windows(parser, rounds=3, seconds=4.0, warm_ups=6)
    options = parser.parse_args()
    found: dict[tuple[str, str, str], list[Figure]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="cometmq-bench-") as name, contextlib.ExitStack() as stack:
        kernels.load_if_possible()  # compiled once, before anything is measured
        turns = [
            (peer, kind, load)
            for kind, settings in KINDS.items()
            for load in [stack.enter_context(load_of(Path(name) / kind))]
            for peer in stack.enter_context(brokers(Path(name) / kind, settings))
        ]
        for cell in CELLS:
            for counts in kit.rounds_of(options):
                for peer, kind, load in turns:
                    window = kit.whole_window(load, peer, cell, options.seconds)
                    if counts:
                        figure = Figure(window["perSecond"], window["cpuMicros"])
                        found[cell.name, peer.name, kind].append(figure)
    Console().print(table_of(found))


@contextlib.contextmanager
def brokers(folder: Path, settings: Mapping[str, object]) -> Iterator[tuple[Peer, Peer]]:
    """Run a broker of each product."""
    folder.mkdir(exist_ok=True)
    own = {name: value for name, value in settings.items() if name not in OF_JAVA}
    killed = signal.SIGKILL  # their stores are thrown away
    with (
        peers.rocketmq(folder / "rocketmq", settings, heap=BROKER_HEAP, ended_by=killed) as java,
        peers.cometmq(folder / "cometmq", own, ended_by=killed) as comet,
    ):
        for peer in (java, comet):
            if settings:
                asyncio.run(allow(peer))
            kit.create_topics(peer, TOPICS, folder)
        yield java, comet


async def allow(peer: Peer) -> None:
    """Create the user of the load, and allow it to send."""
    connection = await Connection.open(peer.broker, credentials=ADMIN)
    entry = PolicyEntryInfo("Topic:bench-*", ["Pub"], None, "Allow")
    requests: list[tuple[RequestCode, dict[str, str], Body]] = [
        (
            RequestCode.AUTH_CREATE_USER,
            {"username": USER.access_key},
            UserInfo(USER.access_key, USER.secret_key, "Normal", "enable"),
        ),
        (
            RequestCode.AUTH_CREATE_ACL,
            {"subject": f"User:{USER.access_key}"},
            AclInfo(f"User:{USER.access_key}", [PolicyInfo("Custom", [entry])]),
        ),
    ]
    for code, fields, body in requests:
        answer = await connection.request(Command(code, ext_fields=fields, body=encode(body)))
        assert answer.code == ResponseCode.SUCCESS, answer.remark
    await connection.close()


def load_of(folder: Path) -> Load:
    """Start a load generator; the one named after signed sends signs."""
    folder.mkdir(exist_ok=True)
    signs = {"load.accessKey": USER.access_key, "load.secretKey": USER.secret_key}
    properties = jvm.SILENT | (signs if folder.name == "signed" else {})
    return Load(
        jvm.command("Launch", "Load", home=folder, programs=PROGRAMS, options=HEAP, properties=properties)
    )


def table_of(found: Mapping[tuple[str, str, str], list[Figure]]) -> Table:
    """Lay out the medians."""
    table = Table("cell", "broker", "sends", "messages/s", "broker CPU, µs a message")
    for (cell, peer, kind), figures in found.items():
        rate, cpu = (statistics.median(column) for column in zip(*figures, strict=True))
        table.add_row(cell, peer, kind, f"{rate:,.0f}", f"{cpu:.1f}")
    return table


if __name__ == "__main__":
    main()
