"""The load generators: Java processes that take orders, one for all windows, equally warm for all brokers."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from benches import kafka_peer
from benches.cells import BODY_SIZE, FEW_THREADS, QUEUES, Cell
from tests.interop import jvm
from tests.interop.peers import Peer

PROGRAMS: Final = (jvm.PROGRAMS, Path(__file__).parent / "java")
HEAP: Final = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC")


class Load:
    """A load generator: see ``java/Window.java``."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] = os.environ) -> None:
        self._child = subprocess.Popen(
            [*jvm.dies_with_parent(), *command],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @classmethod
    def for_rocketmq(cls, folder: Path, serialize_type: str) -> Self:
        """Start the one on RocketMQ's client, which drives CometMQ and the null broker as well."""
        silent = jvm.SILENT | {"rocketmq.serialize.type": serialize_type}
        return cls(
            jvm.command("Launch", "Load", home=folder, programs=PROGRAMS, options=HEAP, properties=silent)
        )

    @classmethod
    def for_kafka(cls, folder: Path) -> Self:
        """Start the one on Kafka's client."""
        return cls(kafka_peer.load_command(folder, HEAP))

    @classmethod
    def raw(cls, folder: Path) -> Self:
        """Start the one over many raw connections that cost little: see ``java/RawLoad.java``.

        Sixty-four Java clients in one process keep two cores busy with themselves. This one costs some
        microseconds a message: the broker that stores nothing shows how many it can send.
        """
        return cls(jvm.command("Launch", "RawLoad", home=folder, programs=PROGRAMS, options=HEAP))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.communicate()  # it ends when it has no more orders

    def window(self, peer: Peer, cell: Cell, seconds: float, **more: object) -> dict[str, Any]:
        """Load a broker as the cell says for some seconds; return what ``Window.java`` says of it.

        Args:
            more: goes into the order, such as ``slavePid``.
        """
        return self.order(
            peer,
            seconds,
            mode=cell.mode,
            threads=cell.threads,
            topics=cell.topics,
            bodySize=cell.body_size,
            rate=cell.rate,
            consumes=cell.consumes,
            stores=peer.name != "null",
            **more,
        )

    def fill(self, peer: Peer, topics: int, messages: int) -> None:
        """Send so many messages of usual size to a broker."""
        self.order(
            peer,
            mode="async",
            threads=FEW_THREADS,
            topics=topics,
            bodySize=BODY_SIZE,
            messages=messages,
        )

    def leave(self, peer: Peer) -> None:
        """Keep no connection to a broker: it is about to end."""
        self.order(peer, mode="leave")

    def order(self, peer: Peer, seconds: float = 0, **load: object) -> dict[str, Any]:
        """Return an order for some seconds, and wait for its answer."""
        where = {"namesrv": peer.namesrv, "broker": peer.broker, "pid": peer.pid, "queues": QUEUES}
        order: Mapping[str, object] = {**where, "seconds": seconds, **load}
        assert self._child.stdin and self._child.stdout
        self._child.stdin.write(json.dumps(order) + "\n")
        self._child.stdin.flush()
        for line in self._child.stdout:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        raise RuntimeError(f"the load generator ended with status {self._child.wait()}")
