"""Timed messages: put from the timer topic into the store's timer, and delivered when they are due.

They are appointments: each waits for a time of the wall clock, which its sender named, or which the broker
computed when it came, and stored. So when the wall clock is set, they follow it, as those of RocketMQ do:
set back by an hour, all come an hour later; set ahead, those that were due in that hour come now.

A slot's messages are appended to their topics before the slot counts as done, and that is saved only when
they are on the disk: after a crash a message may be delivered twice, but none is lost. Records that are not
in memory are read by the store's threads. (RocketMQ: TimerMessageStore.java.)
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count, islice, takewhile
from typing import Any, Final

from cometmq.broker.appending import append_legal
from cometmq.broker.reads import read
from cometmq.broker.state.deleted_topics import DeletedTopics
from cometmq.broker.timed.delays import QUEUE_ID, recall_name, recalled_by, timer_due, timer_entry
from cometmq.cluster.pop.settled import SettledPoints
from cometmq.errors import CometMQError, MessageIllegal, StoreNotWritable
from cometmq.format.record import PHYSICAL_OFFSET_AT, QUEUE_OFFSET_AT, SYS_FLAG_AT, Record, decode, read_head
from cometmq.format.timer.checkpoint import TimerCheckpoint
from cometmq.format.timer.log import DELETE, ROLL, TIMER_TOPIC, Unit
from cometmq.format.timer.wheel import Slot
from cometmq.format.transaction import HALF_TOPIC
from cometmq.io.clock import Clock
from cometmq.logs import get_logger
from cometmq.store.append import NewMessage
from cometmq.store.read.get_result import GetStatus
from cometmq.store.store import MessageStore
from cometmq.store.timer.timer import Timer

ADDS_PER_SLOT: Final = 10
"""How often new messages are added in a slot's time at most, as RocketMQ does: many together cost less."""
ADDS_AT_ONCE: Final = 8
"""How often new messages are added before other work of the loop continues. It brings new ones: if it came in
between each time, no round would end under load."""
AT_ONCE_MAX: Final = 32
"""Most messages that are delivered before other work of the loop continues."""
SETTLING_MS: Final = 200
"""For so long a check point is held back from the timer: its messages are likely acknowledged meanwhile."""
MADE_BEFORE_MS: Final = 100
"""So long before it is stored a message may have been made: one behind a held one may be due since then."""
LOOK_AGAIN_MS: Final = 10_000
"""Longest wait, while there are messages, before the wall clock is read again: it may have been set."""
PAUSE_MS: Final = 1_000
"""Pause after a round that failed."""

_log = get_logger(__name__)


