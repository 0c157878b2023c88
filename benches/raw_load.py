"""Sync sends over many raw connections, each with one message under way.

Sixty-four Java clients in one process keep two cores busy with themselves. Here each connection sends its
next message when the one before is answered, and looks at nothing but the answer's code. One loop serves them
all: where the broker that stores nothing is no faster than the others, this client is the limit.
"""

import asyncio
import struct
import time
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import uvloop
from benches.peers import QUEUES, TOPICS
from benches.start import send_frame
from tests.interop.peers import Peer

TICKS_PER_S: Final = 100
"""USER_HZ, of /proc/PID/stat."""
MEASURED: Final = ("perSecond", "meanMs", "p50Ms", "p99Ms", "cpuMicros")
"""What a window has of the fields that a Java client's has."""
CODE: Final = b'"code":0'


class _Sender(asyncio.Protocol):
    """One connection."""

    def __init__(self, frames: list[bytes], latencies: list[float]) -> None:
        self._frames = frames
        self._latencies = latencies
        self._sent = 0
        self._sent_at = 0.0
        self._data = b""
        self.is_stopping = False
        self.ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first message (called by asyncio)."""
        self._transport: Any = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        """Take the answer; send the next message (called by asyncio)."""
        self._data += data
        if len(self._data) < 4 or len(self._data) < 4 + struct.unpack_from(">i", self._data)[0]:
            return
        assert CODE in self._data, self._data
        self._data = b""
        self._latencies.append(time.perf_counter() - self._sent_at)
        if self.is_stopping:
            self._transport.close()
            self.ended.set()
        else:
            self._send()

    def _send(self) -> None:
        self._sent_at = time.perf_counter()
        self._transport.write(self._frames[self._sent % len(self._frames)])
        self._sent += 1


def window(peer: Peer, seconds: float, connections: int, body_size: int) -> dict[str, Any]:
    """Send for some seconds; give rate, latencies and the broker's CPU time, like ``peers.Load.window``."""
    return uvloop.run(_window(peer, seconds, connections, body_size))


async def _window(peer: Peer, seconds: float, connections: int, body_size: int) -> dict[str, Any]:
    host, _, port = peer.broker.partition(":")
    latencies: list[float] = []
    loop = asyncio.get_running_loop()
    frames = [_frame(number, body_size) for number in range(TOPICS * QUEUES)]
    cpu, begin = _cpu_s(peer.pid), time.perf_counter()
    step = max(1, len(frames) // connections)
    senders = []
    for first in range(0, step * connections, step):
        make = partial(_Sender, frames[first:] + frames[:first], latencies)
        senders.append((await loop.create_connection(make, host, int(port)))[1])
    await asyncio.sleep(seconds)
    took, cpu = time.perf_counter() - begin, _cpu_s(peer.pid) - cpu
    count = len(latencies)
    for sender in senders:
        sender.is_stopping = True
    for sender in senders:
        await sender.ended.wait()
    return {
        "mode": "sync",
        "perSecond": count / took,
        "meanMs": float(np.mean(latencies)) * 1e3,
        "p50Ms": float(np.percentile(latencies, 50)) * 1e3,
        "p99Ms": float(np.percentile(latencies, 99)) * 1e3,
        "cpuMicros": cpu * 1e6 / max(1, count),
        "othersCores": 0.0,
        "failed": 0,
        "lost": 0,
    }


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def _frame(number: int, body_size: int) -> bytes:
    properties = f"UNIQ_KEY\x017F0000010001C0{number:018X}\x02WAIT\x01true\x02"
    return send_frame(f"bench-{number % TOPICS}", number // TOPICS, properties, bytes(body_size))
