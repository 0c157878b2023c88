"""Pull one queue: a task fills a buffer of messages that wait to be handled, up to limits.

The broker holds a pull without new messages for 15 s, so an idle queue costs four requests a minute, and a
message arrives as soon as it is stored. Unlike those of Java clients these pulls do not commit: a Java broker
handles pulls and commits in different threads, so a pull could overwrite a later commit, such as the last one
of a released queue. (RocketMQ: DefaultMQPushConsumerImpl.java, pullMessage.)
"""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from msgspec.structs import replace

from cometmq.arguments import check, instance_of, number
from cometmq.client.background import start_task
from cometmq.client.handling.start import Start
from cometmq.client.repeated_text import RepeatedText
from cometmq.client.requests.offset_store import OffsetStore
from cometmq.client.requests.queue_requests import (
    PULL_COUNT,
    Pulled,
    PullStatus,
    QueuePull,
    QueueRequests,
)
from cometmq.cluster.process_queue import Limits, ProcessQueue, PulledItem
from cometmq.errors import CometMQError
from cometmq.format.layout import RETRY_PREFIX
from cometmq.format.properties import RETRY_TOPIC
from cometmq.logs import get_logger
from cometmq.message import MessageQueue, StoredMessage

HOLD_MS: Final = 15_000
"""How long the broker may hold a pull."""
AFTER_FAILURE_S: Final = 1.0
"""How soon a failed request is retried."""

_log = get_logger(__name__)


class PullOptions(NamedTuple):
    """How queues are pulled.

    Attributes:
        limits: of the messages of each queue that wait to be handled.
        max_count: most messages of one pull.
        hold_ms: how long the broker may hold a pull without new messages.
    """

    limits: Limits = Limits()
    max_count: int = PULL_COUNT
    hold_ms: int = HOLD_MS


def check_options(pull: PullOptions) -> PullOptions:
    """Return the options if they are legal. Raises IllegalType, IllegalArgument."""
    check(instance_of(PullOptions), pull=pull)
    check(instance_of(Limits), limits=pull.limits)
    check(number(1), max_count=pull.max_count, **pull.limits._asdict())
    check(number(0), hold_ms=pull.hold_ms)
    return pull


class PullSource(NamedTuple):
    """What the queues of one consumer are pulled with.

    Attributes:
        start: where to begin in a queue without a committed offset.
        since_ms: returns when the group began with a queue, in ms since the epoch; None while it does.
    """

    requests: QueueRequests
    offsets: OffsetStore
    start: Start
    options: PullOptions = PullOptions()
    since_ms: Callable[[MessageQueue], int | None] = lambda _: None


