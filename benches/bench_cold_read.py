"""What a consumer that reads a cold log does to a producer's latency.

    python -m benches.bench_cold_read [--mib 2048] [--rate 5000] [--seconds 20] [--rounds 3] [--directory D]

A producer sends on a fixed schedule, in turn alone, beside a process that reads the log's queues from their
beginning, with a pull under way for each, after the page cache has let go of all files, and beside the same
once more: that shows how much of the difference is not the disk's but the processor's. A latency counts from
the moment at which the schedule wanted the send, so that no stall hides the sends that it holds back. Figures
are medians of the rounds. Exits with 1 if the producer's p99 beside the cold log is over twice its p99 alone.
"""

import argparse
import asyncio
import json
import os
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from benches.fill import Fill
from rich.console import Console
from rich.table import Table
from tests.interop import peers, remoting

from cometmq.store.settings import StoreSettings
from cometmq.store.store import MessageStore

UPDATE_AND_CREATE_TOPIC, PULL_MESSAGE, SEND_MESSAGE_V2 = 17, 11, 310
PULL_SUBSCRIPTION: Final = 4
COLD, LIVE = "bench-0", "live-%04d"
ALONE: Final = "alone"
BESIDE_COLD: Final = "beside a consumer of the cold log"
BESIDE_WARM: Final = "… once more, now in memory"
QUEUES: Final = 4
FILE_SIZE: Final = 256 << 20
BODY_SIZE: Final = 1024
SEND_CONNECTIONS: Final = 4
TICK_S: Final = 0.001
WARM_UP_S: Final = 3
RATIO_MAX: Final = 2.0
UNMAPPED_WITHIN_S: Final = 10
POLL_S: Final = 0.1


def main() -> int:
    """Measure and print; give the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benches.bench_cold_read", description=__doc__)
    parser.add_argument("--mib", type=int, default=2048, help="size of the cold log")
    parser.add_argument("--rate", type=int, default=5000, help="messages per second of the producer")
    parser.add_argument("--seconds", type=float, default=20, help="how long the producer is alone")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--directory", type=Path, help="where the store is made, on a disk that counts")
    parser.add_argument("--consume", type=int, metavar="PORT", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.consume:
        print(json.dumps(consume(options.consume)))
        return 0
    with tempfile.TemporaryDirectory(prefix="cometmq-cold-", dir=options.directory) as folder:
        return measure(Path(folder) / "store", options.mib, options.rate, options.seconds, options.rounds)


def measure(store: Path, mib: int, rate: int, seconds: float, rounds: int) -> int:
    """Fill a store, and measure the producer alone and beside the consumer, with the log cold and warm."""
    fill(store, mib)
    settings = {"mappedFileSizeCommitLog": FILE_SIZE}
    windows: dict[str, list[np.ndarray]] = {ALONE: [], BESIDE_COLD: [], BESIDE_WARM: []}
    with peers.cometmq(store, settings, ended_by=signal.SIGKILL) as broker:
        port = int(broker.broker.partition(":")[2])
        with socket.create_connection((peers.HOST, port)) as connection:
            for topic in (COLD, LIVE % 0):
                assert remoting.ask(connection, create_frame(topic)).code == 0
        asyncio.run(produce_all(port, rate, for_seconds(WARM_UP_S)))
        for _ in range(rounds):
            let_go(store, broker.pid)
            windows[ALONE].append(asyncio.run(produce_all(port, rate, for_seconds(seconds))))
            before, waits_before = disk_bytes(broker.pid), loop_waits(broker.pid)
            cold, given = beside_consumer(port, rate)
            read, waits = disk_bytes(broker.pid) - before, loop_waits(broker.pid) - waits_before
            windows[BESIDE_COLD].append(cold)
            windows[BESIDE_WARM].append(beside_consumer(port, rate)[0])
            print(
                f"consumed {given['messages']:,} messages, {given['bytes'] >> 20} MiB in "
                f"{given['seconds']:.1f} s; {read >> 20} MiB came from the disk; "
                f"the broker's loop waited for it {waits} times"
            )
    ratio = median_of(windows[BESIDE_COLD], percentile_99) / median_of(windows[ALONE], percentile_99)
    Console().print(table_of(windows, rate))
    print(f"p99 beside the cold log / alone: {ratio:.2f} (at most {RATIO_MAX})")
    return int(ratio > RATIO_MAX)


def beside_consumer(port: int, rate: int) -> tuple[np.ndarray, dict[str, Any]]:
    """Send while a process reads the cold topic; give the latencies, and what it says that it read."""
    command = [sys.executable, "-m", "benches.bench_cold_read", "--consume", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as consumer:
        latencies = asyncio.run(produce_all(port, rate, lambda: consumer.poll() is None))
        return latencies, json.loads(consumer.communicate()[0])


def fill(store: Path, mib: int) -> None:
    """Write the log that will be cold."""
    with MessageStore.open(store, StoreSettings(mapped_file_size_commit_log=FILE_SIZE)) as opened:
        filled = Fill(opened, 1, QUEUES, BODY_SIZE)
        while opened.written_offset < mib << 20:
            filled.round()


def let_go(store: Path, pid: int) -> None:
    """Drop all files from the page cache, once the broker has: what is mapped stays."""
    until = time.monotonic() + UNMAPPED_WITHIN_S
    while mapped_kib(store, pid):
        assert time.monotonic() < until, "the broker keeps pages mapped that nobody reads"
        time.sleep(POLL_S)
    for path in store.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fdatasync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def mapped_kib(store: Path, pid: int) -> int:
    """Return how much of a store's files counts as a process's memory."""
    maps = Path(f"/proc/{pid}/smaps").read_text().split(f" {store}/")[1:]
    return sum(int(entry.partition("\nRss:")[2].split()[0]) for entry in maps)


def disk_bytes(pid: int) -> int:
    """Return how much a process has had read from the disk."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["read_bytes"])


