"""A flood of connections on a broker with few descriptors: what it acknowledges reaches the disk."""

import asyncio
import re
import socket
import sys
from contextlib import ExitStack
from pathlib import Path

from cometmq.client import Producer
from cometmq.message import Message

LIMIT = 256
FLOOD = 2 * LIMIT


async def test_a_flood_of_connections_costs_no_sync(tmp_path: Path) -> None:
    config = tmp_path / "broker.conf"
    config.write_text(
        f"flushDiskType = SYNC_FLUSH\nstorePathRootDir = {tmp_path}/store\nlistenPort = 0\n"
        "mappedFileSizeCommitLog = 65536\n"
    )
    server = await asyncio.create_subprocess_exec(
        *("sh", "-c", 'ulimit -n "$0"; exec "$@"', str(LIMIT), sys.executable, "-m", "cometmq.cli.main"),
        *("dev", "--namesrv-port", "0", "--config", str(config)),
        stdout=asyncio.subprocess.PIPE,
    )
    assert server.stdout is not None
    try:
        ready = re.match(
            r"ready: broker (\S+), name server (\S+), ", (await server.stdout.readline()).decode()
        )
        assert ready is not None
        host, _, port = ready[1].rpartition(":")
        async with Producer(ready[2], group="g") as producer:
            await producer.send(Message("T", b"before"))
            with ExitStack() as flood:
                for _ in range(FLOOD):
                    flood.enter_context(socket.create_connection((host, int(port))))
                for number in range(50):  # several files of the log, queues and tables
                    await producer.send(Message("T" if number % 5 else f"T{number}", bytes(4_000)))
    finally:
        server.terminate()
        await server.wait()
