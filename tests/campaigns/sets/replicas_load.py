"""The load on a pair's master: batches of messages, sent side by side up to a limit that is raised."""

import asyncio
import itertools
from random import Random
from typing import Final

from cometmq import Message, Producer
from cometmq.errors import CometMQError

TOPICS: Final = ("invoices", "parcels", "payments")
SENDERS: Final = 4
BATCH: Final = 32
BODY_BYTES_MAX: Final = 4_000
AGAIN_S: Final = 0.2
"""Pause after a send that has failed: its master may be dead."""
LOOK_S: Final = 0.05
STALLED_S: Final = 600
"""So long nothing may be acknowledged, however slow the machine is."""


class Load:
    """Sends until it is ended; each body has its number in it.

    Attributes:
        acknowledged: the numbers of the messages that are stored, as the producer was told.
        sent_bytes: the length of their bodies.
        failed: batches that were not acknowledged; they may be stored all the same.
    """

    def __init__(self, chance: Random) -> None:
        self.acknowledged: set[int] = set()
        self.sent_bytes = 0
        self.failed = 0
        self._limit = 0
        self._may_send = asyncio.Event()
        self._is_over = False
        self._numbers = itertools.count()
        self._chance = chance
        self._filling = chance.randbytes(BODY_BYTES_MAX)

    def allow(self, sent_bytes: int) -> None:
        """Send until so many bytes are acknowledged."""
        self._limit = sent_bytes
        self._may_send.set()

    def end(self) -> None:
        """Send no more."""
        self._is_over = True
        self._may_send.set()

    async def reach(self, sent_bytes: int) -> None:
        """Wait until so many bytes are acknowledged."""
        loop = asyncio.get_running_loop()
        before, deadline = -1, 0.0
        while self.sent_bytes < sent_bytes:
            if self.sent_bytes > before:
                before, deadline = self.sent_bytes, loop.time() + STALLED_S
            assert loop.time() < deadline, f"nothing more than {before:,} bytes is acknowledged"
            await asyncio.sleep(LOOK_S)

    async def run(self, name_server: str) -> None:
        """Send to the topics that the name server knows, until the end."""
        async with Producer(name_server, "load", tries=1) as producer, asyncio.TaskGroup() as senders:
            for _ in range(SENDERS):
                senders.create_task(self._send(producer))

    async def _waited(self) -> bool:
        """Wait until more may be sent; return whether it may: nobody waits for what is over."""
        if not self._is_over:
            await self._may_send.wait()
        return not self._is_over

    async def _send(self, producer: Producer) -> None:
        while await self._waited():
            numbers = list(itertools.islice(self._numbers, BATCH))
            topic = self._chance.choice(TOPICS)
            bodies = [self._body(number) for number in numbers]
            messages = [
                Message(topic, body, tags=f"t{number % 3}", keys=(f"k{number}",))
                for number, body in zip(numbers, bodies, strict=True)
            ]
            try:
                await producer.send_batch(messages)
            except CometMQError:
                self.failed += 1
                await asyncio.sleep(AGAIN_S)
                continue
            self.acknowledged.update(numbers)
            self.sent_bytes += sum(map(len, bodies))
            if self.sent_bytes >= self._limit:
                self._may_send.clear()

    def _body(self, number: int) -> bytes:
        return b"number=%016x;" % number + self._filling[: self._chance.randrange(BODY_BYTES_MAX)]
