"""A producer's presence: each broker that it sends to knows that it lives, until it leaves."""

import asyncio
from contextlib import suppress
from typing import Final

from cometmq.client.heartbeat import HEARTBEAT_S, beat, say_goodbye
from cometmq.net.client import Connections
from cometmq.wire.bodies.heartbeat import Heartbeat, ProducerData

GOODBYE_S_MAX: Final = 1.0
"""How long the end of a producer waits for brokers that do not answer its goodbye."""


class Presence:
    """Sends heartbeats to the brokers that were met: at once, then each 30 s."""

    def __init__(self, connections: Connections, client_id: str, group: str) -> None:
        self._connections = connections
        self._client_id = client_id
        self._group = group
        self._heartbeat = Heartbeat(client_id=client_id, producers=[ProducerData(group=group)])
        self._met: set[str] = set()
        self._someone_new = asyncio.Event()
        self._beating: asyncio.Task[None] | None = None

    def meet(self, address: str) -> None:
        """Note that a broker is sent to."""
        if address not in self._met:
            self._met.add(address)
            self._someone_new.set()
            self._beating = self._beating or asyncio.create_task(self._beat())

    async def close(self) -> None:
        """Take leave of the brokers."""
        if self._beating is None:
            return
        self._beating.cancel()
        await asyncio.gather(self._beating, return_exceptions=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(GOODBYE_S_MAX):
                await say_goodbye(self._connections, self._met, self._client_id, producer_group=self._group)

    async def _beat(self) -> None:
        while True:
            self._someone_new.clear()
            await beat(self._connections, list(self._met), self._heartbeat)
            with suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT_S):
                    await self._someone_new.wait()
