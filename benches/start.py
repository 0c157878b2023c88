"""How long ``cometmq dev`` takes from the start of its process to the first acknowledged message.

    python -m benches.start [times]

Once with the compiled kernels in the on-disk cache, and once with an empty cache, where the broker serves by
its plain path while the kernels are compiled. The message is one raw frame from the standard library: its
sender costs no start-up time of its own. It is sent as soon as the port accepts a connection.
"""

import contextlib
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from benches import kit
from rich.console import Console
from rich.table import Table
from tests.interop import jvm, peers, remoting

SEND_MESSAGE_V2: Final = 310
TIMEOUT_S: Final = 120
CACHES: Final = ("warm", "empty")


def main() -> None:
    """Measure and print."""
    Console().print(table_of(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 5)))


def measure(times: int) -> dict[str, list[float]]:
    """Start ``times`` brokers with each kind of kernel cache; give the seconds that each took."""
    kit.compile_kernels()
    return {cache: [first_message_s(cache) for _ in range(times)] for cache in CACHES}


def table_of(starts: dict[str, list[float]]) -> Table:
    """Return the fastest, the median and the slowest start."""
    table = Table(title="cometmq dev: process start to the first acknowledged message, s")
    for column in ("kernel cache", "fastest", "median", "slowest"):
        table.add_column(column, justify="right")
    for cache, seconds in starts.items():
        table.add_row(cache, *(f"{f(seconds):.2f}" for f in (min, statistics.median, max)))
    return table


def first_message_s(cache: str) -> float:
    """Start a broker on a new store and send it one message."""
    with tempfile.TemporaryDirectory(prefix="cometmq-start-") as folder:
        environment = dict(os.environ)
        if cache == "empty":
            environment["NUMBA_CACHE_DIR"] = f"{folder}/kernels"
        port = peers.free_port()
        command = peers.cometmq_command(Path(folder) / "store", port=port, namesrv_port=peers.free_port())
        with started(command, port, environment) as broker:
            return broker.seconds


class Started(NamedTuple):
    """A broker that takes messages.

    Attributes:
        seconds: from its process's start to the first acknowledged message.
        pid: its process id.
    """

    seconds: float
    pid: int


@contextlib.contextmanager
def started(
    command: list[str],
    port: int,
    environment: Mapping[str, str] = os.environ,
    *,
    ended_by: signal.Signals = signal.SIGTERM,
) -> Iterator[Started]:
    """Run a broker up to its first acknowledged message."""
    with tempfile.NamedTemporaryFile(prefix="broker-", suffix=".log") as output:
        begin = time.perf_counter()
        broker = subprocess.Popen(
            [*jvm.dies_with_parent(), *command], env=environment, stdout=output, stderr=output
        )
        try:
            with connected(broker, port, Path(output.name)) as connection:
                while (answer := remoting.ask(connection, send_frame(f"Start-{port}"))).code:
                    assert time.perf_counter() < begin + TIMEOUT_S, answer
            seconds = time.perf_counter() - begin
            yield Started(seconds, broker.pid)
        finally:
            broker.send_signal(ended_by)
            broker.wait(TIMEOUT_S)


def connected(broker: subprocess.Popen[bytes], port: int, log: Path) -> socket.socket:
    """Connect as soon as the port is open."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        with contextlib.suppress(ConnectionRefusedError):
            return socket.create_connection((peers.HOST, port), TIMEOUT_S)
        assert time.monotonic() < deadline, f"the port was not opened:\n{log.read_text()}"
        with contextlib.suppress(subprocess.TimeoutExpired):
            raise RuntimeError(f"the broker ended with status {broker.wait(0.002)}:\n{log.read_text()}")


def send_frame(
    topic: str, queue_id: int = 0, properties: str = "WAIT\x01true", body: bytes = b"the first message"
) -> bytes:
    """Encode a send, to a topic that need not exist yet."""
    fields = {
        "a": "load",  # producer group
        "b": topic,
        "c": "TBW102",  # the topic to take its settings from
        "d": "4",  # queues
        "e": str(queue_id),
        "f": "0",
        "g": str(time.time_ns() // 1_000_000),
        "h": "0",
        "i": properties,
        "j": "0",
        "k": "false",
        "m": "false",
    }
    return remoting.frame(SEND_MESSAGE_V2, fields, body)


if __name__ == "__main__":
    main()
