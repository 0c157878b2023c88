"""A flood of producers, and consumers that stop reading: what the broker holds of it, and whom it disturbs.

    python -m benches.bench_flood [--seconds 60] [--producers 200] [--consumers 50] [--sync-flush]

The producers send as fast as they can, from two processes, and never wait for an answer (``flood_load.py``).
The consumers ask for messages and read no answer. One client behaves: it sends 100 messages a second, each
when it is due, and measures how long its answer takes. The broker's memory (VmRSS) is sampled all
the time.

Then the broker stops, and the store is read: each message that was acknowledged must be there, whole, once,
and in its queue. Exits with 1 if one is not, or if the broker took 400 MB or more.
"""

import argparse
import contextlib
import json
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from benches import kit
from benches.bench_cold_read import create_frame, pull_fields
from benches.flood_load import DIGITS
from benches.start import send_frame
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from tests.interop import jvm, peers, remoting

from cometmq import kernels
from cometmq.format import layout
from cometmq.store.settings import StoreSettings
from cometmq.store.store import MessageStore

MEMORY_MB_MAX: Final = 400
LOADS: Final = 2
TOPICS: Final = tuple(f"flood-{number}" for number in range(8))
UNREAD, STEADY = "unread", "steady"
BODY_SIZE: Final = 128
QUEUES: Final = 4
STEADY_RATE: Final = 100
UNREAD_BODY: Final = bytes(4096)
UNREAD_COUNT: Final = 256
PULL_MESSAGE: Final = 11
PULLS: Final = 64
"""So many pulls a consumer writes at once."""
SAMPLE_S: Final = 0.1
BEGIN_S: Final = 1.0
SCAN_BYTES: Final = 64 << 20
ID_SIZE: Final = 6 + DIGITS
"""A body begins with the number of its connection, six digits, and its own."""


class Flooded(NamedTuple):
    """What came of it.

    Attributes:
        loads: what each load process says.
        latencies: of the client that behaves, s; not a number where it got no success.
        memory_mb: the broker's, sampled.
    """

    loads: list[Mapping[str, Any]]
    latencies: NDArray[np.float64]
    memory_mb: list[float]


