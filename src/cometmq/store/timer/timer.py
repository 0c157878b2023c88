"""The timer: messages by the time they are due, in a wheel of slots whose messages the timer log chains.

::

    timer topic's queue   … 17 18 19          put     timer log    … unit ◄─ unit ◄─ unit
                               └ queue_offset ───►    timer wheel  slot of a second: its last unit
                                                                        └ due ───► delivered

All of it can be rebuilt from the timer topic. The order of writes is log, wheel, checkpoint; units behind the
checkpoint are added to the wheel again at the next start. A slot is cleared once its delivered messages are
on the disk.

Source: RocketMQ ``store/timer/TimerMessageStore.java``.
"""

import heapq
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from cometmq.errors import FormatError
from cometmq.format import layout
from cometmq.format.java.java_hash import topic_hash
from cometmq.format.timer import wheel as timer_wheel
from cometmq.format.timer.checkpoint import SIZE as CHECKPOINT_SIZE
from cometmq.format.timer.checkpoint import TimerCheckpoint
from cometmq.format.timer.log import DEFAULT, DELETE, NO_PREVIOUS, ROLL, Unit
from cometmq.format.timer.log import SIZE as UNIT_SIZE
from cometmq.format.timer.wheel import Slot
from cometmq.io.files import File
from cometmq.io.open_files import OpenFiles
from cometmq.logs import get_logger
from cometmq.store.settings import StoreSettings
from cometmq.store.timer.timer_log import TimerLog

EMPTY: Final = Slot(0, NO_PREVIOUS, NO_PREVIOUS, 0)
READ_TIME_LATE_MS: Final = 60_000
"""How far the checkpoint's time may lag behind while nothing else has changed."""

_log = get_logger(__name__)


class Timed(NamedTuple):
    """A timed message.

    Attributes:
        time: when it is due, ms since the epoch.
        physical_offset: CommitLog offset of its record in the timer topic.
        topic: the topic that it is delivered to.
        is_delete: whether it recalls another one.
    """

    time: int
    physical_offset: int
    record_size: int
    topic: str
    is_delete: bool


class Changes(NamedTuple):
    """Changes to save: see ``Timer.take_changes``."""

    slots: dict[int, Slot]
    log_paths: set[Path]
    checkpoint: TimerCheckpoint


