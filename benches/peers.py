"""The brokers that are measured side by side, and the load generator that measures them."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self

from tests.interop import jvm, peers
from tests.interop.peers import Peer

PROGRAMS: Final = (jvm.PROGRAMS, Path(__file__).parent / "java")
HEAP: Final = ("-Xms2g", "-Xmx2g", "-XX:+UseG1GC", "-XX:MaxDirectMemorySize=4g")
"""What Apache RocketMQ's broker is given; a quarter of what its own start script asks for."""
LOAD_HEAP: Final = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC")
TOPICS: Final = 64
QUEUES: Final = 8


@contextlib.contextmanager
def all_three(
    folder: Path, settings: Mapping[str, object] | None = None
) -> Iterator[tuple[Peer, Peer, Peer]]:
    """Run Apache RocketMQ, CometMQ and the null broker, with the topics of the load.

    All stay up for the whole run: those whose turn it is not have nothing to do, and nothing needs warming
    up twice. ``settings`` go to all of them; the others have their defaults.
    """
    subprocess.run([sys.executable, "-m", "cometmq.kernels"], check=True, stdout=subprocess.DEVNULL)
    killed = signal.SIGKILL  # their stores are thrown away
    with (
        peers.rocketmq(folder / "rocketmq", settings, heap=HEAP, ended_by=killed) as java,
        peers.cometmq(folder / "cometmq", settings, ended_by=killed) as comet,
        null(folder / "null") as nothing,
    ):
        topics = [f"bench-{number}" for number in range(TOPICS)]
        for peer in (java, comet, nothing):
            jvm.run("CreateTopic", peer.namesrv, peer.broker, QUEUES, *topics, home=folder)
        yield java, comet, nothing


@contextlib.contextmanager
def null(store: Path) -> Iterator[Peer]:
    """Run the broker that stores nothing: see ``null_broker``."""
    port, namesrv_port = peers.free_port(), peers.free_port()
    _, *arguments = peers.cometmq_command(store, port=port, namesrv_port=namesrv_port)
    command = [sys.executable, "-m", "benches.null_broker", *arguments]
    address = f"{peers.HOST}:{port}"
    with peers.Process(command, ready=address, environment=os.environ, ended_by=signal.SIGKILL) as broker:
        yield Peer("null", f"{peers.HOST}:{namesrv_port}", address, broker.pid, store)


class Load:
    """The load generator: one Java process for all windows, so that it is equally warm for both brokers."""

    def __init__(self, folder: Path, serialize_type: str) -> None:
        line = jvm.command(
            "Launch",
            "Load",
            home=folder,
            programs=PROGRAMS,
            options=LOAD_HEAP,
            properties=jvm.SILENT | {"rocketmq.serialize.type": serialize_type},
        )
        self._child = subprocess.Popen(
            [*jvm.dies_with_parent(), *line],
            env=os.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.communicate()  # it ends when it has no more orders

    def window(self, peer: Peer, mode: str, seconds: float, threads: int, body_size: int) -> dict[str, Any]:
        """Send for some seconds; give what ``Load.java`` says of it."""
        order = {
            "mode": mode,
            "namesrv": peer.namesrv,
            "pid": peer.pid,
            "seconds": seconds,
            "threads": threads,
            "stores": peer.name != "null",
            "bodySize": body_size,
            "topics": TOPICS,
        }
        assert self._child.stdin and self._child.stdout
        self._child.stdin.write(json.dumps(order) + "\n")
        self._child.stdin.flush()
        for line in self._child.stdout:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        raise RuntimeError(f"the load generator ended with status {self._child.wait()}")