def main() -> int:
    """Measure, read everything back, print; give the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benches.bench_flood", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--producers", type=int, default=200)
    parser.add_argument("--consumers", type=int, default=50)
    parser.add_argument("--sync-flush", action="store_true", help="with flushDiskType=SYNC_FLUSH")
    parser.add_argument("--directory", type=Path, help="where the store is made, on a disk that counts")
    options = parser.parse_args()
    kit.compile_kernels()
    settings = {"flushDiskType": "SYNC_FLUSH"} if options.sync_flush else {}
    with tempfile.TemporaryDirectory(prefix="cometmq-flood-", dir=options.directory) as folder:
        store = Path(folder) / "store"
        files = [Path(folder) / f"{number}.npy" for number in range(LOADS)]
        with peers.cometmq(store, settings) as broker:
            flooded = flood(broker, options.seconds, options.producers, options.consumers, files)
        acknowledged = np.concatenate([np.load(file) for file in files])
        found, in_queues = read_back(store)
        lost = len(acknowledged) - count_in(acknowledged, found)
        doubled = len(found) - len(np.unique(found))
    console = Console()
    console.print(table_of(flooded, len(acknowledged), options.seconds))
    console.print(
        f"read back: {len(found):,} messages, {in_queues:,} in their queues; "
        f"of {len(acknowledged):,} acknowledged ones {lost:,} are lost; {doubled:,} are there twice"
    )
    is_well = (
        len(acknowledged) > 0 == lost == doubled
        and in_queues == len(found)
        and max(flooded.memory_mb) < MEMORY_MB_MAX
    )
    console.print("held" if is_well else f"NOT HELD: nothing may be lost, nor {MEMORY_MB_MAX} MB be reached")
    return 0 if is_well else 1


def flood(broker: peers.Peer, seconds: float, producers: int, consumers: int, files: list[Path]) -> Flooded:
    """Send all to the broker at once."""
    port = int(broker.broker.partition(":")[2])
    prepare(port)
    memory: list[float] = []
    latencies: list[float] = []
    over = threading.Event()
    threads = [
        threading.Thread(target=sample_memory, args=(broker.pid, memory, over)),
        threading.Thread(target=never_read, args=(port, consumers, over)),
        threading.Thread(target=behave, args=(port, latencies, over)),
    ]
    children = [start_load(port, seconds, producers, number, file) for number, file in enumerate(files)]
    try:
        for thread in threads:
            thread.start()
        loads = [json.loads(child.communicate()[0]) for child in children]
    finally:
        over.set()
        for thread in threads:
            thread.join()
    return Flooded(loads, np.array(latencies), memory)


def prepare(port: int) -> None:
    """Create the topics, and messages for the consumers to ask for."""
    with socket.create_connection((peers.HOST, port)) as connection:
        for topic in (*TOPICS, UNREAD, STEADY):
            assert remoting.ask(connection, create_frame(topic)).code == 0
        for number in range(UNREAD_COUNT):
            assert remoting.ask(connection, send_frame(UNREAD, number % QUEUES, body=UNREAD_BODY)).code == 0


def start_load(port: int, seconds: float, producers: int, number: int, file: Path) -> "subprocess.Popen[str]":
    """Start one of the processes that flood."""
    share = producers // LOADS
    order = {
        "port": port,
        "topics": TOPICS,
        "queues": QUEUES,
        "seconds": seconds,
        "first": number * share,
        "connections": share,
        "bodySize": BODY_SIZE,
        "file": str(file),
    }
    command = [sys.executable, "-m", "benches.flood_load", json.dumps(order)]
    return subprocess.Popen([*jvm.dies_with_parent(), *command], stdout=subprocess.PIPE, text=True)


def sample_memory(pid: int, memory_mb: list[float], over: threading.Event) -> None:
    """Record the broker's resident memory until it is over."""
    while not over.wait(SAMPLE_S):
        status = Path(f"/proc/{pid}/status").read_text()
        memory_mb.append(int(status.partition("VmRSS:")[2].split()[0]) * 1024 / 1e6)


def never_read(port: int, count: int, over: threading.Event) -> None:
    """Write pulls on some connections whenever that goes, and read nothing."""
    with contextlib.ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        for number in range(count):
            connection = stack.enter_context(socket.create_connection((peers.HOST, port)))
            connection.setblocking(False)
            fields = pull_fields(number % QUEUES, 0) | {"topic": UNREAD}
            selector.register(connection, selectors.EVENT_WRITE, remoting.frame(PULL_MESSAGE, fields) * PULLS)
        rests = dict.fromkeys((key.fd for key in selector.get_map().values()), b"")
        while not over.is_set():
            for key, _ in selector.select(timeout=SAMPLE_S):
                assert isinstance(key.fileobj, socket.socket)
                rest = rests[key.fd] or key.data
                with contextlib.suppress(BlockingIOError):
                    rests[key.fd] = rest[key.fileobj.send(rest) :]
            over.wait(SAMPLE_S / 10)  # there is no hurry: what they cost is the answers


