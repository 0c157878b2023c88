"""Topics at brokers that answer before the name server knows: RocketMQ's."""

import asyncio
from typing import Final

from tests.interop.patience import PATIENCE_S

from cometmq.admin.topics import TopicAdmin
from cometmq.cluster.route import READ, WRITE
from cometmq.wire.acl import Credentials

LOOK_AGAIN_S: Final = 0.05


async def create_topic(
    namesrv: str,
    topic: str,
    message_type: str = "NORMAL",
    queues: int = 2,
    perm: int = READ | WRITE,
    credentials: Credentials | None = None,
) -> None:
    """Create a topic for a type of messages at all brokers; wait until the name server knows it.

    Raises AssertionError if that does not come.
    """
    async with TopicAdmin(namesrv, credentials=credentials) as admin:
        await admin.create(topic, queues=queues, perm=perm, message_type=message_type)
        for _ in range(int(PATIENCE_S / LOOK_AGAIN_S)):
            if topic in await admin.topics():
                return
            await asyncio.sleep(LOOK_AGAIN_S)
    raise AssertionError(f"the name server does not know topic {topic}")