def loop_waits(pid: int) -> int:
    """Return how often the first thread of a process has waited for a page (proc(5), majflt)."""
    fields = Path(f"/proc/{pid}/task/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[9])


class Answers(asyncio.Protocol):
    """One connection of the producer: sends, and notes how long after its scheduled time each is answered.

    What the broker refuses is counted by its words, and is no latency.
    """

    def __init__(self, latencies: list[float], refused: Counter[str], topics: int) -> None:
        self._latencies = latencies
        self._refused = refused
        self._topics = topics
        self._due: dict[int, float] = {}
        self._data = b""
        self._opaque = 0
        self.all_answered = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin (called by asyncio)."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def send(self, due: list[float]) -> None:
        """Send a message for each scheduled time."""
        frames = []
        self.all_answered.clear()
        for at in due:
            self._opaque += 1
            self._due[self._opaque] = at
            frames.append(send_frame(self._opaque, self._topics))
        self.transport.write(b"".join(frames))

    def data_received(self, data: bytes) -> None:
        """Record the answers (called by asyncio)."""
        now = time.perf_counter()
        data = self._data + data
        at = 0
        while len(data) - at >= 8 and len(data) - at >= 4 + (size := struct.unpack_from(">i", data, at)[0]):
            header = json.loads(data[at + 8 : at + 4 + size])
            due = self._due.pop(header["opaque"])
            if header["code"] == 0:
                self._latencies.append(now - due)
            else:
                words = (header.get("remark") or "").partition(",")[0]  # how long it waited, say, follows
                self._refused[f"{header['code']}: {words}"] += 1
            at += 4 + size
        self._data = data[at:]
        if not self._due:
            self.all_answered.set()

    def connection_lost(self, _: Exception | None) -> None:
        """End the wait for answers (called by asyncio)."""
        self.all_answered.set()


class Produced(NamedTuple):
    """What became of sends: how long after its scheduled time each was answered, s; what was refused."""

    latencies: np.ndarray
    refused: Counter[str]


async def produce(port: int, rate: int, goes_on: Callable[[], bool], topics: int = 1) -> Produced:
    """Send on a schedule as long as ``goes_on`` says so, to topics in turn."""
    latencies: list[float] = []
    refused: Counter[str] = Counter()
    loop = asyncio.get_running_loop()
    connections = [
        (await loop.create_connection(lambda: Answers(latencies, refused, topics), peers.HOST, port))[1]
        for _ in range(SEND_CONNECTIONS)
    ]
    begin = time.perf_counter()
    sent = 0
    while goes_on():
        now = time.perf_counter() - begin
        due = [begin + number / rate for number in range(sent, int(now * rate) + 1)]
        sent += len(due)
        for number, connection in enumerate(connections):
            if mine := due[number::SEND_CONNECTIONS]:
                assert not connection.transport.is_closing(), "the broker closed a connection"
                connection.send(mine)
        await asyncio.sleep(TICK_S)
    for connection in connections:
        await connection.all_answered.wait()
        assert not connection.transport.is_closing(), "the broker closed a connection"
        connection.transport.close()
    return Produced(np.array(latencies), refused)


async def produce_all(port: int, rate: int, goes_on: Callable[[], bool]) -> np.ndarray:
    """Send as ``produce`` does to a broker that must refuse nothing; give the latencies in s."""
    produced = await produce(port, rate, goes_on)
    assert not produced.refused, f"the broker refused sends: {dict(produced.refused)}"
    return produced.latencies


def for_seconds(seconds: float) -> Callable[[], bool]:
    """Return a function that is true for some seconds from now on."""
    end = time.perf_counter() + seconds
    return lambda: time.perf_counter() < end


def consume(port: int) -> Mapping[str, Any]:
    """Read all queues of the cold topic from their beginning, with a pull under way for each."""
    begin = time.perf_counter()
    with ThreadPoolExecutor(QUEUES) as threads:
        counts = list(threads.map(lambda queue: read_queue(port, queue), range(QUEUES)))
    messages, size = (sum(column) for column in zip(*counts, strict=True))
    return {"messages": messages, "bytes": size, "seconds": time.perf_counter() - begin}


def read_queue(port: int, queue: int) -> tuple[int, int]:
    """Read one queue to its end; give how many messages and bytes it has."""
    size = offset = 0
    with socket.create_connection((peers.HOST, port)) as connection:
        for header, body in pulls(connection, queue):
            offset, size = int(header["extFields"]["nextBeginOffset"]), size + len(body)
    return offset, size


def pulls(connection: socket.socket, queue: int) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Pull on and on; give the answers' headers and bodies, up to the end."""
    offset = 0
    while True:
        connection.sendall(remoting.frame(PULL_MESSAGE, pull_fields(queue, offset)))
        with memoryview(_read(connection, 8)) as lengths:
            length, header_length = struct.unpack(">ii", lengths)
        rest = _read(connection, length - 4)
        header = json.loads(rest[:header_length])
        if header["code"] != 0:
            return
        yield header, rest[header_length:]
        offset = int(header["extFields"]["nextBeginOffset"])


def _read(connection: socket.socket, size: int) -> bytes:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        got = connection.recv_into(view)
        assert got, "the broker closed the connection"
        view = view[got:]
    return bytes(data)


def pull_fields(queue: int, offset: int) -> dict[str, str]:
    """Return the header fields of a pull."""
    return {
        "consumerGroup": "cold",
        "topic": COLD,
        "queueId": str(queue),
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": str(PULL_SUBSCRIPTION),
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": "*",
        "subVersion": "0",
    }


def create_frame(topic: str) -> bytes:
    """Encode the order to make a topic."""
    fields = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": str(QUEUES),
        "writeQueueNums": str(QUEUES),
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    }
    return remoting.frame(UPDATE_AND_CREATE_TOPIC, fields)


