"""The embedded broker for tests that are coroutines."""

import asyncio
from typing import Any

from cometmq.message import Message, StoredMessage
from cometmq.testing.clock import MovableClock
from cometmq.testing.embedded_broker import QUEUES, TIMEOUT_S, EmbeddedBroker
from cometmq.testing.faults import Fault
from cometmq.wire.codes import ResponseCode


class AsyncEmbeddedBroker:
    """A started ``EmbeddedBroker`` whose methods are awaited: none of them blocks the event loop.

    Attributes:
        embedded: the broker itself.
    """

    def __init__(self, embedded: EmbeddedBroker) -> None:
        self.embedded = embedded

    @property
    def name_server(self) -> str:
        """The name server's address, for clients."""
        return self.embedded.name_server

    @property
    def clock(self) -> MovableClock:
        """The broker's clock; ``advance`` and ``shift_wall`` move it."""
        return self.embedded.clock

    @property
    def failures_pending(self) -> int:
        """Number of planned failures that have not happened yet."""
        return self.embedded.failures_pending

    @property
    def pulls_held(self) -> int:
        """Number of pulls that wait at the broker for messages."""
        return self.embedded.pulls_held

    async def advance(self, seconds: float) -> None:
        """Advance the broker's time, as ``clock.advance`` does."""
        await asyncio.to_thread(self.embedded.clock.advance, seconds)

    async def shift_wall(self, seconds: float) -> None:
        """Set the broker's wall clock ahead, or back if ``seconds`` is negative; no time passes."""
        await asyncio.to_thread(self.embedded.clock.shift_wall, seconds)

    async def grpc_endpoint(self) -> str:
        """Return ``host:port`` for RocketMQ 5 clients, which speak gRPC. Raises MissingExtra."""
        return await asyncio.to_thread(lambda: self.embedded.grpc_endpoint)

    async def create_topic(self, topic: str, queues: int = QUEUES, message_type: str = "NORMAL") -> None:
        """Create a topic; on return the name server knows it. Raises IllegalName."""
        await asyncio.to_thread(self.embedded.create_topic, topic, queues, message_type)

    async def send(self, message: Message, queue_id: int | None = None) -> StoredMessage:
        """Store a message as if a producer had sent it. Raises IllegalName or MessageIllegal."""
        return await asyncio.to_thread(self.embedded.send, message, queue_id)

    async def messages(self, topic: str) -> list[StoredMessage]:
        """Return all messages of a topic, in the order in which they were stored."""
        return await asyncio.to_thread(self.embedded.messages, topic)

    async def dead_letters(self, group: str) -> list[StoredMessage]:
        """Return the messages that a consumer group gave up."""
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
        """Inject a fault into the next requests to the broker, as ``EmbeddedBroker.fail_next`` does."""
        options: dict[str, Any] = {"topic": topic, "request": request, "fault": fault, "answer": answer}
        await asyncio.to_thread(self.embedded.fail_next, times, **options)

    async def restart(self) -> None:
        """Stop the broker, which closes all connections, and start it again with its store."""
        await asyncio.to_thread(self.embedded.restart)

    async def wait_messages(
        self, topic: str, number: int = 1, *, timeout_s: float = TIMEOUT_S
    ) -> list[StoredMessage]:
        """Wait until a topic has ``number`` messages, and return all of them. Raises TimeoutError."""
        return await asyncio.to_thread(self.embedded.wait_messages, topic, number, timeout_s=timeout_s)

    async def wait_consumed(
        self, group: str, topic: str, *, retries: bool = False, timeout_s: float = TIMEOUT_S
    ) -> None:
        """Wait until a group has handled all messages of a topic, and of its own retry topic.

        Raises TimeoutError. See ``EmbeddedBroker.wait_consumed``.
        """
        await asyncio.to_thread(
            self.embedded.wait_consumed, group, topic, retries=retries, timeout_s=timeout_s
        )
