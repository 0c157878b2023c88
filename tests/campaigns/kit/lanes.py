"""A load of sends that knows what it was promised: one sender to each queue, one message at a time.

Each message is sent again until it is acknowledged. So a queue may hold one more than once, but the first of
each must come in order, and none that was acknowledged may be missing.
"""

import asyncio
import itertools
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final, Self

from tests.campaigns.kit.judge import Epoch, Placed, Verdict, judge

from cometmq import Message, MessageQueue, Producer, PullConsumer
from cometmq.client.producer.send_result import SendStatus
from cometmq.errors import CometMQError
from cometmq.format.host import host_text
from cometmq.format.message_id import parse_offset_message_id

TIMEOUT_MS: Final = 3_000
AGAIN_S: Final = 0.02
"""Between two tries of a message, so that a broker that is gone does not cost the processor."""
BODY: Final = bytes(300)


class Lanes:
    """Sends to the queues of a topic until it is stopped; open it with ``async with``.

    Args:
        queues: how many the topic has.
        pace_s: pause after each acknowledgement. A slave comes into the set when it has all that the master
            has, which it never has on a busy machine where sends follow each other without a break.

    Attributes:
        acknowledged: the sends that were answered SEND_OK.
        failed: attempts that were refused, or had no answer.
    """

    def __init__(
        self, name_server: str, broker_name: str, topic: str, queues: int, *, pace_s: float = 0
    ) -> None:
        self.acknowledged: list[Placed] = []
        self.failed = 0
        self._name_server = name_server
        self._queues = [MessageQueue(topic, broker_name, number) for number in range(queues)]
        self._pace_s = pace_s
        self._arrived = asyncio.Condition()
        self._begun_last_s = 0.0  # when the send began that was acknowledged last
        self._stack = AsyncExitStack()
        self._stops = False
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        """Begin to send."""
        producer = await self._stack.enter_async_context(
            Producer(self._name_server, timeout_ms=TIMEOUT_MS, tries=1)
        )
        self._tasks = [asyncio.create_task(self._send_all(producer, queue)) for queue in self._queues]
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Stop sending: each sender ends with an acknowledged message, unless there was an error."""
        self._stops = True
        for task in self._tasks if kind else ():
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=kind is not None)
        await self._stack.aclose()

    async def more(self, number: int) -> None:
        """Wait until so many more sends are acknowledged."""
        wanted = len(self.acknowledged) + number
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.acknowledged) >= wanted)

    async def acknowledgement_begun_after(self, time_s: float) -> float:
        """Wait for the acknowledgement of a send that began after a time; return when it came."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: self._begun_last_s >= time_s)
        return time.monotonic()

    async def judge(self, epochs: Sequence[Epoch] = ()) -> Verdict:
        """Read all queues, and compare them with what was acknowledged. No sender may run."""
        found: list[Placed] = []
        async with PullConsumer(self._name_server, "judges") as consumer:
            for queue in self._queues:
                async for message in consumer.messages(queue, 0):
                    place = message.physical_offset, message.queue_id, message.queue_offset
                    found.append(Placed(message.keys[0], message.store_host, *place))
        return judge(self.acknowledged, found, epochs)

    async def _send_all(self, producer: Producer, queue: MessageQueue) -> None:
        for number in itertools.count():
            if self._stops:
                return
            key = f"{queue.queue_id}-{number:09}"
            message = Message(queue.topic, key.encode() + BODY, keys=(key,))
            while (placed := await self._placed(producer, message, queue)) is None:
                self.failed += 1
                await asyncio.sleep(AGAIN_S)
            self.acknowledged.append(placed)
            async with self._arrived:
                self._arrived.notify_all()
            await asyncio.sleep(self._pace_s)

    async def _placed(self, producer: Producer, message: Message, queue: MessageQueue) -> Placed | None:
        """Send a message once; return its place if that is acknowledged."""
        begun_s = time.monotonic()
        try:
            result = await producer.send(message, queue)
        except CometMQError:
            return None
        if result.status is not SendStatus.SEND_OK:
            return None
        self._begun_last_s = max(self._begun_last_s, begun_s)
        place = parse_offset_message_id(result.offset_id)
        where = host_text(place.store_host), place.physical_offset
        return Placed(message.keys[0], *where, queue.queue_id, result.queue_offset)
