"""What tests create at a name server's brokers for the clients, and read there of what they did."""

import asyncio
from contextlib import suppress
from typing import Any

from tests.interop import topics
from tests.interop.patience import wait_until
from tests.interop.peers import Peer

from cometmq import Message, Producer
from cometmq.admin import dead_letters, groups, offsets
from cometmq.admin.cluster import ClusterAdmin
from cometmq.admin.topics import TopicAdmin
from cometmq.errors import NotFound
from cometmq.wire.bodies.group import GroupConfig


def create_topic(broker: Peer, topic: str, message_type: str = "NORMAL", **options: Any) -> str:
    """Create a topic for a type of messages; return its name."""
    asyncio.run(topics.create_topic(broker.namesrv, topic, message_type, **options))
    return topic


def create_group(broker: Peer, group: str, **settings: Any) -> str:
    async def create() -> None:
        async with ClusterAdmin(broker.namesrv) as admin:
            await groups.create(admin, GroupConfig(group=group, **settings))

    asyncio.run(create())
    return group


def send_compressed(broker: Peer, topic: str, body: str) -> None:
    """Send a long body as clients of remoting do, compressed."""

    async def send() -> None:
        async with Producer(broker.namesrv) as producer:
            await producer.send(Message(topic, body.encode()))

    asyncio.run(send())


def dead_letters_of(broker: Peer, group: str) -> list[str]:
    """Wait for dead letters of a group, which RocketMQ's proxy makes later than it answers; return them."""

    async def read() -> list[str]:
        async with ClusterAdmin(broker.namesrv) as admin:
            return [letter.body.decode() async for letter in dead_letters.letters(admin, group)]

    found: list[str] = []

    def find() -> list[str]:
        with suppress(NotFound):
            found[:] = asyncio.run(read())
        return found

    wait_until(find)
    return found


async def stored(namesrv: str, topic: str) -> int:
    """Return how many messages a topic has."""
    async with TopicAdmin(namesrv) as admin:
        return sum(queue.max_offset for queue in await admin.queues(topic))


async def handed_out(namesrv: str, group: str) -> int:
    """Return how many messages of a group have been handed out for the first time."""
    async with ClusterAdmin(namesrv) as admin:
        return sum(queue.committed for queue in (await offsets.progress_of(admin, group)).queues)
