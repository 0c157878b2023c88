"""Linger: single sends wait some milliseconds for others of their topic and are sent as a batch.

Source: RocketMQ ``client/producer/ProduceAccumulator.java``.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from cometmq.client.producer import outgoing
from cometmq.client.producer.outgoing import Outgoing
from cometmq.client.producer.packing import BATCH_COUNT
from cometmq.client.producer.send_result import SendResult, result_of_each
from cometmq.errors import NetworkError
from cometmq.message import Message


class Accumulator:
    """Collects messages into batches by topic.

    Args:
        send: sends a message or a batch.
        new_id: makes a unique id.
        single: encodes a message that is sent alone.
        linger_ms: how long the first message of a batch waits for others.
        batch_bytes: a batch of this size is sent at once.
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
        self._pending: dict[str, _PendingBatch] = {}
        self._sending: set[asyncio.Task[None]] = set()

    def add(self, message: Message) -> "asyncio.Future[SendResult]":
        """Add a message to its topic's batch; return the future of its result, which fails as a send does.

        Raises MessageIllegal or IllegalName at once.
        """
        unique_id = self._new_id()
        member = outgoing.encode_member(message, unique_id)
        batch = self._pending.get(message.topic)
        if batch is not None and batch.size + len(member) > self._batch_bytes:
            self._flush(message.topic)
            batch = None
        if batch is None:
            timer = self._loop.call_later(self._linger_s, self._flush, message.topic)
            batch = self._pending[message.topic] = _PendingBatch(timer, message)
        result: asyncio.Future[SendResult] = self._loop.create_future()
        batch.ids.append(unique_id)
        batch.members.append(member)
        batch.results.append(result)
        batch.size += len(member)
        if batch.size >= self._batch_bytes or len(batch.members) == BATCH_COUNT:
            self._flush(message.topic)
        return result

    async def close(self) -> None:
        """Send the pending batches and wait for their results."""
        for topic in list(self._pending):
            self._flush(topic)
        await asyncio.gather(*self._sending)

    def _flush(self, topic: str) -> None:
        batch = self._pending.pop(topic)
        batch.timer.cancel()
        task = asyncio.create_task(self._send_batch(batch))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send_batch(self, batch: "_PendingBatch") -> None:
        try:
            result = await self._send(self._outgoing(batch))
        except asyncio.CancelledError:
            batch.fail(NetworkError("the send was cancelled: the messages may be stored nevertheless"))
            raise
        except Exception as error:  # noqa: BLE001 each sender's future raises it
            batch.fail(error)
            return
        for future, own in zip(batch.results, result_of_each(result, batch.ids), strict=True):
            if not future.done():
                future.set_result(own)

    def _outgoing(self, batch: "_PendingBatch") -> Outgoing:
        if len(batch.ids) == 1:
            return self._single(batch.first, batch.ids[0])
        return outgoing.batch_of(batch.first.topic, batch.members, batch.ids, self._new_id())


@dataclass(slots=True)
class _PendingBatch:
    """Messages that wait, encoded as members of a batch, and the futures of their results."""

    timer: asyncio.TimerHandle
    first: Message
    ids: list[str] = field(default_factory=list)
    members: list[bytes] = field(default_factory=list)
    results: "list[asyncio.Future[SendResult]]" = field(default_factory=list)
    size: int = 0

    def fail(self, error: Exception) -> None:
        """Fail the futures of all messages."""
        for future in self.results:
            if not future.done():  # else its sender was cancelled
                future.set_exception(error)
