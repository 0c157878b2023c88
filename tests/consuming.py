"""Handlers that remember what they got, and let a test wait for it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from cometmq import MessageQueue, StoredMessage
from cometmq.client import Consumer, Start


class Basket:
    """What a handler got, and the means to wait for it."""

    def __init__(self) -> None:
        self.messages: list[StoredMessage] = []
        self._came = asyncio.Condition()

    async def put(self, message: StoredMessage) -> None:
        async with self._came:
            self.messages.append(message)
            self._came.notify_all()

    async def has(self, count: int) -> list[bytes]:
        """Wait until so many came; give the bodies of all."""
        async with self._came:
            await self._came.wait_for(lambda: len(self.messages) >= count)
        return [message.body for message in self.messages]


@asynccontextmanager
async def hanging(name_server: str, group: str, topic: str) -> AsyncIterator[None]:
    """Run a consumer from the first message on that has got one, and whose handlers hang until the end."""
    called, release = asyncio.Event(), asyncio.Event()

    async def hang(_: StoredMessage) -> None:
        called.set()
        await release.wait()

    consumer = Consumer(name_server, group, start=Start.FIRST)
    consumer.subscribe(topic, hang)
    async with consumer:
        await called.wait()
        try:
            yield
        finally:
            release.set()


class Shares:
    """How many queues of its topic each of some consumers has, and the means to wait for it."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self._owned: dict[str, list[MessageQueue]] = {}

    def of(self, name: str) -> Callable[[list[MessageQueue]], None]:
        """Return what a consumer is to tell its queues to."""

        def note(queues: list[MessageQueue]) -> None:
            self._owned[name] = [queue for queue in queues if not queue.topic.startswith("%")]
            self._changed.set()

        return note

    async def are(self, **counts: int) -> None:
        """Wait until each has so many."""
        while {name: len(self._owned.get(name, [])) for name in counts} != counts:
            self._changed.clear()
            await self._changed.wait()
