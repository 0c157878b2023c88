"""Delivery of delayed messages when they are due; ``config/delayOffset.json`` holds its offsets.

::

    {"dataVersion": {…}, "offsetTable": {1: 13, 2: 10}}        level → next queue offset of its queue

The time at which a message is due was computed when it was stored, by the levels of then, and is in its queue
entry: it counts whatever the levels are now, even if none is left for its queue.

Messages of one level are due in the order in which they came, so only the first of each queue is examined.
(Where the setting was changed, those after one with a longer delay wait for it.) While none is due nothing
runs: ``wait_ms`` returns how long to wait, and ``on_change`` is called when a message arrives.

A message is appended to its topic before the offset advances, and the offset is saved only when the message
is on the disk: after a crash a message may be delivered twice, but none is lost. Records that are not in
memory are read by the store's threads; only their level waits for them.
(RocketMQ: ScheduleMessageService.java.)
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final, TypeAlias

from cometmq.broker.appending import append_legal
from cometmq.broker.handlers import Handlers
from cometmq.broker.state import table_files
from cometmq.broker.state.changing_table import ChangingTable
from cometmq.broker.state.deleted_topics import DeletedTopics
from cometmq.broker.timed.delays import due
from cometmq.errors import MessageIllegal, StoreNotWritable
from cometmq.format.delay_level import SCHEDULE_TOPIC, DelayLevels, may_be_due
from cometmq.format.java import fastjson
from cometmq.format.record import Record, decode
from cometmq.format.transaction import HALF_TOPIC
from cometmq.logs import get_logger
from cometmq.net.server import Session
from cometmq.store.append import NewMessage
from cometmq.store.clock_steps import STEP_MS
from cometmq.store.read.get_result import GetResult, GetStatus
from cometmq.store.reading import Reading, Run
from cometmq.store.store import MessageStore
from cometmq.store.tables import JsonTable
from cometmq.wire.bodies import DataVersion, DelayOffsets, to_plain
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import NoFields

AT_ONCE_MAX: Final = 32
"""Most messages of a level that are delivered before other work of the loop continues."""
LOOK_AGAIN_MS: Final = 60_000
"""Longest wait before the clocks are compared again: the machine may have slept."""
PAUSE_MS: Final = 1_000
"""Pause before the next try after the disk has refused."""
UNKNOWN: Final = -1
"""No tags code, and no time."""

_Found: TypeAlias = tuple[GetResult, list[int]]
"""Messages of a level, and the tags codes of the entries from the first one's on."""

_log = get_logger(__name__)