def send_frame(opaque: int, topics: int) -> bytes:
    """Encode a send of 128 bytes to one of some topics, in turn, and to each of its queues."""
    topic = LIVE % (opaque // QUEUES % topics)
    return SEND_START + HEADER % (topic.encode(), opaque % QUEUES, opaque, opaque) + BODY


BODY: Final = bytes(128)
HEADER: Final = (
    b'{"code":310,"extFields":{"a":"live","b":"%s","c":"TBW102","d":"4","e":"%d","f":"0","g":"1795255006748",'
    b'"h":"0","i":"UNIQ_KEY\\u0001AC11000254A0251A69D73C0C%08X\\u0002WAIT\\u0001true\\u0002","j":"0","k":"false",'
    b'"m":"false"},'
    b'"flag":0,"language":"JAVA","opaque":%10d,"serializeTypeCurrentRPC":"JSON","version":479}'
)
_HEADER_SIZE: Final = len(HEADER % ((LIVE % 0).encode(), 0, 0, 0))
SEND_START: Final = struct.pack(">ii", 4 + _HEADER_SIZE + len(BODY), _HEADER_SIZE)


def percentile_99(latencies: np.ndarray) -> float:
    """Return the latency that one in a hundred is above."""
    return float(np.percentile(latencies, 99))


def median_of(windows: Sequence[np.ndarray], figure: Callable[[np.ndarray], float]) -> float:
    """Return the median of a figure over the rounds."""
    return statistics.median(map(figure, windows))


def table_of(windows: Mapping[str, Sequence[np.ndarray]], rate: int) -> Table:
    """Return p50, p99 and the greatest latency of each kind of window."""
    table = Table(title=f"a producer of {rate:,} messages/s: latency from the scheduled time, ms")
    for column in ("", "p50", "p99", "max"):
        table.add_column(column, justify="right")
    for name, rounds in windows.items():
        figures = (median_of(rounds, figure) for figure in (np.median, percentile_99, np.max))
        table.add_row(name, *(f"{1_000 * figure:.2f}" for figure in figures))
    return table


if __name__ == "__main__":
    sys.exit(main())
