"""gRPC clients that are idle, at a proxy: what they cost it."""

import asyncio
import os
from pathlib import Path
from typing import Final, NamedTuple

from benches import kit
from google.protobuf.duration_pb2 import Duration
from grpclib.client import Channel
from tests.kit.grpc_clients import producer
from tests.proxy.conftest import GrpcClient, receive_request

from cometmq.admin.topics import TopicAdmin
from cometmq.net.address import parse_address
from cometmq.proxy import messaging_pb2 as pb

QUIET: Final = "BenchProxyQuiet"
GROUP: Final = "BenchProxyQuiet"
STREAMS, POLLS, BEAT_S = 1_000, 200, 10.0
ENDS_S: Final = 600.0
"""After so much more time than is measured the clients end in any case."""


class Idle(NamedTuple):
    """What idle clients cost.

    Attributes:
        share: of a core, user and system time.
        memory_mb: the resident memory of the server's process.
    """

    share: float
    memory_mb: float

    def __str__(self) -> str:
        return f"{self.share:.1%} of a core, {self.memory_mb:.0f} MB"


async def create_quiet_topic(name_server: str) -> None:
    """Create the topic, which gets no message."""
    async with TopicAdmin(name_server) as admin:
        await admin.create(QUIET, queues=4)


async def idle(address: str, pid: int, seconds: float) -> Idle:
    """Keep clients idle at a proxy; give what they cost its process in these seconds."""
    channels = [Channel(*parse_address(address)) for _ in range(STREAMS)]
    clients = [
        GrpcClient(channel, {"x-mq-client-id": f"idle-{number}"}) for number, channel in enumerate(channels)
    ]
    tasks = [asyncio.create_task(_stay(client, seconds)) for client in clients]
    tasks += [asyncio.create_task(_poll(client)) for client in clients[:POLLS]]
    try:
        await asyncio.sleep(2 * BEAT_S)
        began = kit.cpu_s(pid)
        await asyncio.sleep(seconds)
        share = (kit.cpu_s(pid) - began) / seconds
        for task in tasks:
            if task.done():
                task.result()  # raises what has ended it
        return Idle(share, _memory_mb(pid))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for channel in channels:
            channel.close()


async def _stay(client: GrpcClient, seconds: float) -> None:
    """Keep a telemetry stream open, and send heartbeats."""
    async with client.open("Telemetry", seconds + ENDS_S) as stream:
        await stream.send_message(pb.TelemetryCommand(settings=producer(QUIET)))
        await stream.recv_message()
        while True:
            await client.call("Heartbeat", pb.HeartbeatRequest(client_type=pb.PRODUCER))
            await asyncio.sleep(BEAT_S)


async def _poll(client: GrpcClient) -> None:
    """Wait for messages of a topic that gets none."""
    wanted = receive_request(QUIET, GROUP, long_polling_timeout=Duration(seconds=20))
    while True:
        await client.receive(wanted)


def _memory_mb(pid: int) -> float:
    resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return resident * os.sysconf("SC_PAGE_SIZE") / 1e6
