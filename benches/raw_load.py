"""Sends over many raw connections, some of them under way on each: a client that is not the limit.

Sixty-four Java clients in one process keep two cores busy with themselves, and a client in Python is slower
than what it measures. ``java/RawLoad.java`` costs some microseconds a message: the broker that stores nothing
shows how many it can send.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final, Self

from benches.peers import LOAD_HEAP, PROGRAMS, QUEUES, TOPICS
from tests.interop import jvm
from tests.interop.peers import Peer


class RawLoad:
    """One Java process for all windows, so that it is equally warm for all brokers.

    Args:
        header: how headers are encoded, JSON or ROCKETMQ.
    """

    def __init__(self, folder: Path, header: str) -> None:
        self._header: Final = header
        command = jvm.command("Launch", "RawLoad", home=folder, programs=PROGRAMS, options=LOAD_HEAP)
        self._child = subprocess.Popen(
            [*jvm.dies_with_parent(), *command],
            env=os.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.communicate()  # it ends when it has no more orders

    def window(
        self, peer: Peer, seconds: float, *, connections: int, under_way: int, body_size: int
    ) -> dict[str, Any]:
        """Keep ``under_way`` sends unanswered on each connection; give what ``RawLoad.java`` says of it."""
        order = {
            "broker": peer.broker,
            "pid": peer.pid,
            "seconds": seconds,
            "connections": connections,
            "window": under_way,
            "bodySize": body_size,
            "topics": TOPICS,
            "queues": QUEUES,
            "header": self._header,
        }
        assert self._child.stdin and self._child.stdout
        self._child.stdin.write(json.dumps(order) + "\n")
        self._child.stdin.flush()
        for line in self._child.stdout:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        raise RuntimeError(f"the load generator ended with status {self._child.wait()}")
