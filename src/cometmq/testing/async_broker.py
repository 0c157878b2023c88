"""The embedded broker for tests that are coroutines."""

import asyncio
from typing import Any

from cometmq.message import Message, StoredMessage
from cometmq.testing.clock import MovableClock
from cometmq.testing.embedded_broker import QUEUES, TIMEOUT_S, EmbeddedBroker
from cometmq.testing.faults import Fault
from cometmq.wire.codes import ResponseCode


class AsyncEmbeddedBroker:
    """The methods of a started ``EmbeddedBroker``, to be awaited: none holds up the event loop.

    Attributes:
        embedded: the broker itself.
    """

    def __init__(self, embedded: EmbeddedBroker) -> None:
        self.embedded = embedded

    @property
    def name_server(self) -> str:
        """The name server's address, to be given to clients."""
        return self.embedded.name_server

    @property
    def clock(self) -> MovableClock:
        """The broker's time; to move or set it there are ``advance`` and ``set_wall``."""
        return self.embedded.clock

    @property
    def failures_pending(self) -> int:
        """How many failures that were asked for have not happened yet."""
        return self.embedded.failures_pending

    @property
    def pulls_held(self) -> int:
        """How many pulls wait at the broker for messages to come."""
        return self.embedded.pulls_held

    async def advance(self, seconds: float) -> None:
        """Move the broker's time: what becomes due is there at the end."""
        await asyncio.to_thread(self.embedded.clock.advance, seconds)

    async def set_wall(self, seconds: float) -> None:
        """Set the broker's wall clock ahead, or back if ``seconds`` are below 0; no time passes by it."""
        await asyncio.to_thread(self.embedded.clock.set_wall, seconds)

    async def create_topic(self, topic: str, queues: int = QUEUES) -> None:
        """Create a topic, known to the name server at the end. Raises IllegalName."""
        await asyncio.to_thread(self.embedded.create_topic, topic, queues)

    async def send(self, message: Message, queue_id: int | None = None) -> StoredMessage:
        """Store a message as if a producer had sent it. Raises IllegalName or MessageIllegal."""
        return await asyncio.to_thread(self.embedded.send, message, queue_id)

    async def messages(self, topic: str) -> list[StoredMessage]:
        """Return all messages of a topic, in the order in which they were stored."""
        return await asyncio.to_thread(self.embedded.messages, topic)

    async def dead_letters(self, group: str) -> list[StoredMessage]:
        """Return the messages that a consumer group has given up."""
        return await asyncio.to_thread(self.embedded.dead_letters, group)

    async def fail_next(
        self,
        times: int = 1,
        *,
        topic: str | None = None,
        request: int | None = None,
        fault: Fault = Fault.REFUSE,
        answer: int = ResponseCode.SYSTEM_BUSY,
    ) -> None:
        """Make the next requests to the broker fail, as ``EmbeddedBroker.fail_next`` does."""
        options: dict[str, Any] = {"topic": topic, "request": request, "fault": fault, "answer": answer}
        await asyncio.to_thread(self.embedded.fail_next, times, **options)

    async def restart(self) -> None:
        """Stop the broker, which cuts all connections, and start it again on what it has stored."""
        await asyncio.to_thread(self.embedded.restart)

    async def wait_messages(
        self, topic: str, number: int = 1, *, timeout_s: float = TIMEOUT_S
    ) -> list[StoredMessage]:
        """Wait until a topic has so many messages, and return them all. Raises TimeoutError."""
        return await asyncio.to_thread(self.embedded.wait_messages, topic, number, timeout_s=timeout_s)

    async def wait_consumed(
        self, group: str, topic: str, *, retries: bool = False, timeout_s: float = TIMEOUT_S
    ) -> None:
        """Wait until a group has handled all that is in a topic, and in its own retry topic.

        Raises TimeoutError. See ``EmbeddedBroker.wait_consumed``.
        """
        await asyncio.to_thread(
            self.embedded.wait_consumed, group, topic, retries=retries, timeout_s=timeout_s
        )
