"""Gives delayed messages to their topics when they are due: ``config/delayOffset.json`` says how far it is.

::

    {"dataVersion": {…}, "offsetTable": {1: 13, 2: 10}}        level → next queue offset of its queue

Messages of one level are due in the order in which they came, so only the first of each queue is looked at.
A message is appended to its topic before the offset moves on, and the offset is saved only when what was
appended before is on the disk: after a crash a message may come twice, but none is lost. What is not in
memory is fetched by the store's threads; its level waits for it, and nothing else does.
(RocketMQ: ScheduleMessageService.java.)
"""

import asyncio
import logging
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Final

from cometmq.broker import saved
from cometmq.broker.changing_table import ChangingTable
from cometmq.broker.delayed import due
from cometmq.broker.topics import HALF_TOPIC
from cometmq.errors import MessageIllegal, StoreNotWritable
from cometmq.format import fastjson
from cometmq.format.delay_level import SCHEDULE_TOPIC, DelayLevels
from cometmq.format.record import Record, decode
from cometmq.io.clock import Clock
from cometmq.net.server import Session
from cometmq.store.append import NewMessage
from cometmq.store.get_result import GetResult, GetStatus
from cometmq.store.reading import Run
from cometmq.store.store import MessageStore
from cometmq.store.tables import JsonTable
from cometmq.wire.bodies import DataVersion, DelayOffsets, to_plain
from cometmq.wire.frame import Command, response

AT_ONCE_MAX: Final = 32
"""So many messages of a level are given out before others have their turn."""

_log = logging.getLogger(__name__)


class Schedule(ChangingTable):
    """The levels' queues, and how far each has been given out."""

    def __init__(self, store: MessageStore, table: JsonTable, clock: Clock) -> None:
        super().__init__(table)
        self._store = store
        self._clock = clock
        self._levels = DelayLevels.parse(store.settings.message_delay_level)
        self._version = DataVersion(timestamp=clock.now_ms())
        self._offsets: dict[int, int] = {}
        self._due_ms: dict[int, int] = {}
        self._fetching: set[int] = set()
        self._stopped = False
        self._synced = store.wait_flushed()

    def load(self) -> None:
        """Read the table; no offset may lie outside its queue.

        Raises StoreDamaged if the file holds something else than offsets.
        """
        content = saved.load(self._table, DelayOffsets)
        if content is None:
            return
        self._version = content.data_version or self._version
        for level, offset in content.offsets.items():
            queue_id = level - 1
            least = self._store.min_queue_offset(SCHEDULE_TOPIC, queue_id)
            self._offsets[level] = max(
                least, min(offset, self._store.max_queue_offset(SCHEDULE_TOPIC, queue_id))
            )

    def deliver(self) -> bool:
        """Give out what is due; tell whether there is more of it now."""
        now = self._clock.now_ms()
        more = False
        for level in range(1, self._levels.max_level + 1):
            if now >= self._due_ms.get(level, 0) and level not in self._fetching:
                more |= self._deliver(level, now)
        return more

    @property
    def offsets(self) -> Mapping[int, int]:
        """Which queue offset of each level is given out next; a level without messages is left out."""
        return self._offsets

    def stop(self) -> None:
        """Give out nothing any more."""
        self._stopped = True

    def take_changed(self) -> dict[str, Any] | None:
        """Give a copy to write if anything was given out since the last time."""
        copy = super().take_changed()
        if copy is not None:
            self._synced = self._store.wait_flushed()
        return copy

    def as_plain(self) -> dict[str, Any]:
        """Give a copy of the table in RocketMQ's form."""
        return {"dataVersion": to_plain(self._version), "offsetTable": dict(sorted(self._offsets.items()))}

    def all_offsets(self, _: Session, command: Command) -> Command:
        """GET_ALL_DELAY_OFFSET."""
        return response(command, body=fastjson.dumps(self.as_plain()).encode())

    def _write(self, copy: dict[str, Any]) -> None:
        """Write a copy once what was given out till then is on the disk."""
        self._synced.result()
        super()._write(copy)

    def _deliver(self, level: int, now: int) -> bool:
        """Give out what is due of one level; tell whether there may be more now."""
        offset = self._offsets.get(level, 0)
        run = Run(self._store.readings.get(SCHEDULE_TOPIC, level - 1, offset, AT_ONCE_MAX))
        if not run.go_on():
            self._fetch(level, run)
            return False
        return self._give_out(level, run.answer, now)

    def _fetch(self, level: int, run: Run[GetResult]) -> None:
        """Have a thread fetch what is not in memory."""
        loop = asyncio.get_running_loop()
        self._fetching.add(level)
        future = self._store.fetch(run.step)
        future.add_done_callback(lambda done: loop.call_soon_threadsafe(self._fetched, level, run, done))

    def _fetched(self, level: int, run: Run[GetResult], future: "Future[Any]") -> None:
        """Go on in the loop."""
        self._fetching.remove(level)
        if self._stopped or future.cancelled():
            return
        try:
            is_read = run.go_on(future.result())
        except OSError as error:
            _log.error("delayed messages of level %d cannot be read, to be tried again: %s", level, error)
            return
        if not is_read:
            self._fetch(level, run)
        elif self._give_out(level, run.answer, self._clock.now_ms()):
            self._deliver(level, self._clock.now_ms())

    def _give_out(self, level: int, found: GetResult, now: int) -> bool:
        """Give out what is due of what was found; tell whether there may be more."""
        offset = self._offsets.get(level, 0)
        if found.status is not GetStatus.FOUND:
            if found.next_offset != offset:  # retention removed what waited there, or the log lost its end
                self._move(level, found.next_offset)
            return False
        messages: list[NewMessage] = []
        next_offset = offset
        for waiting in map(decode, found.records):
            due_ms = self._due_time(waiting, level, now)
            if due_ms > now:
                self._due_ms[level] = due_ms
                break
            messages += _message_of(waiting)
            next_offset = waiting.queue_offset + 1
        if next_offset == offset or (messages and not self._append(messages)):
            return False
        self._move(level, next_offset)
        return next_offset == found.next_offset

    def _due_time(self, waiting: Record, level: int, now: int) -> int:
        """Give when a message is due; at once if the clock was put back since it came."""
        delay_ms = self._levels.delays_ms[level - 1]
        return now if waiting.store_time > now else waiting.store_time + delay_ms

    def _append(self, messages: list[NewMessage]) -> bool:
        """Append messages to their topics; False if the store takes none now."""
        try:
            self._store.append(messages)
        except StoreNotWritable as error:
            _log.warning("delayed messages wait on: %s", error)
            return False
        except MessageIllegal as error:
            if len(messages) > 1:  # one of them is to blame, the others are not
                return all(self._append([message]) for message in messages)
            _log.error("a delayed message for %s cannot be given out: %s", messages[0].topic, error)
        return True

    def _move(self, level: int, offset: int) -> None:
        self._offsets[level] = offset
        self._changed = True


def _message_of(waiting: Record) -> list[NewMessage]:
    """Give the message for its consumers: one, or none if it does not say for whom it is."""
    try:
        message = due(waiting)
    except MessageIllegal as error:
        _log.error("the delayed message at %d cannot be given out: %s", waiting.physical_offset, error)
        return []
    if message is None or message.topic == HALF_TOPIC:
        _log.error("the delayed message at %d does not say for which topic it is", waiting.physical_offset)
        return []
    return [message]
