"""How long a broker takes for its answers, by the kernel's clock, and a core that it has for itself.

A client's own times hold what it waits for a core once its answer is there. Linux stamps what arrives at a
socket (``SO_TIMESTAMPNS``, see socket(7) and timestamping.rst of the kernel's documentation), whenever the
client comes to look; so these times end where the broker's work does. They begin where the client writes.
"""

import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from tests.interop import peers, remoting

SO_TIMESTAMPNS: Final = 35
"""asm-generic/socket.h; Python's socket module does not name it."""
TIMESPEC: Final = struct.Struct("@ll")
"""Seconds and nanoseconds since 1970, of the machine's word size."""
ANCILLARY_SIZE: Final = socket.CMSG_SPACE(TIMESPEC.size)
NS_PER_S: Final = 1_000_000_000


def answer_times(port: int, frame: bytes, rate: float, seconds: float) -> NDArray[np.float64]:
    """Send a request so often a second, over one connection; return what each answer took, in ms.

    A request waits for the answer of the one before, if that is not there when it is due.

    Raises:
        AssertionError: the broker refused one.
        OSError: it went away.
    """
    took_ns = []
    with socket.create_connection((peers.HOST, port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        began = time.perf_counter()
        for number in range(round(rate * seconds)):
            time.sleep(max(0.0, began + number / rate - time.perf_counter()))
            sent_ns = time.time_ns()
            connection.sendall(frame)
            took_ns.append(arrival_ns(connection) - sent_ns)
            answer = remoting.answer(connection)
            assert answer.code == 0, answer
    return np.array(took_ns) / 1e6


def arrival_ns(connection: socket.socket) -> int:
    """Wait for bytes, and leave them unread; return when they arrived, in ns since 1970."""
    _, ((level, kind, stamp),), _, _ = connection.recvmsg(1, ANCILLARY_SIZE, socket.MSG_PEEK)
    assert (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS), (level, kind)
    seconds, ns = TIMESPEC.unpack(stamp)
    return int(seconds * NS_PER_S + ns)


@contextmanager
def own_core(pid: int) -> Iterator[None]:
    """Leave a core to a process, and the others to this one and to what it starts; one core is shared.

    So the process is disturbed by what it is asked, as by clients on other machines, and not by the clients.
    """
    cores = os.sched_getaffinity(0)
    own = {max(cores)}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), own)
    os.sched_setaffinity(0, cores - own or cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
