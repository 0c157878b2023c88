"""Linger: single sends wait some milliseconds for company, and leave as a batch.

Source: RocketMQ ``client/producer/ProduceAccumulator.java``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from cometmq.client import outgoing
from cometmq.client.packing import BATCH_COUNT, size_about
from cometmq.client.send_result import SendResult
from cometmq.errors import CometMQError
from cometmq.message import Message

ANY_ID = "0" * 32
Outcome = SendResult | CometMQError


class Accumulator:
    """Gathers messages by topic.

    Args:
        send_each: sends messages, and gives the result or the error of each.
        linger_ms: how long the first of a batch waits for others.
        batch_bytes: a batch of so many bytes waits no longer.
    """

    def __init__(
        self,
        send_each: Callable[[Sequence[Message]], Awaitable[list[Outcome]]],
        linger_ms: int,
        batch_bytes: int,
    ) -> None:
        self._send_each = send_each
        self._linger_s = linger_ms / 1000
        self._batch_bytes = batch_bytes
        self._gathered: dict[str, _Batch] = {}
        self._sending: set[asyncio.Task[None]] = set()

    async def send(self, message: Message) -> SendResult:
        """Send a message with others of its topic. Raises like ``Producer.send``."""
        outgoing.one(message, ANY_ID, compress_over=None)  # or it would spoil the batch of others
        loop = asyncio.get_running_loop()
        batch = self._gathered.get(message.topic)
        if batch is None:
            timer = loop.call_later(self._linger_s, self._flush, message.topic)
            batch = self._gathered[message.topic] = _Batch(timer)
        answer: asyncio.Future[SendResult] = loop.create_future()
        batch.messages.append(message)
        batch.answers.append(answer)
        batch.size += size_about(message)
        if batch.size >= self._batch_bytes or len(batch.messages) >= BATCH_COUNT:
            self._flush(message.topic)
        return await answer

    async def close(self) -> None:
        """Send what is gathered, and wait for its answers."""
        for topic in list(self._gathered):
            self._flush(topic)
        await asyncio.gather(*self._sending)

    def _flush(self, topic: str) -> None:
        batch = self._gathered.pop(topic)
        batch.timer.cancel()
        task = asyncio.create_task(self._send(batch))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send(self, batch: "_Batch") -> None:
        try:
            outcomes = await self._send_each(batch.messages)
        except CometMQError as error:
            outcomes = [error] * len(batch.messages)
        for answer, outcome in zip(batch.answers, outcomes, strict=True):
            if answer.done():  # its sender has given up waiting
                continue
            if isinstance(outcome, CometMQError):
                answer.set_exception(outcome)
            else:
                answer.set_result(outcome)


@dataclass
class _Batch:
    """Messages that wait, and who waits for their answers."""

    timer: asyncio.TimerHandle
    messages: list[Message] = field(default_factory=list)
    answers: "list[asyncio.Future[SendResult]]" = field(default_factory=list)
    size: int = 0
