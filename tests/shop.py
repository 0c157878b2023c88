"""A live broker with a topic, and somebody who sends to it: what tests of consumers begin with."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.live import BROKER, Live, serving

from cometmq.admin.topics import TopicAdmin
from cometmq.client import Consumer, Producer, PullConsumer, Start
from cometmq.client.requests.queue_requests import QueueRequests
from cometmq.client.routes import Routes
from cometmq.message import Message, MessageQueue
from cometmq.net.client import Connections
from cometmq.wire.bodies.body import decode
from cometmq.wire.bodies.group import ConsumerConnections
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import ConsumerGroupHeader, fields

QUEUE = MessageQueue("Orders", BROKER, 0)
PROMPT = {"message_delay_level": "1s 1s 1s 1s 1s"}
"""Settings of a store whose delayed messages come soon."""

PATIENCE_S = 100
"""How long a shop is open at most: whoever waits in vain fails."""


class Shop(NamedTuple):
    """Where the broker is, its topic's queues, and who sends to them; the requests are the group's."""

    live: Live
    queues: list[MessageQueue]
    group_name: str
    producer: Producer
    connections: Connections
    routes: Routes
    requests: QueueRequests

    @property
    def queue(self) -> MessageQueue:
        """The first queue."""
        return self.queues[0]

    async def send(self, *bodies: bytes, tags: str | None = None, queue: MessageQueue | None = None) -> None:
        """Send a message of each body, to queues in turn or to one, and wait until they can be read.

        A Java broker answers before.
        """
        ends: dict[MessageQueue, int] = {}
        for body in bodies:
            result = await self.producer.send(Message(self.queue.topic, body, tags), queue)
            ends[result.queue] = result.queue_offset + 1
        for one, end in ends.items():
            await self._arrived(one, end)

    def consumer(self, group: str | None = None, **arguments: Any) -> Consumer:
        """Build a consumer that begins with the first message."""
        return Consumer(self.live.name_server, group or self.group_name, **{"start": Start.FIRST} | arguments)

    async def group(self, group: str | None = None) -> ConsumerConnections:
        """Return what the broker knows of a group."""
        header = ConsumerGroupHeader(group or self.group_name)
        command = Command(RequestCode.GET_CONSUMER_CONNECTION_LIST, ext_fields=fields(header))
        return decode(ConsumerConnections, (await self.connections.request(self.live.broker, command)).body)

    async def committed(self, group: str | None = None, queue: MessageQueue | None = None) -> int | None:
        """Return what a group has committed."""
        async with PullConsumer(self.live.name_server, group or self.group_name) as reader:
            return await reader.committed(queue or self.queue)

    async def has_committed(self, offset: int) -> None:
        """Wait until the group has committed so much of the first queue."""
        while True:
            if await self.committed() == offset:
                return
            await asyncio.sleep(0.01)

    async def _arrived(self, queue: MessageQueue, end: int) -> None:
        while True:
            if await self.requests.max_offset(queue) >= end:
                return
            await asyncio.sleep(0.01)


@asynccontextmanager
async def shop(root: Path, queues: int = 1, **settings: Any) -> AsyncIterator[Shop]:
    """Open a shop with a broker of its own; the arguments are those of ``tests.live.serving``."""
    async with (
        serving(root, **settings) as live,
        shop_at(live.name_server, QUEUE.topic, "readers", queues) as here,
    ):
        yield here


@asynccontextmanager
async def shop_at(
    name_server: str, topic: str, group: str | None = None, queues: int = 1
) -> AsyncIterator[Shop]:
    """Open one at a broker that is there, of whatever make; its group is called like its topic."""
    group = group or topic
    connections = Connections()
    async with (
        asyncio.timeout(PATIENCE_S),
        TopicAdmin(name_server) as admin,
        Producer(name_server) as producer,
    ):
        await admin.create(topic, queues=queues)
        ((broker_name, address),) = (await admin.masters()).items()
        routes = Routes(connections, [name_server])
        try:
            yield Shop(
                Live(name_server, address),
                [MessageQueue(topic, broker_name, queue_id) for queue_id in range(queues)],
                group,
                producer,
                connections,
                routes,
                QueueRequests(connections, routes, group, 3_000),
            )
        finally:
            await connections.close()