def behave(port: int, latencies: list[float], over: threading.Event) -> None:
    """Send a message each time one is due; note how long after that its answer comes."""
    dues: deque[float] = deque()
    with socket.create_connection((peers.HOST, port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answers = threading.Thread(target=note_answers, args=(connection, dues, latencies))
        answers.start()
        over.wait(BEGIN_S)
        due = time.perf_counter()
        while not over.wait(max(0.0, due - time.perf_counter())):
            dues.append(due)
            connection.sendall(send_frame(STEADY, body=bytes(BODY_SIZE)))
            due += 1 / STEADY_RATE
        connection.shutdown(socket.SHUT_WR)  # the broker answers what it has, and closes
        answers.join()


def note_answers(connection: socket.socket, dues: deque[float], latencies: list[float]) -> None:
    """Record how late each answer is, in the order of the sends, until the broker closes."""
    with connection.makefile("rb") as stream:
        while length := stream.read(4):
            answer = stream.read(int.from_bytes(length, "big"))
            header = json.loads(answer[4 : 4 + int.from_bytes(answer[1:4], "big")])
            latency = time.perf_counter() - dues.popleft()
            latencies.append(latency if header["code"] == 0 else np.nan)


def read_back(store: Path) -> tuple[NDArray[np.int64], int]:
    """Read the flood's messages out of the log; give their ids, and how many of them their queues hold.

    An id is the number of the connection times 10 ** DIGITS plus the message's.
    """
    kernels.load()
    ids = [np.empty(0, np.int64)]
    directory = layout.commitlog_dir(store)
    for path in sorted(directory.iterdir()):
        ids += ids_in(np.memmap(path, np.uint8, "r"), layout.parse_offset_name(path.name))
    with MessageStore.open(store, StoreSettings()) as opened:
        in_queues = sum(opened.max_queue_offset(topic, queue) for topic in TOPICS for queue in range(QUEUES))
    return np.concatenate(ids), in_queues


def ids_in(data: NDArray[np.uint8], base_offset: int) -> Iterator[NDArray[np.int64]]:
    """Yield the ids of the flood's messages in one file; each record's checksum is checked."""
    topics = {len(topic): np.frombuffer(topic.encode(), np.uint8)[:-1] for topic in TOPICS}
    ((length, beginning),) = topics.items()
    powers = 10 ** np.arange(ID_SIZE - 1, -1, -1)
    start = 0
    while True:
        end = min(start + SCAN_BYTES, len(data))
        scan = kernels.loading.ops.scan(data, base_offset=base_offset, start=start, end=end)
        if not scan.count:
            return
        names = data[scan.topic_position[:, None] + np.arange(len(beginning))]
        own = (scan.topic_length == length) & (names == beginning).all(axis=1)
        digits = data[scan.body_position[own][:, None] + np.arange(ID_SIZE)].astype(np.int64) - ord("0")
        yield digits @ powers
        start = scan.stop_position


def count_in(acknowledged: NDArray[np.int64], found: NDArray[np.int64]) -> int:
    """Return how many of the acknowledged messages were found."""
    ids = acknowledged[:, 0] * 10**DIGITS + acknowledged[:, 1]
    return int(np.isin(ids, found).sum())


def table_of(flooded: Flooded, acknowledged: int, seconds: float) -> Table:
    """Show the figures."""
    codes: dict[str, int] = {}
    for load in flooded.loads:
        for code, count in load["codes"].items():
            codes[code] = codes.get(code, 0) + count
    latencies = flooded.latencies[~np.isnan(flooded.latencies)] * 1000
    table = Table(title="a flood of producers, and consumers that do not read", show_header=False)
    rows = {
        "messages sent": f"{sum(load['sent'] for load in flooded.loads):,}",
        "acknowledged": f"{acknowledged:,} ({acknowledged / seconds:,.0f}/s)",
        "answers by code": ", ".join(f"{code}: {count:,}" for code, count in sorted(codes.items())),
        "unanswered": f"{sum(load['unanswered'] for load in flooded.loads):,}",
        "a client that behaves, p50": f"{np.percentile(latencies, 50):.2f} ms",
        "… p99": f"{np.percentile(latencies, 99):.2f} ms",
        "… max": f"{latencies.max():.2f} ms",
        "… messages, refused": f"{len(flooded.latencies):,}, {np.isnan(flooded.latencies).sum():,}",
        "memory of the broker, begin": f"{flooded.memory_mb[0]:.0f} MB",
        "… median": f"{np.median(flooded.memory_mb):.0f} MB",
        "… most": f"{max(flooded.memory_mb):.0f} MB",
    }
    for name, text in rows.items():
        table.add_row(name, text)
    return table


if __name__ == "__main__":
    sys.exit(main())
