"""A proxy that, while it is told to, delays, halves and swallows what passes, and cuts connections."""

import asyncio
import random
from contextlib import suppress
from typing import Final

CHUNK: Final = 1 << 16
DELAYED: Final = 0.02
DELAY_S_MAX: Final = 0.3
HALVED: Final = 0.003
SWALLOWED: Final = 0.003
CUT: Final = 0.003
"""How likely each is for a chunk that passes."""
SWALLOW_S_MAX: Final = 5.0
"""So long a connection may swallow all before it is cut."""


class Proxy:
    """Passes connections on to one address.

    Attributes:
        wild: whether it does harm now.
        harm: how often it cut a connection, by the reason.
    """

    def __init__(self, host: str, port: int, seed: int) -> None:
        self.wild = False
        self.harm = {"halved": 0, "swallowed": 0, "cut": 0}
        self._address = host, port
        self._chance = random.Random(seed)
        self._passing: set[asyncio.Task[None]] = set()

    async def start(self, host: str) -> None:
        """Listen at the same port of another host."""
        self._server = await asyncio.start_server(self._accept, host, self._address[1])

    async def stop(self) -> None:
        """Cut all connections and listen no more."""
        self._server.close()
        for task in self._passing:
            task.cancel()
        await asyncio.gather(*self._passing, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._passing.add(task)
        task.add_done_callback(self._passing.discard)
        with suppress(OSError, asyncio.CancelledError):
            try:
                there, back = await asyncio.open_connection(*self._address)
            except OSError:
                writer.transport.abort()
                return
            ways = [asyncio.create_task(self._pass(*way)) for way in ((reader, back), (there, writer))]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
                writer.transport.abort()
                back.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one direction on until it ends or is cut."""
        while chunk := await reader.read(CHUNK):
            if self.wild and (harm := self._choose()) is not None:
                self.harm[harm] += 1
                if harm == "halved":
                    writer.write(chunk[: len(chunk) // 2])
                    await writer.drain()
                elif harm == "swallowed":
                    await asyncio.sleep(self._chance.uniform(0, SWALLOW_S_MAX))
                return
            if self.wild and self._chance.random() < DELAYED:
                await asyncio.sleep(self._chance.uniform(0, DELAY_S_MAX))
            writer.write(chunk)
            await writer.drain()

    def _choose(self) -> str | None:
        at = self._chance.random()
        for harm, likely in (("halved", HALVED), ("swallowed", SWALLOWED), ("cut", CUT)):
            if at < likely:
                return harm
            at -= likely
        return None
