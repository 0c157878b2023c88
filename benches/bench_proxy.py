"""What the gRPC proxy costs: calls beside an empty service on the same transport, and clients that are idle.

    python -m benches.bench_proxy [--calls N] [--idle S]

Sends of 200 bytes, and receive + acknowledgement of 32 messages at a time, 32 calls in flight on four
connections; the empty service answers the same sends at once. CPU is that of the server's process, user and
system, per message. Idle are 1,000 clients with a stream each that send a heartbeat every ten seconds, and
200 long polls. All processes share the machine's cores: a rate is what the machine does, not the proxy alone.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Final

import uvloop
from benches.raw_batches import cpu_seconds
from google.protobuf.duration_pb2 import Duration
from grpclib.client import Channel
from tests.interop import peers
from tests.proxy.conftest import GrpcClient, message_of, receive_request

from cometmq.admin.topics import TopicAdmin
from cometmq.net.address import parse_address
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.outcomes import OK
from cometmq.proxy.transport import Call, GrpcServer

TOPIC, GROUP, QUIET = "BenchProxy", "BenchProxy", "BenchProxyQuiet"
BODY: Final = b"x" * 200
CONNECTIONS, IN_FLIGHT, BATCH = 4, 32, 32
STREAMS, POLLS, BEAT_S = 1_000, 200, 10.0
WARM_UP: Final = 0.1

CountingCall = Callable[[GrpcClient], Awaitable[int]]
"""Calls an rpc; returns how many messages it handled."""


def rss_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


async def serve_nothing(port: int) -> None:
    """Answer each send at once."""

    async def send(request: pb.SendMessageRequest, _: Call) -> pb.SendMessageResponse:
        identity = request.messages[0].system_properties.message_id
        return pb.SendMessageResponse(
            status=OK, entries=[pb.SendResultEntry(status=OK, message_id=identity, transaction_id=identity)]
        )

    await GrpcServer({"SendMessage": send}).start(peers.HOST, port)
    print("ready: proxy", flush=True)
    await asyncio.Event().wait()


@contextmanager
def server(*command: str) -> Iterator[int]:
    """Run a server; provide its process id."""
    with peers.Process(
        [sys.executable, "-m", *command], ready="ready: proxy", environment=os.environ
    ) as child:
        yield child.pid


async def measure(what: str, pid: int, call: CountingCall, clients: list[GrpcClient], messages: int) -> None:
    """Repeat a call until so many messages were handled; print the rate, and the server's CPU time."""
    left, done = messages, 0
    began, cpu = time.perf_counter(), cpu_seconds(pid)

    async def repeat(client: GrpcClient) -> None:
        nonlocal left, done
        while left > 0:
            left -= 1
            handled = await call(client)
            left -= handled - 1
            done += handled

    await asyncio.gather(*(repeat(clients[number % len(clients)]) for number in range(IN_FLIGHT)))
    took_s, cost_s = time.perf_counter() - began, cpu_seconds(pid) - cpu
    print(f"{what:32} {done / took_s:8,.0f} messages/s {cost_s / done * 1e6:8,.0f} µs CPU each")


async def load(address: str, pid: int, messages: int, *, receives: bool) -> None:
    """Send messages, receive and acknowledge them."""
    numbers = count()
    channels = [Channel(*parse_address(address)) for _ in range(CONNECTIONS)]
    clients = [GrpcClient(channel, {"x-mq-client-id": "bench"}) for channel in channels]

    async def send(client: GrpcClient) -> int:
        request = pb.SendMessageRequest(messages=[message_of(TOPIC, BODY, f"ID{next(numbers)}")])
        assert (await client.call("SendMessage", request)).status.code == pb.OK
        return 1

    async def receive(client: GrpcClient) -> int:
        _, found = await client.receive(receive_request(TOPIC, GROUP, batch_size=BATCH))
        received = [one.system_properties for one in found]
        entries = [
            pb.AckMessageEntry(message_id=one.message_id, receipt_handle=one.receipt_handle)
            for one in received
        ]
        names = {"group": pb.Resource(name=GROUP), "topic": pb.Resource(name=TOPIC)}
        if entries:
            answer = await client.call("AckMessage", pb.AckMessageRequest(entries=entries, **names))
            assert answer.status.code == pb.OK
        return len(entries)

    await measure("warm-up", pid, send, clients, int(messages * WARM_UP))
    await measure("send", pid, send, clients, messages)
    if receives:
        await measure("receive and acknowledge", pid, receive, clients, messages)
    for channel in channels:
        channel.close()


async def idle(address: str, pid: int, seconds: float) -> None:
    """Keep clients idle; print the CPU and the memory that they cost the server."""
    settings = pb.Settings(
        client_type=pb.PRODUCER, publishing=pb.Publishing(topics=[pb.Resource(name=QUIET)])
    )
    async with asyncio.timeout(seconds + 600):
        channels = [Channel(*parse_address(address)) for _ in range(STREAMS)]
        clients = [
            GrpcClient(channel, {"x-mq-client-id": f"idle-{number}"})
            for number, channel in enumerate(channels)
        ]

        async def stay(client: GrpcClient) -> None:
            async with client.open("Telemetry", 10 * seconds + 600) as stream:
                await stream.send_message(pb.TelemetryCommand(settings=settings))
                await stream.recv_message()
                while True:
                    await client.call("Heartbeat", pb.HeartbeatRequest(client_type=pb.PRODUCER))
                    await asyncio.sleep(BEAT_S)

        async def poll(client: GrpcClient) -> None:
            while True:
                wanted = receive_request(QUIET, GROUP, long_polling_timeout=Duration(seconds=20))
                await client.receive(wanted)

        tasks = [asyncio.create_task(stay(client)) for client in clients]
        tasks += [asyncio.create_task(poll(client)) for client in clients[:POLLS]]
        await asyncio.sleep(2 * BEAT_S)
        began = cpu_seconds(pid)
        await asyncio.sleep(seconds)
        share = (cpu_seconds(pid) - began) / seconds
        print(f"{STREAMS:,} idle streams, {POLLS} long polls: {share:.1%} of a core, {rss_mib(pid):.0f} MiB")
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for channel in channels:
            channel.close()


async def create_topics(namesrv: str) -> None:
    """Create the topics of the loads."""
    async with TopicAdmin(namesrv) as admin:
        for topic in (TOPIC, QUIET):
            await admin.create(topic, queues=4)


def main() -> None:
    """Measure all, or serve nothing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--idle", type=float, default=30.0)
    parser.add_argument("--nothing", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.nothing:
        uvloop.run(serve_nothing(given.nothing))
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port = peers.free_port()
        print("empty service")
        with server("benches.bench_proxy", "--nothing", str(port)) as pid:
            uvloop.run(load(f"{peers.HOST}:{port}", pid, given.calls, receives=False))
        peer = stack.enter_context(peers.cometmq(folder / "store"))
        asyncio.run(create_topics(peer.namesrv))
        port = peers.free_port()
        command = ("cometmq.cli.main", "proxy", "--namesrv", peer.namesrv, "--port", str(port))
        pid = stack.enter_context(server(*command))
        print("proxy")
        uvloop.run(load(f"{peers.HOST}:{port}", pid, given.calls, receives=True))
        uvloop.run(idle(f"{peers.HOST}:{port}", pid, given.idle))


if __name__ == "__main__":
    main()
