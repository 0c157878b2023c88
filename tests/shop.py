"""A live broker with the topic Orders, and somebody who sends to it: what tests of consumers begin with."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.live import BROKER, Live, serving

from cometmq.admin.topics import TopicAdmin
from cometmq.client import Consumer, Producer, PullConsumer, Start
from cometmq.client.queue_requests import QueueRequests
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


class Shop(NamedTuple):
    """Where the broker is, and who sends; the requests are the group ``readers``'s."""

    live: Live
    producer: Producer
    connections: Connections
    routes: Routes
    requests: QueueRequests

    async def send(self, *bodies: bytes, tags: str | None = None, queue: MessageQueue | None = None) -> None:
        """Send a message of each body, to queues in turn or to one."""
        for body in bodies:
            await self.producer.send(Message("Orders", body, tags), queue)

    def consumer(self, group: str = "readers", **arguments: Any) -> Consumer:
        """Make a consumer that begins with the first message."""
        return Consumer(self.live.name_server, group, **{"start": Start.FIRST} | arguments)

    async def group(self, group: str = "readers") -> ConsumerConnections:
        """Give what the broker knows of a group."""
        command = Command(
            RequestCode.GET_CONSUMER_CONNECTION_LIST, ext_fields=fields(ConsumerGroupHeader(group))
        )
        return decode(ConsumerConnections, (await self.connections.request(self.live.broker, command)).body)

    async def committed(self, group: str = "readers", queue: MessageQueue = QUEUE) -> int | None:
        """Give what a group has committed."""
        async with PullConsumer(self.live.name_server, group) as reader:
            return await reader.committed(queue)


@asynccontextmanager
async def shop(root: Path, queues: int = 1, **settings: Any) -> AsyncIterator[Shop]:
    """Open a shop; the arguments are those of ``tests.live.serving``."""
    connections = Connections()
    async with (
        serving(root, **settings) as live,
        TopicAdmin(live.name_server) as admin,
        Producer(live.name_server) as producer,
    ):
        await admin.create("Orders", queues=queues)
        routes = Routes(connections, [live.name_server])
        try:
            yield Shop(
                live, producer, connections, routes, QueueRequests(connections, routes, "readers", 3_000)
            )
        finally:
            await connections.close()
