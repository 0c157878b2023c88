"""The brokers that are measured side by side, all up at once."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from benches import kit
from tests.interop import peers
from tests.interop.peers import Peer

HEAP: Final = ("-Xms2g", "-Xmx2g", "-XX:+UseG1GC", "-XX:MaxDirectMemorySize=4g")
"""What Apache RocketMQ's broker is given; a quarter of what its own start script asks for."""
TOPICS: Final = 64


@contextlib.contextmanager
def all_three(
    folder: Path, settings: Mapping[str, object] | None = None, topics: int = TOPICS
) -> Iterator[tuple[Peer, Peer, Peer]]:
    """Run Apache RocketMQ, CometMQ and the null broker, with the topics of the load.

    All stay up for the whole run: those whose turn it is not have nothing to do, and nothing needs warming
    up twice. ``settings`` go to all of them; the others have their defaults.
    """
    kit.compile_kernels()
    killed = signal.SIGKILL  # their stores are thrown away
    with (
        peers.rocketmq(folder / "rocketmq", settings, heap=HEAP, ended_by=killed) as java,
        peers.cometmq(folder / "cometmq", settings, ended_by=killed) as comet,
        null(folder / "null") as nothing,
    ):
        for peer in (java, comet, nothing):
            kit.create_topics(peer, topics, folder)
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
