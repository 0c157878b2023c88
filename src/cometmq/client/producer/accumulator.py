"""Linger: single sends wait some milliseconds for company, and leave as a batch.

Source: RocketMQ ``client/producer/ProduceAccumulator.java``.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from cometmq.client.producer import outgoing
from cometmq.client.producer.outgoing import Outgoing
from cometmq.client.producer.packing import BATCH_COUNT
from cometmq.client.producer.send_result import SendResult, of_each
from cometmq.errors import NetworkError
from cometmq.message import Message


class Accumulator:
    """Gathers messages by topic.

    Args:
        send: sends what is ready.
        new_id: makes unique ids.
        single: prepares a message that has found no company.
        linger_ms: how long the first of a batch waits for others.
        batch_bytes: a batch of so many bytes waits no longer.
    """

    def __init__(
        self,
        send: Callable[[Outgoing], Awaitable[SendResult]],
        new_id: Callable[[], str],
        single: Callable[[Message, str], Outgoing],
        linger_ms: int,
        batch_bytes: int,
    ) -> None:
        self._send = send
        self._new_id = new_id
        self._single = single
        self._linger_s = linger_ms / 1000
        self._batch_bytes = batch_bytes
        self._loop = asyncio.get_running_loop()
        self._gathered: dict[str, _Gathering] = {}
        self._sending: set[asyncio.Task[None]] = set()

    def add(self, message: Message) -> "asyncio.Future[SendResult]":
        """Take a message, to send it with others of its topic; gives its result, or fails as a send does.

        Raises MessageIllegal or IllegalName at once.
        """
        unique_id = self._new_id()
        member = outgoing.member(message, unique_id)
        batch = self._gathered.get(message.topic)
        if batch is not None and batch.size + len(member) > self._batch_bytes:
            self._flush(message.topic)
            batch = None
        if batch is None:
            timer = self._loop.call_later(self._linger_s, self._flush, message.topic)
            batch = self._gathered[message.topic] = _Gathering(timer, message)
        answer: asyncio.Future[SendResult] = self._loop.create_future()
        batch.ids.append(unique_id)
        batch.members.append(member)
        batch.answers.append(answer)
        batch.size += len(member)
        if batch.size >= self._batch_bytes or len(batch.members) == BATCH_COUNT:
            self._flush(message.topic)
        return answer

    async def close(self) -> None:
        """Send what is gathered, and wait for its answers."""
        for topic in list(self._gathered):
            self._flush(topic)
        await asyncio.gather(*self._sending)

    def _flush(self, topic: str) -> None:
        batch = self._gathered.pop(topic)
        batch.timer.cancel()
        task = asyncio.create_task(self._send_batch(batch))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send_batch(self, batch: "_Gathering") -> None:
        try:
            result = await self._send(self._ready(batch))
        except asyncio.CancelledError:
            batch.fail(NetworkError("the send was cancelled: the messages may be stored nevertheless"))
            raise
        except Exception as error:  # noqa: BLE001 it is the senders'
            batch.fail(error)
            return
        for answer, own in zip(batch.answers, of_each(result, batch.ids), strict=True):
            if not answer.done():
                answer.set_result(own)

    def _ready(self, batch: "_Gathering") -> Outgoing:
        if len(batch.ids) == 1:
            return self._single(batch.first, batch.ids[0])
        return outgoing.together(batch.first.topic, batch.members, batch.ids, self._new_id())


@dataclass(slots=True)
class _Gathering:
    """Messages that wait, as the batch will have them, and who waits for their answers."""

    timer: asyncio.TimerHandle
    first: Message
    ids: list[str] = field(default_factory=list)
    members: list[bytes] = field(default_factory=list)
    answers: "list[asyncio.Future[SendResult]]" = field(default_factory=list)
    size: int = 0

    def fail(self, error: Exception) -> None:
        """Tell all who wait that none of it was sent, or may not have been."""
        for answer in self.answers:
            if not answer.done():  # else its sender has given up waiting
                answer.set_exception(error)
