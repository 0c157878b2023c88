"""Pulling one queue: a task keeps the messages that wait topped up, up to the limits.

The broker holds a pull that finds nothing for 15 s, so an idle queue costs four requests a minute, and a
message comes as soon as it is there. Java clients let pulls commit what is handled; these do not: a Java
broker handles pulls and commits in different threads, so a pull's commit could undo a later one, the last of
a queue that is given up. (RocketMQ: DefaultMQPushConsumerImpl.java, pullMessage.)
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from msgspec.structs import replace

from cometmq.arguments import check, instance_of, number
from cometmq.client.consumer.offset_store import OffsetStore
from cometmq.client.consumer.queue_requests import PULL_COUNT, PullStatus, QueueRequests
from cometmq.client.consumer.queue_requests import Pulled as PullAnswer
from cometmq.client.consumer.start import Start
from cometmq.cluster.process_queue import Limits, ProcessQueue, PulledItem
from cometmq.errors import CometMQError
from cometmq.format.layout import RETRY_PREFIX
from cometmq.format.properties import RETRY_TOPIC
from cometmq.message import MessageQueue, StoredMessage

HOLD_MS: Final = 15_000
"""How long the broker may hold a pull."""
AFTER_FAILURE_S: Final = 1.0
"""How soon a request that failed is tried again."""

_log = logging.getLogger(__name__)


class PullOptions(NamedTuple):
    """How queues are pulled.

    Attributes:
        limits: of what may wait of each queue.
        max_count: messages that one pull may give.
        hold_ms: how long the broker may hold a pull that finds nothing.
    """

    limits: Limits = Limits()
    max_count: int = PULL_COUNT
    hold_ms: int = HOLD_MS


def check_options(pull: PullOptions) -> PullOptions:
    """Return what was given, if it can be used. Raises IllegalType, IllegalArgument."""
    check(instance_of(PullOptions), pull=pull)
    check(instance_of(Limits), limits=pull.limits)
    check(number(1), max_count=pull.max_count, **pull.limits._asdict())
    check(number(0), hold_ms=pull.hold_ms)
    return pull


class Pulling:
    """One queue that is consumed.

    Args:
        tags: which messages are wanted; or ``sql``.
        ordered: whether messages are handled in order: then only their number and size are limited.
        on_messages: told of messages that came, in order.
        on_empty: told when all that came is handled.

    Attributes:
        waiting: what has come and is not done, bodies as stored; None until it is known where to begin.
        written: the offset that the store has.
        stopped: the queue is consumed no more: what its handlers did since does not count.
    """

    def __init__(
        self,
        queue: MessageQueue,
        requests: QueueRequests,
        offsets: OffsetStore,
        start: Start,
        on_messages: Callable[["Pulling", list[StoredMessage]], None],
        *,
        tags: str = "*",
        sql: str | None = None,
        ordered: bool = False,
        on_empty: Callable[[], None] = lambda: None,
        options: PullOptions | None = None,
    ) -> None:
        self.queue = queue
        self.waiting: ProcessQueue[StoredMessage] | None = None
        self.written: int | None = None
        self.stopped = False
        self._requests = requests
        self._offsets = offsets
        self._start = start
        self._on_messages = on_messages
        self._on_empty = on_empty
        self._tags = tags
        self._sql = sql
        self._ordered = ordered
        self._options = options or PullOptions()
        self._room = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def begin(self, settle_s: float = 0.0) -> None:
        """Pull from now on, or after a while: an owner before us may have to commit yet."""
        self._task = asyncio.create_task(self._run(settle_s), name=f"pull {self.queue}")

    async def stop(self) -> None:
        """Pull no more."""
        self.stopped = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    def done(self, messages: list[StoredMessage]) -> None:
        """Note that messages are handled."""
        if self.waiting is not None and not self.stopped:
            self.waiting.done(message.queue_offset for message in messages)
            self._room.set()
            if not self.waiting:
                self._on_empty()

    def restart(self, queue_offset: int) -> None:
        """Go on at another offset; what waits is dropped, and so is the answer to a pull that is held."""
        if self.stopped:
            return
        if self.waiting is None:
            self.waiting = ProcessQueue(queue_offset)
        else:
            self.waiting.restart(queue_offset)
        if self._task is not None:
            self._task.cancel()
            self.begin()

    @property
    def to_commit(self) -> int | None:
        """The offset that the store does not have yet, or None."""
        offset = None if self.waiting is None else self.waiting.commit_offset
        return None if offset == self.written else offset

    async def _run(self, settle_s: float) -> None:
        await asyncio.sleep(settle_s)
        while self.waiting is None:
            try:
                self.waiting = ProcessQueue(await self._first_offset())
            except CometMQError as error:
                _log.warning("%s: where to begin is not known yet: %s", _name(self.queue), error)
                await asyncio.sleep(AFTER_FAILURE_S)
        while True:
            while self.waiting.is_full(self._options.limits, spans=not self._ordered):
                self._room.clear()
                await self._room.wait()
            await self._pull(self.waiting)

    async def _first_offset(self) -> int:
        stored = self.written = await self._offsets.read(self.queue)
        return await self._start.offset(self._requests, self.queue) if stored is None else stored

    async def _pull(self, waiting: ProcessQueue[StoredMessage]) -> None:
        cursor = waiting.cursor
        try:
            answer = await self._requests.pull_stored(
                self.queue,
                cursor,
                tags=self._tags,
                sql=self._sql,
                max_count=self._options.max_count,
                wait_ms=self._options.hold_ms,
            )
        except CometMQError as error:
            _log.warning("%s: a pull at %d failed: %s", _name(self.queue), cursor, error)
            await asyncio.sleep(AFTER_FAILURE_S)
            return
        self._take(waiting, answer)

    def _take(self, waiting: ProcessQueue[StoredMessage], answer: PullAnswer) -> None:
        if answer.status is PullStatus.OFFSET_ILLEGAL:
            low, high = answer.min_offset, answer.max_offset
            was_reset = low <= waiting.cursor <= high
            why = "the offset was reset" if was_reset else f"there is nothing, only from {low} to {high}"
            _log.warning(
                "%s at %d: %s: goes on at %d", _name(self.queue), waiting.cursor, why, answer.next_offset
            )
            waiting.restart(answer.next_offset)
            self.written = None  # after a reset the store has another offset than we gave it
            return
        messages = [_under_own_topic(message) for message in answer.messages]
        items = (PulledItem(message.queue_offset, len(message.body), message) for message in messages)
        waiting.put(items, answer.next_offset)
        if messages:
            self._on_messages(self, messages)


def _under_own_topic(message: StoredMessage) -> StoredMessage:
    """Give a retried message the topic that it was sent to."""
    if not message.topic.startswith(RETRY_PREFIX):
        return message
    return replace(message, topic=message.properties.get(RETRY_TOPIC, message.topic))


def _name(queue: MessageQueue) -> str:
    return f"{queue.topic} queue {queue.queue_id} of {queue.broker_name}"
