"""The loads of ``bench_proxy``: gRPC clients that send, receive and acknowledge, and steady senders.

    python -m benches.grpc_load grpc|remoting ADDRESS TOPIC RATE SECONDS

sends so many messages a second, in a process of its own, through a proxy or by CometMQ's own client straight
to the broker of a name server. It prints a line when it begins, and how many were sent and how many failed.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import count
from typing import Final

import uvloop
from grpclib.client import Channel
from tests.kit.grpc_clients import consumer
from tests.proxy.conftest import GrpcClient, message_of, receive_request

from cometmq import Message, Producer
from cometmq.net.address import parse_address
from cometmq.proxy import messaging_pb2 as pb

GROUP: Final = "BenchProxy"
BODY: Final = b"x" * 200
CONNECTIONS, IN_FLIGHT, BATCH = 4, 32, 32
LASTS_S: Final = 3_600.0
AHEAD: Final = 2 * IN_FLIGHT * BATCH
"""So many messages more than are received have to be there, lest some calls wait for messages."""


class GrpcLoad:
    """Clients of a proxy, on some connections, with as many calls in flight as there are tasks."""

    def __init__(self, clients: list[GrpcClient], topic: str) -> None:
        self._clients = clients
        self._topic = topic
        self._numbers = count()

    async def send(self, messages: int) -> int:
        """Send so many messages; return their number."""
        left = iter(range(messages))

        async def repeat(client: GrpcClient) -> None:
            for _ in left:
                await self.send_one(client)

        await self._together(repeat)
        return messages

    async def send_one(self, client: GrpcClient | None = None) -> None:
        """Send one message."""
        number = next(self._numbers)
        message = message_of(self._topic, BODY, f"ID{number}")
        request = pb.SendMessageRequest(messages=[message])
        answer = await (client or self._clients[number % len(self._clients)]).call("SendMessage", request)
        assert answer.status.code == pb.OK, answer

    async def receive(self, messages: int) -> int:
        """Receive and acknowledge so many messages at least; return their number."""
        left = messages

        async def repeat(client: GrpcClient) -> None:
            nonlocal left
            while left > 0:
                received = await self._receive_some(client)
                left -= received

        await self._together(repeat)
        return messages - left

    async def _receive_some(self, client: GrpcClient) -> int:
        _, found = await client.receive(receive_request(self._topic, GROUP, batch_size=BATCH))
        received = [one.system_properties for one in found]
        entries = [
            pb.AckMessageEntry(message_id=one.message_id, receipt_handle=one.receipt_handle)
            for one in received
        ]
        names = {"group": pb.Resource(name=GROUP), "topic": pb.Resource(name=self._topic)}
        if entries:
            answer = await client.call("AckMessage", pb.AckMessageRequest(entries=entries, **names))
            assert answer.status.code == pb.OK, answer
        return len(entries)

    async def _together(self, work: Callable[[GrpcClient], Awaitable[None]]) -> None:
        await asyncio.gather(*(work(self._clients[place % len(self._clients)]) for place in range(IN_FLIGHT)))


@asynccontextmanager
async def grpc_load(
    address: str, topic: str, *, with_settings: bool = True, connections: int = CONNECTIONS
) -> AsyncIterator[GrpcLoad]:
    """Connect clients to a proxy; RocketMQ's lets nobody receive who has not sent settings."""
    async with AsyncExitStack() as stack:
        clients = []
        for number in range(connections):
            channel = await stack.enter_async_context(Channel(*parse_address(address)))
            client = GrpcClient(channel, {"x-mq-client-id": f"bench-{number}", "x-mq-language": "JAVA"})
            if with_settings:
                stream = await stack.enter_async_context(client.open("Telemetry", LASTS_S))
                await stream.send_message(pb.TelemetryCommand(settings=consumer(GROUP, topic)))
                await stream.recv_message()
                stack.push_async_callback(stream.end)
            clients.append(client)
        yield GrpcLoad(clients, topic)


async def at_rate(send: Callable[[], Awaitable[object]], rate: float, seconds: float) -> int:
    """Call ``send`` so often a second, each time when it is due; return how many calls failed."""
    loop = asyncio.get_running_loop()
    began, sends = loop.time(), []
    for number in range(round(rate * seconds)):
        await asyncio.sleep(max(0.0, began + number / rate - loop.time()))
        sends.append(asyncio.ensure_future(send()))
    ended = await asyncio.gather(*sends, return_exceptions=True)
    return sum(isinstance(one, BaseException) for one in ended)


async def main(way: str, address: str, topic: str, rate: float, seconds: float) -> None:
    """Send at a rate; print what came of it."""
    async with AsyncExitStack() as stack:
        send: Callable[[], Awaitable[object]]
        if way == "grpc":
            send = (await stack.enter_async_context(grpc_load(address, topic, with_settings=False))).send_one
        else:
            producer = await stack.enter_async_context(Producer(address, "bench"))
            send = partial(producer.send, Message(topic, BODY))
        await send()
        print("begins", flush=True)
        failed = await at_rate(send, rate, seconds)
    print(f"{rate * seconds:,.0f} sent, {failed:,} failed")


if __name__ == "__main__":
    given = sys.argv
    uvloop.run(main(given[1], given[2], given[3], float(given[4]), float(given[5])))