class Timer:
    """The timer of a store. One thread owns it; some methods are safe from any thread, as they say.

    Args:
        root: the store's directory.

    Attributes:
        queue_offset: queue offset in the timer topic before which all messages have been put.
    """

    def __init__(self, files: OpenFiles, root: Path, settings: StoreSettings) -> None:
        self._files = files
        self._wheel_path = layout.timer_wheel_path(root)
        self._checkpoint_path = layout.timer_checkpoint_path(root)
        self._log = TimerLog(files, layout.timer_log_dir(root), settings.mapped_file_size_timer_log)
        self._precision_ms = settings.timer_precision_ms
        self._window = settings.timer_roll_window
        self._slots: dict[int, Slot] = {}
        self._times: list[int] = []
        self._changed: set[int] = set()
        self._taken: Slot | None = None
        self._is_loaded = False
        self._rebuilt_to = 0, 0  # of a rebuild: queue offset and read time that were reached before it
        self._saved = TimerCheckpoint()
        self.queue_offset = 0

    def load(self, log_end: int) -> Unit | None:
        """Load the files, for messages before ``log_end`` of the CommitLog.

        Returns the log's last unit if it is behind the checkpoint: all messages up to its own have been put.
        If the files do not match, ``queue_offset`` is 0: the whole timer topic must be put again, and
        delivered messages are skipped then. Raises StoreDamaged or OSError.
        """
        self._log.load()
        saved = self._load_checkpoint()
        self._saved = saved or TimerCheckpoint()
        self.queue_offset = self._saved.queue_offset
        slots = self._load_slots()
        self._slots = slots or {}
        last = self._replay(log_end)
        is_lost = saved is None or (slots is None and self.queue_offset > 0)
        if is_lost or not all(map(self._is_in_log, self._slots.values())):
            self._reset()
            last = None
        self._times = sorted(self._slots)
        self._files.drop_pages()
        self._is_loaded = True
        return last

    def put(self, waiting: Sequence[Timed], next_queue_offset: int, now_ms: int) -> None:
        """Add messages, in their order in the timer topic, and set ``queue_offset`` to ``next_queue_offset``.

        A message that is due already becomes due when this second has passed, or together with others of its
        own second that still wait: it may recall one of them. Raises OSError; then none is added.
        """
        now = now_ms // self._precision_ms
        if self._taken is not None:
            now = max(now, self._taken.time + 1)
        rebuilt_offset, delivered_time = self._rebuilt_to
        if next_queue_offset <= rebuilt_offset:
            waiting = [message for message in waiting if message.time >= delivered_time]
        slots: dict[int, Slot] = {}
        units = []
        positions = self._log.next_positions(len(waiting))
        for message, position in zip(waiting, positions, strict=True):
            written, time, magic = self._times_of(message, now)
            slot = slots.get(time) or self._slots.get(time) or EMPTY
            unit = Unit(
                slot.last,
                magic,
                written * self._precision_ms,
                (time - written) * self._precision_ms,
                message.physical_offset,
                message.record_size,
                topic_hash(message.topic),
            )
            units.append(unit)
            slots[time] = _with(slot, time, position, unit)
        if units:
            self._log.append(positions, units)
        for time in slots.keys() - self._slots.keys():
            heapq.heappush(self._times, time)
        self._slots |= slots
        self._changed |= slots.keys()
        self.queue_offset = next_queue_offset

    def next_time(self) -> int | None:
        """Return the next time at which messages are due, ms since the epoch; None without messages."""
        return self._times[0] * self._precision_ms if self._times else None

    @property
    def saved(self) -> TimerCheckpoint:
        """The checkpoint as it was saved last."""
        return self._saved

    def waiting(self) -> list[Slot]:
        """Return the slots of the messages that wait, those that are being delivered first."""
        taken = [] if self._taken is None else [self._taken]
        return taken + list(self._slots.values())

    def count_by_topic(self, slots: Sequence[Slot]) -> Counter[int]:
        """Count the messages of slots by their topics' hashes; one that recalls another counts as -1.

        Reads each from the log. Safe from any thread. Raises OSError.
        """
        counts: Counter[int] = Counter()
        for slot in slots:
            for unit in self.units(slot):
                counts[unit.topic_hash] += -1 if unit.magic & DELETE else 1
        return counts

    def take(self, now_ms: int) -> Slot | None:
        """Remove and return the next slot whose time has passed, or None; ``mark_done`` must follow it."""
        assert self._taken is None, f"the slot of {self._taken} is not delivered yet"
        if not self._times or self._times[0] >= now_ms // self._precision_ms:
            return None
        self._taken = self._slots.pop(heapq.heappop(self._times))
        return self._taken

    def units(self, slot: Slot) -> list[Unit]:
        """Read the units of a slot, in their order; waits for the disk. Safe from any thread.

        Raises OSError.
        """
        return self._log.chained(slot.last)

    def mark_done(self) -> None:
        """Mark the slot that was taken as delivered."""
        assert self._taken is not None, "no slot was taken"
        self._changed.add(self._taken.time)
        self._taken = None

    def take_changes(self, now_ms: int) -> Changes | None:
        """Return the changes since the last call for ``save``, or None; if that fails, restore them.

        They may be saved once all messages delivered until now are on the disk.
        """
        read_time = self._read_time(now_ms)
        is_late = read_time - self._saved.read_time > READ_TIME_LATE_MS
        if not self._is_loaded:
            return None  # the files are not read yet and must stay as they are
        if not self._changed and self.queue_offset == self._saved.queue_offset and not is_late:
            return None
        changed, self._changed = self._changed, set()
        slots = {time: self._slots.get(time, EMPTY) for time in changed}
        if self._taken is not None and self._taken.time in slots:
            slots[self._taken.time] = self._taken
        checkpoint = TimerCheckpoint(
            read_time,
            self._log.end,
            self.queue_offset,
            self.queue_offset,
            timestamp=now_ms,
            counter=self._saved.counter + 1,
        )
        return Changes(slots, self._log.take_unsynced(), checkpoint)

    def save(self, changes: Changes) -> None:
        """Save changes and wait for the disk. Safe from any thread. Raises OSError.

        Slots are written in the order of their times: if a kill interrupts that, some come again, and all
        later ones with them.
        """
        layer = self._files.layer
        layer.sync_all(changes.log_paths)
        if changes.slots:
            wheel = self._file(self._wheel_path, timer_wheel.SIZE)
            for time, slot in sorted(changes.slots.items()):
                wheel.write(timer_wheel.position_of(time), slot.pack())
            layer.sync(self._wheel_path)
        self._file(self._checkpoint_path, CHECKPOINT_SIZE).write(0, changes.checkpoint.pack())
        layer.sync(self._checkpoint_path)
        self._saved = changes.checkpoint

    def adopt(self, checkpoint: TimerCheckpoint) -> None:
        """Save how far a master's timer is, for a broker that may later deliver in its place.

        Without a wheel and a log the next ``load`` puts the whole timer topic, and skips what the master had
        delivered. Safe from any thread. Raises OSError.
        """
        self.save(Changes({}, set(), checkpoint._replace(log_position=0)))

    def restore_changes(self, changes: Changes) -> None:
        """Restore changes that could not be saved, for the next ``take_changes``."""
        self._changed |= changes.slots.keys()
        self._log.add_unsynced(changes.log_paths)

    def expired(self, physical_offset: int) -> list[Path]:
        """Detach the timer log's files of messages before a CommitLog offset; return them for ``remove``."""
        return self._log.expired(physical_offset)

    def remove(self, paths: Sequence[Path]) -> None:
        """Remove expired files. Safe from any thread. Raises OSError."""
        for path in paths:
            self._files.layer.remove(path)

    def close(self) -> None:
        """Close the files."""
        self._files.close()

    def _read_time(self, now_ms: int) -> int:
        """Return the time before which all messages are delivered, ms since the epoch."""
        if self._taken is not None:
            return self._taken.time * self._precision_ms
        now = now_ms // self._precision_ms
        return min([now, *self._times[:1]]) * self._precision_ms

    def _times_of(self, message: Timed, now: int) -> tuple[int, int, int]:
        """Return when a message's unit counts as written, its slot, and its magic.

        Both times are in units of the precision, as ``now`` is.
        """
        time, magic = message.time // self._precision_ms, DEFAULT
        if time in self._slots:
            now = min(now, time)
        time = max(time, now)
        beyond = time - now - self._window
        if beyond >= 0:  # it waits in stages, of which the last must not be too short
            magic |= ROLL
            time = now + (self._window // 2 if beyond < self._window // 3 else self._window)
        if message.is_delete:
            magic |= DELETE
        return now, time, magic

    def _replay(self, log_end: int) -> Unit | None:
        """Add the log's units behind the checkpoint to the wheel; return the last one. Raises OSError."""
        last, end = None, self._saved.log_position
        for position, unit in self._log.units(end):
            if unit.physical_offset >= log_end:
                break
            last, end = unit, position + UNIT_SIZE
            time = unit.time // self._precision_ms
            slot = self._slots.get(time, EMPTY)
            if unit.time >= self._saved.read_time and slot.last < position:
                self._slots[time] = _with(slot, time, position, unit)
                self._changed.add(time)
        self._log.cut(end)
        return last

    def _load_checkpoint(self) -> TimerCheckpoint | None:
        path, layer = self._checkpoint_path, self._files.layer
        if not layer.exists(path):
            return None
        try:
            return TimerCheckpoint.unpack(layer.load(path))
        except FormatError as error:
            _log.warning("%s: %s; all messages in the timer topic are delivered once more", path, error)
            layer.remove(path)
            return None

    def _load_slots(self) -> dict[int, Slot] | None:
        """Return the slots that are not due yet; None without a wheel of this precision. Raises OSError."""
        path, layer = self._wheel_path, self._files.layer
        if layer.exists(path) and layer.size(path) != timer_wheel.SIZE:
            layer.remove(path)
        if not layer.exists(path):
            return None
        read_time = self._saved.read_time // self._precision_ms
        slots = timer_wheel.slots(self._files.get(path).view())
        newest = max(slots, default=EMPTY)
        if (unit := self._log.unit(newest.last)) and unit.time // self._precision_ms != newest.time:
            return None
        return {slot.time: slot for slot in slots if slot.time >= read_time}

    def _reset(self) -> None:
        """Remove all slots and units: the whole timer topic must be put again."""
        if self._slots or self.queue_offset:
            _log.warning("%s does not match the timer log: both are rebuilt", self._wheel_path)
        self._log.clear()
        self._changed |= self._slots.keys()
        self._slots = {}
        self._rebuilt_to = self.queue_offset, self._saved.read_time
        self.queue_offset = 0

    def _is_in_log(self, slot: Slot) -> bool:
        """Return whether the log holds the last unit of a slot."""
        unit = self._log.unit(slot.last) if slot.last < self._log.end else None
        return unit is not None and unit.time // self._precision_ms == slot.time

    def _file(self, path: Path, size: int) -> File:
        """Return a file, created if it does not exist. Raises OSError."""
        if self._files.layer.exists(path):
            return self._files.get(path)
        self._files.layer.make_directory(path.parent)
        return self._files.create(path, size)


def _with(slot: Slot, time: int, position: int, unit: Unit) -> Slot:
    """Return a slot with one more unit."""
    first = position if slot.first == NO_PREVIOUS else slot.first
    return Slot(time, first, position, slot.unit_count + (-1 if unit.magic & DELETE else 1))