class Pulling:
    """The pulls of one queue.

    Args:
        on_messages: called with the messages of a pull, in order.
        tags: the tag expression of the messages to pull, unless ``sql`` is set.
        ordered: whether messages are handled in order: then the span of their offsets is not limited.
        on_empty: called when all pulled messages are done.

    Attributes:
        waiting: messages that are pulled and not done, bodies as stored; None until the offset is known.
        committed_offset: the offset in the store; None if it is unknown.
        begun: set when the offset is known, and when the queue is released.
        stopped: the queue is released: messages that are handled later are not done.
    """

    def __init__(
        self,
        queue: MessageQueue,
        source: PullSource,
        on_messages: Callable[["Pulling", list[StoredMessage]], None],
        *,
        tags: str = "*",
        sql: str | None = None,
        ordered: bool = False,
        on_empty: Callable[[], None] = lambda: None,
    ) -> None:
        self.queue = queue
        self.waiting: ProcessQueue[StoredMessage] | None = None
        self.committed_offset: int | None = None
        self.begun = asyncio.Event()
        self.stopped = False
        self._requests, self._offsets, self._start, self._options, self._since_ms = source
        self._on_messages = on_messages
        self._on_empty = on_empty
        self._tags = tags
        self._sql = sql
        self._ordered = ordered
        self._has_room = asyncio.Event()
        self._failures = RepeatedText()
        self._task: asyncio.Task[None] | None = None

    def begin(self, settle_s: float = 0.0) -> None:
        """Start to pull after ``settle_s`` seconds, in which a previous owner may commit."""
        self._task = start_task(self._run(settle_s), f"pull of {self.queue}")

    async def stop(self) -> None:
        """Stop pulling."""
        self.stopped = True
        self.begun.set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    def done(self, messages: list[StoredMessage]) -> None:
        """Remove handled messages from those that wait."""
        if self.waiting is not None and not self.stopped:
            self.waiting.done(message.queue_offset for message in messages)
            self._has_room.set()
            if not self.waiting:
                self._on_empty()

    def is_waiting(self, message: StoredMessage) -> bool:
        """Return whether a pulled message is still to be handled: not if the offset was reset meanwhile."""
        return not self.stopped and self.waiting is not None and self.waiting.is_waiting(message.queue_offset)

    def restart(self, queue_offset: int) -> None:
        """Continue at another offset; drop waiting messages and the response to a held pull."""
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
        """The offset that is not committed yet, or None."""
        offset = None if self.waiting is None else self.waiting.commit_offset
        return None if offset == self.committed_offset else offset

    async def _run(self, settle_s: float) -> None:
        await asyncio.sleep(settle_s)
        while self.waiting is None:
            try:
                self.waiting = ProcessQueue(await self._first_offset())
            except CometMQError as error:
                _log.warning("%s: the first offset is not known yet: %s", _name(self.queue), error)
                await asyncio.sleep(AFTER_FAILURE_S)
        self.begun.set()
        while True:
            while self.waiting.is_full(self._options.limits, spans=not self._ordered):
                self._has_room.clear()
                await self._has_room.wait()
            await self._pull(self.waiting)

    async def _first_offset(self) -> int:
        stored = self.committed_offset = await self._offsets.read(self.queue)
        if stored is not None:
            return stored
        return await self._start.offset(self._requests, self.queue, self._since_ms(self.queue))

    async def _pull(self, waiting: ProcessQueue[StoredMessage]) -> None:
        cursor = waiting.cursor
        try:
            pulled = await self._requests.pull_stored(
                QueuePull(
                    self.queue, cursor, self._tags, self._sql, self._options.max_count, self._options.hold_ms
                )
            )
        except CometMQError as error:
            if self._failures.is_due(str(error)):
                _log.warning("%s: a pull at %d failed: %s", _name(self.queue), cursor, error)
            await asyncio.sleep(AFTER_FAILURE_S)
            return
        self._failures.clear()
        self._add(waiting, pulled)

    def _add(self, waiting: ProcessQueue[StoredMessage], pulled: Pulled) -> None:
        """Add pulled messages to those that wait; after an illegal offset continue at the broker's."""
        if pulled.status is PullStatus.OFFSET_ILLEGAL:
            low, high = pulled.min_offset, pulled.max_offset
            was_reset = low <= waiting.cursor <= high
            why = "the offset was reset" if was_reset else f"there is nothing, only from {low} to {high}"
            _log.warning(
                "%s at %d: %s: goes on at %d", _name(self.queue), waiting.cursor, why, pulled.next_offset
            )
            if was_reset or pulled.next_offset < waiting.cursor:
                waiting.restart(pulled.next_offset)  # what waits was pulled under the old truth
            else:
                waiting.put((), pulled.next_offset)  # only what follows is gone
            self.committed_offset = None  # a reset has changed the stored offset
            return
        messages = [_with_origin_topic(message) for message in pulled.messages]
        items = (PulledItem(message.queue_offset, len(message.body), message) for message in messages)
        waiting.put(items, pulled.next_offset)
        if messages:
            self._on_messages(self, messages)


def _with_origin_topic(message: StoredMessage) -> StoredMessage:
    """Replace the topic of a retried message by the one that it was sent to first."""
    if not message.topic.startswith(RETRY_PREFIX):
        return message
    return replace(message, topic=message.properties.get(RETRY_TOPIC, message.topic))


def _name(queue: MessageQueue) -> str:
    return f"{queue.topic} queue {queue.queue_id} of {queue.broker_name}"
