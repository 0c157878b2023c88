"""Producers that send one message after the other, each to its own queue, and note what is acknowledged."""

import asyncio
from contextlib import AsyncExitStack
from typing import Final, Self

from tests.campaigns.sets.partitions_cluster import BROKER_NAME, NAME_SERVER
from tests.campaigns.sets.partitions_judge import Acknowledged, Found

from cometmq import Message, MessageQueue, Producer, PullConsumer
from cometmq.client.producer.send_result import SendStatus
from cometmq.errors import CometMQError
from cometmq.format.host import host_text
from cometmq.format.message_id import parse_offset_message_id

QUEUES: Final = 4
TIMEOUT_MS: Final = 3_000
AGAIN_S: Final = 0.05


class Load:
    """Sends to the queues of one topic until it is stopped; open it with ``async with``.

    Attributes:
        acknowledged: the sends that were answered SEND_OK.
        failed: attempts that were refused, or had no answer.
    """

    def __init__(self, topic: str) -> None:
        self.acknowledged: list[Acknowledged] = []
        self.failed = 0
        self._topic = topic
        self._arrived = asyncio.Condition()
        self._stack = AsyncExitStack()
        self._stops = False
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        """Begin to send."""
        producer = await self._stack.enter_async_context(
            Producer(NAME_SERVER, timeout_ms=TIMEOUT_MS, tries=1)
        )
        self._tasks = [asyncio.create_task(self._send_all(producer, queue)) for queue in range(QUEUES)]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop sending: each producer ends with an acknowledged message."""
        self._stops = True
        await asyncio.gather(*self._tasks)
        await self._stack.aclose()

    async def more(self, number: int) -> None:
        """Wait until so many more sends are acknowledged."""
        wanted = len(self.acknowledged) + number
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.acknowledged) >= wanted)

    async def _send_all(self, producer: Producer, queue_id: int) -> None:
        number = 0
        while not self._stops:
            number += 1
            key = f"{queue_id}-{number:09}"
            self.acknowledged.append(await self._send(producer, key, queue_id))
            async with self._arrived:
                self._arrived.notify_all()

    async def _send(self, producer: Producer, key: str, queue_id: int) -> Acknowledged:
        """Send a message until it is acknowledged."""
        message = Message(self._topic, key.encode(), keys=(key,))
        queue = MessageQueue(self._topic, BROKER_NAME, queue_id)
        while True:
            try:
                result = await producer.send(message, queue)
            except CometMQError:
                self.failed += 1
                await asyncio.sleep(AGAIN_S)
                continue
            if result.status is SendStatus.SEND_OK:
                place = parse_offset_message_id(result.offset_id)
                broker = host_text(place.store_host)
                return Acknowledged(key, broker, place.physical_offset, queue_id, result.queue_offset)
            self.failed += 1


async def read_all(topic: str) -> list[Found]:
    """Read all messages of the topic from the master."""
    found: list[Found] = []
    async with PullConsumer(NAME_SERVER, "judges") as consumer:
        for queue_id in range(QUEUES):
            async for message in consumer.messages(MessageQueue(topic, BROKER_NAME, queue_id)):
                place = message.physical_offset, message.queue_id, message.queue_offset
                found.append(Found(message.body.decode(), message.store_host, *place))
    return found