class Schedule(ChangingTable[int, int]):
    """The queues of the delay levels, and the offset that is delivered next in each.

    Attributes:
        on_change: called when ``deliver`` has work sooner than ``wait_ms`` returned.
    """

    def __init__(self, store: MessageStore, table: JsonTable) -> None:
        super().__init__(table)
        self._store = store
        self._clock = store.clock
        self._delays = DelayLevels.parse(store.settings.message_delay_level)
        self._levels = list(range(1, self._delays.max_level + 1))
        self._version = DataVersion(timestamp=store.clock.now_ms())
        self._offsets: dict[int, int] = {}
        self._due_ms: dict[int, int] = {}  # of levels whose first message waits, on the monotonic clock
        self._fetching: set[int] = set()
        self._stopped = False
        self._deleted_topics = DeletedTopics(store)
        self._synced = store.wait_flushed()
        self.on_change: list[Callable[[], None]] = []

    def load(self) -> None:
        """Read the table; an offset outside its queue is set to the nearest one in it.

        Raises StoreDamaged if the file holds something else than offsets.
        """
        content = table_files.load(self._table, DelayOffsets)
        if content is not None:
            self._version = content.data_version or self._version
            for level, offset in content.offsets.items():
                queue_id = level - 1
                least = self._store.min_queue_offset(SCHEDULE_TOPIC, queue_id)
                self._offsets[level] = max(
                    least, min(offset, self._store.max_queue_offset(SCHEDULE_TOPIC, queue_id))
                )
            self._add_loaded(self._offsets)
        self._add_former_levels()

    def follow_master(self, offsets: Mapping[int, int]) -> None:
        """Copy the master's offsets, by level: a slave delivers nothing itself."""
        for level, offset in offsets.items():
            if self._offsets.get(level) != offset:
                self._offsets[level] = offset
                self._changes[level] = None

    def deliver(self) -> bool:
        """Deliver the messages that are due; return whether more are due now."""
        now = self._clock.monotonic_ms()
        more = False
        for level in self._levels:
            if level not in self._fetching and now >= self._due_ms.get(level, 0) and self._count(level):
                more |= self._deliver(level)
        return more

    def wait_ms(self) -> int | None:
        """Return how long to wait before the next ``deliver``, ms; None if until a message arrives."""
        first = min(self._due_ms.values(), default=None)
        if first is None:
            return None
        return min(max(first - self._clock.monotonic_ms(), 0), LOOK_AGAIN_MS)

    @property
    def offsets(self) -> Mapping[int, int]:
        """The queue offset that is delivered next, by level; levels without messages are absent."""
        return self._offsets

    def stop(self) -> None:
        """Deliver nothing any more."""
        self._stopped = True

    def take_changed(self) -> dict[int, int | None] | None:
        """Return the offsets that changed since the last call, to be written; None if none did."""
        changes = super().take_changed()
        if changes is not None:
            self._synced = self._store.wait_flushed()
        return changes

    def handlers(self) -> Handlers:
        """Return the handler of each request code."""
        return {
            RequestCode.GET_ALL_DELAY_OFFSET: self.all_offsets,
        }

    def all_offsets(self, _session: Session, command: Command, _header: NoFields) -> Command:
        """GET_ALL_DELAY_OFFSET."""
        return response(command, body=fastjson.dumps(self._whole(self._offsets)).encode())

    def _copy_of(self, name: int) -> int | None:
        return self._offsets.get(name)

    def _plain(self, entry: int) -> int:
        return entry

    def _whole(self, entries: Mapping[int, Any]) -> dict[str, Any]:
        return {"dataVersion": to_plain(self._version), "offsetTable": dict(sorted(entries.items()))}

    def _write(self, content: dict[str, Any]) -> None:
        """Write the table once all messages that were delivered before it was copied are on the disk."""
        self._synced.result()
        super()._write(content)

    def _add_former_levels(self) -> None:
        """Add the levels that have a queue but are not in the setting any more, to deliver their messages."""
        highest = self._delays.max_level
        levels = {queue_id + 1 for topic, queue_id in self._store.queues() if topic == SCHEDULE_TOPIC}
        for level in sorted(level for level in levels if level > highest):
            self._levels.append(level)
            if count := self._count(level):
                _log.warning(
                    "%d messages wait in delay level %d, and messageDelayLevel has %d levels now: "
                    "they are delivered when they are due by the levels of when they were sent",
                    count,
                    level,
                    highest,
                )

    def _count(self, level: int) -> int:
        """Count the messages of a level that wait."""
        return self._store.max_queue_offset(SCHEDULE_TOPIC, level - 1) - self._offsets.get(level, 0)

    def _reading(self, level: int) -> Reading[_Found]:
        """Read the first messages of a level, and the tags codes of their queue entries."""
        queue_id, offset = level - 1, self._offsets.get(level, 0)
        found = yield from self._store.readings.get(SCHEDULE_TOPIC, queue_id, offset, AT_ONCE_MAX)
        count = found.next_offset - offset if found.status is GetStatus.FOUND else 0
        codes = yield from self._store.readings.tags_codes(SCHEDULE_TOPIC, queue_id, offset, count)
        return found, codes

    def _deliver(self, level: int) -> bool:
        """Deliver the messages of one level that are due; return whether more may be due now."""
        self._due_ms.pop(level, None)
        run = Run(self._reading(level))
        if not run.go_on():
            self._fetch(level, run)
            return False
        return self._deliver_found(level, run.answer)

    def _fetch(self, level: int, run: Run[_Found]) -> None:
        """Read in a thread what is not in memory."""
        loop = asyncio.get_running_loop()
        self._fetching.add(level)
        future = self._store.fetch(run.step)
        future.add_done_callback(lambda done: loop.call_soon_threadsafe(self._fetched, level, run, done))

    def _fetched(self, level: int, run: Run[_Found], future: "Future[Any]") -> None:
        """Continue a reading in the loop."""
        self._fetching.remove(level)
        if self._stopped or future.cancelled():
            return
        try:
            is_read = run.go_on(future.result())
        except OSError as error:
            _log.error("delayed messages of level %d cannot be read, to be tried again: %s", level, error)
            self._try_later(level)
        else:
            if not is_read:
                self._fetch(level, run)
                return
            if self._deliver_found(level, run.answer):
                self._deliver(level)
        for action in self.on_change:
            action()

    def _deliver_found(self, level: int, answer: _Found) -> bool:
        """Deliver those of the found messages that are due; return whether more may be due."""
        found, codes = answer
        offset = self._offsets.get(level, 0)
        if found.status is not GetStatus.FOUND:
            if found.next_offset == offset:
                self._try_later(level)
                return False
            self._move(level, found.next_offset)  # retention removed what waited, or the log lost its end
            return self._count(level) > 0
        messages: list[NewMessage] = []
        next_offset = found.next_offset
        for waiting in map(decode, found.records):
            place = waiting.queue_offset - offset
            wait_ms = self._wait_of(waiting, level, codes[place] if 0 <= place < len(codes) else UNKNOWN)
            if wait_ms > 0:
                self._due_ms[level] = self._clock.monotonic_ms() + wait_ms
                next_offset = waiting.queue_offset
                break
            if not self._deleted_topics.has_topic_of(waiting):
                messages += _due_message(waiting)
        if messages and not self._append(messages):
            self._try_later(level)
            return False
        if next_offset != offset:
            self._move(level, next_offset)
        return level not in self._due_ms and self._count(level) > 0

    def _wait_of(self, waiting: Record, level: int, tags_code: int) -> int:
        """Return how long a message has yet to wait, ms.

        What counts is the time that has passed since it was stored, however the wall clock was set in
        between. A store time in the future is from before this process started: the message waits no longer.
        """
        passed_ms = self._clock.now_ms() - waiting.store_time - self._clock.since(waiting.physical_offset)
        if passed_ms <= -STEP_MS:
            return 0
        if may_be_due(tags_code, waiting.store_time):
            delay_ms = tags_code - waiting.store_time
        else:  # the entry has no due time: a Java broker wrote it, and its extension unit is lost
            delay_ms = self._delays.delays_ms[level - 1] if level <= self._delays.max_level else 0
        return min(delay_ms, delay_ms - passed_ms)

    def _try_later(self, level: int) -> None:
        """Postpone a level because the disk has refused."""
        self._due_ms[level] = self._clock.monotonic_ms() + PAUSE_MS

    def _append(self, messages: list[NewMessage]) -> bool:
        """Append messages to their topics; return False if the store takes none now."""
        try:
            append_legal(self._store.append, messages, _log_illegal)
        except StoreNotWritable as error:
            _log.warning("delayed messages wait on: %s", error)
            return False
        return True

    def _move(self, level: int, offset: int) -> None:
        self._offsets[level] = offset
        self._changes[level] = None


def _log_illegal(message: NewMessage, error: MessageIllegal) -> None:
    _log.error("a delayed message for %s cannot be delivered: %s", message.topic, error)


def _due_message(waiting: Record) -> list[NewMessage]:
    """Return the message for its consumers in a list, empty if the record does not name its topic."""
    try:
        message = due(waiting)
    except MessageIllegal as error:
        _log.error("the delayed message at %d cannot be delivered: %s", waiting.physical_offset, error)
        return []
    if message is None or message.topic == HALF_TOPIC:
        _log.error("the delayed message at %d does not say for which topic it is", waiting.physical_offset)
        return []
    return [message]
