"""SYNC_FLUSH: each message is on the disk before it is answered, beside the real Java broker doing the same.

    python -m benches.bench_sync_flush [--quick] [--connections 64] [--under-way 1,8] [--header JSON|ROCKETMQ]

``java/RawLoad.java`` sends 128-byte messages over 64 connections, with one and with eight unanswered on each,
to one broker after the other in turn. One sync answers all that came while the one before it ran; how many
syncs a message costs is counted by CometMQ's broker. The null broker stores nothing: it shows what the client
can do.
"""

import argparse
import json
import socket
import statistics
import tempfile
from functools import partial
from pathlib import Path
from typing import Final

from benches import kit
from benches.cells import QUEUES
from benches.load import Load
from benches.peers import TOPICS, all_three
from benches.report import FIGURES, Window
from rich.console import Console
from rich.table import Table
from tests.interop import jvm, remoting
from tests.interop.peers import Peer

SYNC_FLUSH: Final = {"flushDiskType": "SYNC_FLUSH"}
GET_BROKER_RUNTIME_INFO: Final = 28
BODY_SIZE: Final = 128
BROKERS: Final = ("rocketmq", "cometmq", "null")
MEASURED: Final = ("perSecond", "meanMs", "p50Ms", "p99Ms", "cpuMicros", "clientCpuMicros")
ROWS: Final = [row for row in FIGURES if row[1] in MEASURED] + [("fdatasync calls/message", "syncs", 3)]


FULL: Final = kit.Length(warm_ups=10, window_s=6, rounds=3)
QUICK: Final = kit.Length(warm_ups=3, window_s=3, rounds=1)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benches.bench_sync_flush", description="SYNC_FLUSH")
    parser.add_argument("--quick", action="store_true", help="one round of short windows")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--under-way", default="1,8", help="how many sends are unanswered on each connection")
    parser.add_argument("--header", choices=["JSON", "ROCKETMQ"], default="JSON", help="header encoding")
    options = parser.parse_args()
    loads = [int(text) for text in options.under_way.split(",")]
    length, console = QUICK if options.quick else FULL, Console()
    with (
        tempfile.TemporaryDirectory(prefix="cometmq-bench-") as folder,
        all_three(Path(folder), SYNC_FLUSH) as peers,
        Load.raw(Path(folder)) as load,
    ):
        bench = Bench(load, length.window_s, options.connections, options.header)
        for peer in peers:
            kit.warm_up(partial(bench.window, peer, max(loads)), length.warm_ups)
        for under_way in loads:
            windows = bench.measure(peers, under_way, length.rounds, console)
            console.print(table_of(windows, f"{options.connections} connections x {under_way} under way"))


class Bench:
    """Measures brokers under the load."""

    def __init__(self, load: Load, seconds: float, connections: int, header: str) -> None:
        self._load = load
        self._seconds = seconds
        self._settings = {
            "connections": connections,
            "header": header,
            "bodySize": BODY_SIZE,
            "topics": TOPICS,
        }

    def measure(self, peers: tuple[Peer, ...], under_way: int, rounds: int, console: Console) -> list[Window]:
        """Run all windows, the brokers in turn; say each as it ends."""
        windows = []
        for peer in peers * rounds:
            windows.append(window := self.window(peer, under_way))
            text = f"{peer.name:>8} {under_way} under way {window['perSecond']:>9,.0f} messages/s"
            failed = f"  {window['failed']} failed: {window['codes']}" if window["failed"] else ""
            console.print(f"{text}  (others used {window['othersCores']:.1f} cores){failed}", highlight=False)
        return windows

    def window(self, peer: Peer, under_way: int) -> Window:
        """Send for some seconds, and count syncs of all that was stored in them, if the broker can tell."""
        before = counts(peer)
        found = self._load.order(peer, self._seconds, window=under_way, **self._settings)
        syncs, messages = (after - count for after, count in zip(counts(peer), before, strict=True))
        return {"broker": peer.name, "syncs": syncs / messages if messages else 0.0} | found


def counts(peer: Peer) -> tuple[int, int]:
    """Return how many syncs and how many messages the broker has counted."""
    host, _, port = peer.broker.partition(":")
    with socket.create_connection((host, int(port))) as connection:
        answer = remoting.ask(connection, remoting.frame(GET_BROKER_RUNTIME_INFO, {}))
    table = json.loads(answer.body)["table"]
    return int(table.get("commitLogSyncCount", 0)), int(table["putMessageTimesTotal"])


def table_of(windows: list[Window], load: str) -> Table:
    """Return the medians side by side; the ratio is CometMQ's to RocketMQ."""
    table = Table(title=f"SYNC_FLUSH, {load}, {BODY_SIZE} B, {TOPICS} topics x {QUEUES} queues")
    for column in ("", f"RocketMQ {jvm.rocketmq_version()}", "CometMQ", "null", "ratio"):
        table.add_column(column, justify="right")
    for name, field, digits in ROWS:
        java, comet, null = (
            statistics.median(window[field] for window in windows if window["broker"] == broker)
            for broker in BROKERS
        )
        ratio = f"{comet / java:.2f}" if java else "-"
        values = (f"{value:,.{digits}f}" if value else "-" for value in (java, comet, null))
        table.add_row(name, *values, ratio)
    return table


if __name__ == "__main__":
    main()
