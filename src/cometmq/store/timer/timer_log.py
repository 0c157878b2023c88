"""The timer log: a unit is appended for each timed message; a slot's units are read from the last backwards.

Source: RocketMQ ``store/timer/TimerLog.java``.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from cometmq.format.timer import log as timer_log
from cometmq.format.timer.log import NO_PREVIOUS, Unit
from cometmq.io.open_files import OpenFiles
from cometmq.store.files.file_chain import FileChain

SETTING: Final = "mappedFileSizeTimerLog"
READ_SIZE: Final = 65_536
"""Most bytes that are read at once: the units of a slot are next to each other, nearly always."""
REMEDY: Final = "remove timerlog, timerwheel and config/timercheck: timed messages are delivered again then"


class TimerLog:
    """The files of the timer log.

    Attributes:
        end: position of the next unit, if its file has room for it.
    """

    def __init__(self, files: OpenFiles, directory: Path, file_size: int) -> None:
        self._chain = FileChain(files, directory, file_size, SETTING, REMEDY)
        self._unsynced: set[Path] = set()
        self.end = 0

    def load(self) -> None:
        """Load the files. Raises StoreDamaged or OSError."""
        self._chain.load()
        self.end = self._chain.first_offset

    def units(self, begin: int) -> Iterator[tuple[int, Unit]]:
        """Iterate over the units from ``begin`` on, each with its position, up to the first invalid one."""
        file_size = self._chain.file_size
        position = max(begin, self._chain.first_offset)
        position -= position % file_size % timer_log.SIZE
        while (start := self._chain.start_of(position)) is not None:
            view = self._chain.file(start).view()
            while (unit := timer_log.unpack(view, position - start)) is not None:
                yield position, unit
                position += timer_log.SIZE
            if view[position - start :][: timer_log.BLANK_SIZE] != timer_log.blank(
                start + file_size - position
            ):
                return
            position = start + file_size

    def cut(self, end: int) -> None:
        """Set the log's end and clear all data behind it. Raises OSError."""
        self._chain.clear_from(end)
        self.end = end

    def clear(self) -> None:
        """Remove all files. Raises OSError."""
        self._chain.remove_from(0)
        self._unsynced.clear()
        self.end = 0

    def next_positions(self, count: int) -> list[int]:
        """Return the positions of the next ``count`` units."""
        positions, end = [], self.end
        for _ in range(count):
            left = self._chain.file_size - end % self._chain.file_size
            if not timer_log.has_room(left):
                end += left
            positions.append(end)
            end += timer_log.SIZE
        return positions

    def append(self, positions: Sequence[int], units: Sequence[Unit]) -> None:
        """Append units at the positions from ``next_positions``. Raises OSError; then none is appended."""
        data = bytearray()
        for position, unit in zip(positions, units, strict=True):
            if left := position - self.end - len(data):
                data += timer_log.blank(left).ljust(left, b"\0")
            data += unit.pack()
        self._chain.write(self.end, data)
        ends = (self._chain.start_of(self.end), self._chain.start_of(positions[-1]))
        self._unsynced |= {self._chain.path(start) for start in ends if start is not None}
        self.end += len(data)

    def unit(self, position: int) -> Unit | None:
        """Return the unit at a position, or None. Safe from any thread. Raises OSError."""
        begin, data = self._up_to(position, timer_log.SIZE)
        return timer_log.unpack(data, position - begin)

    def chained(self, last: int) -> list[Unit]:
        """Read the units of the slot whose last one is at ``last``, in their order; waits for the disk.

        Units in expired files are left out. Safe from any thread. Raises OSError.
        """
        units: list[Unit] = []
        position, begin, data = last, last, b""
        while position != NO_PREVIOUS:
            if not begin <= position <= begin + len(data) - timer_log.SIZE:
                begin, data = self._up_to(position)
            if (unit := timer_log.unpack(data, position - begin)) is None:
                break
            units.append(unit)
            if unit.previous >= position:  # damage, which must not make a cycle
                break
            position = unit.previous
        return units[::-1]

    def take_unsynced(self) -> set[Path]:
        """Return the files that were written since the last call, for syncing."""
        taken, self._unsynced = self._unsynced, set()
        return taken

    def add_unsynced(self, paths: set[Path]) -> None:
        """Add files that still must be synced."""
        self._unsynced |= paths

    def expired(self, physical_offset: int) -> list[Path]:
        """Detach the files whose messages all lie before a CommitLog offset; return them for removal."""
        at = timer_log.last_position(self._chain.file_size)
        end = self._chain.first_offset
        for start in self._chain.starts[:-1]:
            unit = self.unit(start + at)
            if unit is None or unit.physical_offset >= physical_offset:
                break
            end = start + self._chain.file_size
        return self._chain.detach_before(end)

    def _up_to(self, position: int, size_max: int = READ_SIZE) -> tuple[int, bytes]:
        """Read a file's bytes up to the end of the unit at a position; return where they begin, and them.

        There are none if there is no such file any more. Raises OSError.
        """
        start = self._chain.start_of(position)
        if start is None:
            return position, b""
        end = position + timer_log.SIZE
        begin = max(start, end - size_max)
        try:
            with self._chain.held(start) as file:
                return begin, bytes(file.read(begin - start, end - begin))
        except FileNotFoundError:  # it has just expired
            return position, b""
