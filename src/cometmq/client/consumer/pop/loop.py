"""Pop one queue, or all queues of a topic on one broker: a task, as long as few messages wait to be handled.

The broker holds a pop without messages for 15 s. (RocketMQ: DefaultMQPushConsumerImpl.java, popMessage.)
"""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from cometmq.client.background import start_task
from cometmq.client.consumer.pop.receipts import PopReceipts
from cometmq.client.repeated_text import RepeatedText
from cometmq.client.requests.pop_requests import PopOptions, PopRequests, PopStatus
from cometmq.cluster.process_queue import Limits
from cometmq.errors import CometMQError
from cometmq.format.pop.receipt import parse_receipt
from cometmq.format.properties import POP_CK
from cometmq.logs import get_logger
from cometmq.message import MessageQueue, StoredMessage
from cometmq.wire.bodies.heartbeat import SubscriptionData

HOLD_MS: Final = 15_000
"""How long the broker may hold a pop."""
WAITING_MAX: Final = 96
"""Most messages of one loop that wait: they must be handled before their invisible time passes."""
PAUSE_S: Final = 1.0
"""How soon to pop again after a failure, and from a broker that holds too many pops."""

_log = get_logger(__name__)


class PopSource(NamedTuple):
    """What the loops of one consumer pop with.

    Attributes:
        limits: of the messages that wait to be handled; at most WAITING_MAX do.
    """

    requests: PopRequests
    receipts: PopReceipts
    options: PopOptions
    limits: Limits


class PopLoop:
    """The pops of one assignment.

    Args:
        queue: a negative queue id stands for all queues of the topic on the broker.
        on_messages: called with the messages of a pop.

    Attributes:
        stopped: no further pop is sent; messages of one under way are still handled.
    """

    def __init__(
        self,
        queue: MessageQueue,
        wanted: SubscriptionData,
        source: PopSource,
        on_messages: Callable[["PopLoop", list[StoredMessage]], None],
    ) -> None:
        self.queue = queue
        self.stopped = False
        self._wanted = wanted
        self._requests, self._receipts, self._options, self._limits = source
        self._on_messages = on_messages
        self._count = 0
        self._size = 0
        self._has_room = asyncio.Event()
        self._failures = RepeatedText()
        self._task: asyncio.Task[None] | None = None

    @property
    def has_ended(self) -> bool:
        """Whether no pop is under way any more."""
        return self._task is None or self._task.done()

    def begin(self) -> None:
        """Start to pop."""
        self._task = start_task(self._run(), f"pops of {self.queue}")

    def request_stop(self) -> None:
        """Send no further pop. One under way may end: its messages would be hidden for nothing else."""
        self.stopped = True
        self._has_room.set()

    async def stop(self) -> None:
        """Stop at once."""
        self.request_stop()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    def done(self, messages: list[StoredMessage]) -> None:
        """Count messages as handled."""
        self._count -= len(messages)
        self._size -= sum(len(message.body) for message in messages)
        self._has_room.set()

    @property
    def _is_full(self) -> bool:
        count_max = min(self._limits.messages, WAITING_MAX)
        return self._count >= count_max or self._size > self._limits.size

    async def _run(self) -> None:
        while not self.stopped:
            if self._is_full:
                self._has_room.clear()
                await self._has_room.wait()
                continue
            try:
                is_soon = await self._pop()
            except CometMQError as error:
                is_soon = False
                if self._failures.is_due(str(error)):
                    topic, broker_name = self.queue.topic, self.queue.broker_name
                    _log.warning("%s of %s: a pop failed: %s", topic, broker_name, error)
            else:
                self._failures.clear()
            if not is_soon:
                await asyncio.sleep(PAUSE_S)

    async def _pop(self) -> bool:
        """Pop once; return whether to pop again at once."""
        result = await self._requests.pop(self.queue, self._wanted, self._options)
        if result.status is PopStatus.FOUND:
            self._receipts.set_time(self.queue.broker_name, result.pop_time_ms)
        if result.messages:
            self._count += len(result.messages)
            self._size += sum(len(message.body) for message in result.messages)
            self._on_messages(self, result.messages)
        if result.unwanted:  # their tags have the hash of a wanted one: nobody of the group wants them
            handles = [parse_receipt(message.properties[POP_CK]) for message in result.unwanted]
            await self._requests.ack_all(self.queue.topic, handles)
        return result.status is not PopStatus.POLLING_FULL
