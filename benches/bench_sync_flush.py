"""SYNC_FLUSH: each message is on the disk before it is answered, beside the real Java broker doing the same.

    python -m benches.bench_sync_flush [--quick] [--connections 64]

``raw_load`` sends 128-byte messages over 64 connections, one at a time on each, to one broker after the other
in turn. One sync answers all that came while the one before it ran; how many syncs a message costs is counted
by CometMQ's broker.
"""

import argparse
import json
import socket
import tempfile
from pathlib import Path
from typing import Any, Final

from benches import raw_load
from benches.__main__ import (
    BODY_SIZE,
    BROKERS,
    FASTER,
    FIGURES,
    FULL,
    QUICK,
    THREADS,
    Length,
    median_of,
    one_line,
)
from benches.peers import QUEUES, TOPICS, all_three
from rich.console import Console
from rich.table import Table
from tests.interop import jvm, remoting
from tests.interop.peers import Peer

SYNC_FLUSH: Final = {"flushDiskType": "SYNC_FLUSH"}
GET_BROKER_RUNTIME_INFO: Final = 28
MODE: Final = "sync"

ROWS: Final = [row for row in FIGURES if row[1] in raw_load.MEASURED] + [("syncs/message", "syncs", 3)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benches.bench_sync_flush", description="SYNC_FLUSH")
    parser.add_argument("--quick", action="store_true", help="one round of short windows")
    parser.add_argument("--connections", type=int, default=THREADS)
    options = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="cometmq-bench-") as folder:
        windows = measure(Path(folder), QUICK if options.quick else FULL, options.connections, console)
    title = f"SYNC_FLUSH, {options.connections} connections, {BODY_SIZE} B, "
    table = Table(title=title + f"{TOPICS} topics x {QUEUES} queues; null stores nothing")
    for column in ("", f"RocketMQ {jvm.rocketmq_version()}", "CometMQ", "null", "ratio"):
        table.add_column(column, justify="right")
    for name, field, digits in ROWS:
        values = [median_of(windows, broker, MODE, field) for broker in BROKERS]
        ratio = f"{values[1] / values[0]:.2f}" if values[0] else "-"
        table.add_row(name, *(f"{value:,.{digits}f}" if value else "-" for value in values), ratio)
    console.print(table)


def measure(folder: Path, length: Length, connections: int, console: Console) -> list[dict[str, Any]]:
    """Run all windows, the brokers in turn; say each as it ends."""
    windows: list[dict[str, Any]] = []
    with all_three(folder, SYNC_FLUSH) as peers:
        for peer in peers:
            best = 0.0
            for _ in range(length.warm_ups):
                rate = window(peer, length.window_s, connections)["perSecond"]
                if rate < best * FASTER:
                    break
                best = rate
        for _ in range(length.rounds):
            for peer in peers:
                windows.append(window(peer, length.window_s, connections))
                console.print(one_line(windows[-1]), highlight=False)
    return windows


def window(peer: Peer, seconds: float, connections: int) -> dict[str, Any]:
    """Send for some seconds, and count syncs of all that was stored in them, if the broker can tell."""
    before = counts(peer)
    found = raw_load.window(peer, seconds, connections, BODY_SIZE)
    syncs, messages = (after - count for after, count in zip(counts(peer), before, strict=True))
    return {"broker": peer.name, "syncs": syncs / messages if messages else 0.0} | found


def counts(peer: Peer) -> tuple[int, int]:
    """Give how many syncs and how many messages the broker has counted."""
    host, _, port = peer.broker.partition(":")
    with socket.create_connection((host, int(port))) as connection:
        answer = remoting.ask(connection, remoting.frame(GET_BROKER_RUNTIME_INFO, {}))
    table = json.loads(answer.body)["table"]
    return int(table.get("commitLogSyncCount", 0)), int(table["putMessageTimesTotal"])


if __name__ == "__main__":
    main()