class TimedMessages:
    """Moves timed messages into the timer, and delivers them when they are due.

    Attributes:
        settled: which messages, by their places in the log, need not wait or be delivered.
    """

    def __init__(self, store: MessageStore, timer: Timer, clock: Clock, settled: SettledPoints[Any]) -> None:
        self._store = store
        self._timer = timer
        self._clock = clock
        self._slot: Slot | None = None
        self._left: deque[Unit] | None = None
        self._recalled: set[str] = set()  # by the messages of ``_slot``, by name: see ``recall_name``
        self._not_before_ms = 0
        self._delivered_end = 0  # the log's offset behind the message that was delivered last
        self._late: dict[int, int] = {}  # slot in which late messages wait → the least of their own times
        self._mark = 0, 0  # the end of the log at some time, and that time
        self._delivered_ms: int | None = None
        self._stopped = False
        self._deleted_topics = DeletedTopics(store)
        self._add_again_ms = 0  # of the monotonic clock
        self._held_ms: int | None = None  # when the message was stored that is held back, with all behind it
        self._settled = settled

    async def load(self) -> None:
        """Load the timer, and find its next message in the timer topic. Raises StoreDamaged or OSError."""
        last = await asyncio.to_thread(self._timer.load, self._store.written_offset)
        queue_offset = self._timer.queue_offset
        if last is not None and (waiting := await self._read(last)) is not None:
            queue_offset = max(queue_offset, waiting.queue_offset + 1)
        self._timer.put([], min(queue_offset, self._end), self._clock.now_ms())
        self._late = {self._clock.now_ms(): 0}  # a former broker's slots may hold such messages

    async def follow_master(self, checkpoint: TimerCheckpoint) -> None:
        """Copy how far the master has delivered: a slave delivers nothing itself. Raises OSError."""
        saved = self._timer.saved
        if (checkpoint.read_time, checkpoint.queue_offset) != (saved.read_time, saved.queue_offset):
            await asyncio.to_thread(self._timer.adopt, checkpoint)

    def wait_ms(self) -> int | None:
        """Return how long to wait before the next round, ms; None if until a message arrives."""
        monotonic_ms, waits = self._clock.monotonic_ms(), [LOOK_AGAIN_MS]
        if self._slot is not None:
            waits.append(0)
        elif (time := self._timer.next_time()) is not None:
            waits.append(time + self._store.settings.timer_precision_ms - self._clock.now_ms())
        if self._timer.queue_offset != self._end:
            waits.append(self._add_again_ms - monotonic_ms)
        elif len(waits) == 1:
            return None
        return max(min(waits), self._not_before_ms - monotonic_ms, 0)

    def delivered_ms(self) -> int | None:
        """Return the time, ms since the epoch, up to which everything is delivered and can be read.

        That is all that was due by then and had been stored before; None if that is not known.
        """
        self._find_delivered()
        is_set_back = self._delivered_ms is not None and self._delivered_ms > self._clock.now_ms()
        return None if is_set_back else self._delivered_ms

    def _find_delivered(self) -> None:
        """Find up to which time everything is delivered, if the timer has nothing else to do right now."""
        if self._slot is not None or self._store.dispatched_offset < self._delivered_end:
            return
        if (stored_ms := self._find_stored()) is None:
            return
        next_ms = self._timer.next_time()
        self._late = {
            slot: time for slot, time in self._late.items() if next_ms is not None and slot >= next_ms
        }
        self._delivered_ms = min([stored_ms, *self._late.values(), *([] if next_ms is None else [next_ms])])

    def _find_stored(self) -> int | None:
        """Return a time, ms since the epoch: all that was stored before is in the timer; None if unknown."""
        if self._timer.queue_offset != self._end:
            return None if self._held_ms is None else self._held_ms - MADE_BEFORE_MS
        readable, written = self._store.dispatched_offset, self._store.written_offset
        marked_offset, marked_ms = self._mark
        if readable < marked_offset:
            return None
        now_ms = self._clock.now_ms()
        self._mark = written, now_ms
        return now_ms if readable == written else marked_ms

    @property
    def checkpoint(self) -> TimerCheckpoint:
        """The timer's checkpoint as it was saved last."""
        return self._timer.saved

    @property
    def count(self) -> int:
        """The number of messages that wait in the timer."""
        return sum(slot.unit_count for slot in self._timer.waiting())

    @property
    def behind(self) -> int:
        """The number of messages of the timer topic that are not in the timer yet."""
        return max(self._end - self._timer.queue_offset, 0)

    @property
    def next_ms(self) -> int | None:
        """When the next message can be delivered, ms since the epoch; None if none waits."""
        time = self._timer.next_time()
        return None if time is None else time + self._store.settings.timer_precision_ms

    def counting(self) -> Callable[[], Counter[int]]:
        """Return a function for any thread that counts waiting messages by their topics' hashes."""
        return partial(self._timer.count_by_topic, self._timer.waiting())

    async def round(self) -> None:
        """Add new messages to the timer, but for those that are held back, and deliver all that are due.

        A failed round can be repeated.

        Raises OSError or CometMQError.
        """
        try:
            for adds in count(1):
                if self._stopped or not await self._add_new():
                    break
                if adds % ADDS_AT_ONCE == 0:
                    await asyncio.sleep(0)  # others have their turn
            interval_ms = self._store.settings.timer_precision_ms // ADDS_PER_SLOT
            self._add_again_ms = self._clock.monotonic_ms() + interval_ms
            while not self._stopped and await self._deliver():
                pass
            self._find_delivered()
        except (OSError, CometMQError):
            self._pause()
            raise

    def stop(self) -> None:
        """Deliver nothing any more."""
        self._stopped = True

    async def save(self) -> None:
        """Save the timer's progress once all messages that were delivered before are on the disk.

        Raises OSError or StoreNotWritable.
        """
        if (changes := self._timer.take_changes(self._clock.now_ms())) is None:
            return
        try:
            await asyncio.wrap_future(self._store.wait_flushed())
            await asyncio.to_thread(self._timer.save, changes)
        except (OSError, StoreNotWritable):
            self._timer.restore_changes(changes)
            raise
        if expired := self._timer.expired(self._store.min_offset):
            await asyncio.to_thread(self._timer.remove, expired)

    def close(self) -> None:
        """Save the timer's progress and close its files, blocking. Raises OSError or StoreNotWritable."""
        try:
            if (changes := self._timer.take_changes(self._clock.now_ms())) is not None:
                self._store.wait_flushed().result()
                self._timer.save(changes)
        finally:
            self._timer.close()

    def _pause(self) -> None:
        """Postpone the next round."""
        self._not_before_ms = self._clock.monotonic_ms() + PAUSE_MS

    @property
    def _end(self) -> int:
        return self._store.max_queue_offset(TIMER_TOPIC, QUEUE_ID)

    async def _add_new(self) -> bool:
        """Add some messages of the timer topic to the timer; return whether there may be more."""
        offset, self._held_ms = self._timer.queue_offset, None
        if offset == self._end:
            return False
        if offset > self._end:  # the topic was recreated
            self._timer.put([], self._store.min_queue_offset(TIMER_TOPIC, QUEUE_ID), self._clock.now_ms())
            return True
        found = await read(self._store, self._store.readings.get(TIMER_TOPIC, QUEUE_ID, offset, AT_ONCE_MAX))
        if found.status is not GetStatus.FOUND and found.next_offset <= offset:
            self._pause()
            return False
        now_ms = self._clock.now_ms()
        records = {_place(data): data for data in found.records}
        next_offset = found.next_offset
        if (held := self._held_back(records, now_ms)) is not None:
            next_offset = _queue_offset(records[held])
            records = dict(takewhile(lambda record: record[0] != held, records.items()))
        needless = self._settled.needless(records)
        entries = [timer_entry(data) for place, data in records.items() if place not in needless]
        self._timer.put(entries, next_offset, now_ms)
        self._settled.pass_over(needless)
        slot_ms = now_ms - now_ms % self._store.settings.timer_precision_ms
        if late := [entry.time for entry in entries if entry.time < slot_ms]:
            self._late[slot_ms] = min([self._late.get(slot_ms, slot_ms), *late])
        return held is None

    def _held_back(self, records: Mapping[int, bytes], now_ms: int) -> int | None:
        """Return the place of the record that is to wait before it is added, with all behind it.

        Args:
            records: those of the timer topic by their places, in their order.
        """
        for place in filter(self._settled.is_open, records):
            stored_ms = read_head(records[place], 0).store_time
            if 0 <= now_ms - stored_ms < SETTLING_MS:
                self._held_ms = stored_ms
                return place
        return None

    async def _deliver(self) -> bool:
        """Deliver some messages that are due; return whether there may be more."""
        self._slot = self._slot or self._timer.take(self._clock.now_ms())
        if self._slot is None:
            return False
        left = self._left = self._left if self._left is not None else await self._units(self._slot)
        units = list(islice(left, AT_ONCE_MAX))
        self._append([message for unit in units for message in await self._message(unit)])
        for _ in units:
            left.popleft()
        if not left:
            self._timer.mark_done()
            self._slot = self._left = None
        await asyncio.sleep(0)  # others have their turn
        return True

    async def _units(self, slot: Slot) -> deque[Unit]:
        """Return the units of a slot whose messages are to be delivered, and remember which are recalled."""
        units = await asyncio.to_thread(self._timer.units, slot)
        records = [await self._read(unit) for unit in units if _is_recall(unit)]
        self._recalled = {name for record in records if record is not None for name in recalled_by(record)}
        come_due = self._settled.come_due
        return deque(unit for unit in units if not (_is_recall(unit) or come_due(unit.physical_offset)))

    async def _message(self, unit: Unit) -> list[NewMessage]:
        """Return the message to deliver of a unit in a list, empty if there is none or it is recalled."""
        waiting = await self._read(unit)
        if (
            waiting is None
            or (self._recalled and recall_name(waiting) in self._recalled)
            or self._deleted_topics.has_topic_of(waiting)
        ):
            return []
        try:
            message = timer_due(waiting, unit, self._clock.now_ms())
        except MessageIllegal as error:
            _log.error("the timed message at %d cannot be delivered: %s", unit.physical_offset, error)
            return []
        if message is None or message.topic == HALF_TOPIC:
            _log.error("the timed message at %d does not say for which topic it is", unit.physical_offset)
            return []
        return [message]

    async def _read(self, unit: Unit) -> Record | None:
        """Read the record of a unit's timed message; None if it is gone."""
        data = await read(self._store, self._store.readings.record(unit.physical_offset))
        waiting = None if data is None else decode(data)
        if waiting is None or waiting.topic != TIMER_TOPIC:
            _log.error("there is no timed message at %d any more", unit.physical_offset)
            return None
        return waiting

    def _append(self, messages: Sequence[NewMessage]) -> None:
        """Append messages to their topics. Raises StoreNotWritable."""
        append_legal(self._store.append, messages, _log_illegal)
        if messages:
            self._delivered_end = self._store.written_offset


def _log_illegal(message: NewMessage, error: MessageIllegal) -> None:
    _log.error("a timed message for %s cannot be delivered: %s", message.topic, error)


def _place(data: bytes) -> int:
    """Return where in the log a record says that it is."""
    return int.from_bytes(data[PHYSICAL_OFFSET_AT:SYS_FLAG_AT], "big")


def _queue_offset(data: bytes) -> int:
    """Return the queue offset in a record."""
    return int.from_bytes(data[QUEUE_OFFSET_AT:PHYSICAL_OFFSET_AT], "big")


def _is_recall(unit: Unit) -> bool:
    """Check whether a unit's message recalls another one of its slot: one that is to roll does not yet."""
    return bool(unit.magic & DELETE) and not unit.magic & ROLL
