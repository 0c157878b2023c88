"""Loopback ports for servers."""

import contextlib
import itertools
import os
import random
import socket

HOST = "127.0.0.1"

# Below those that the kernel gives to outgoing connections, and so far apart that no two servers want the
# same: a RocketMQ broker also opens its "VIP" port, two below its own, and its replication port, one above.
# Test processes that run in parallel take theirs from parts of their own.
WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
PART = range(20_002, 32_000, 4)[WORKER::WORKERS]
PORTS = itertools.cycle(random.sample(PART, len(PART)))


def free_port() -> int:
    """Return a loopback port that is free and new here, as are those that a RocketMQ broker opens too."""
    while True:
        port = next(PORTS)
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for needed in (port, port - 2, port + 1):
                held.enter_context(socket.socket()).bind((HOST, needed))
            return port
