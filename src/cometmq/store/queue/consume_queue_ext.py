"""The extension of one ConsumeQueue: a unit for each entry, with the bitmap of the filters that it passes.

An entry that has a unit holds its address in place of the tags code. Units only save work: without one a
reader checks the message itself. So entries with and without units may alternate, and records that recovery
or a rebuild dispatches get none, since the filters known when a message was stored are written nowhere else.

Like the queue's entries, units are kept in memory and written by the page, before the entries that point to
them. An offset that an entry ever pointed to is not used again.

Source: RocketMQ ``store/ConsumeQueueExt.java``.
"""

from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path

from cometmq.format.consume_queue_ext import (
    BLANK,
    BLANK_SIZE,
    HEAD_SIZE,
    OFFSET_MAX,
    UNIT_SIZE_MAX,
    ExtUnit,
    address_of,
    offset_of,
    unpack,
)
from cometmq.store.files.file_chain import FileChain
from cometmq.store.reading import Reading, ReadStep, Stretch

_NO_OFFSET = 2**63


class ConsumeQueueExt:
    """The units of one queue, by address.

    Attributes:
        end_offset: offset of the next unit, if it fits into the file.
    """

    __slots__ = ("_tail", "_tail_start", "_unsynced_from", "chain")

    def __init__(self, chain: FileChain) -> None:
        self.chain = chain
        self._tail = bytearray()
        self._tail_start = 0
        self._unsynced_from = _NO_OFFSET  # first byte that was written since the last sync

    @property
    def end_offset(self) -> int:
        """Offset behind the last unit."""
        return self._tail_start + len(self._tail)

    def put(self, unit: bytes) -> int | None:
        """Append a unit; return its address, or None if there is no room for it."""
        room = self.chain.file_size - self.end_offset % self.chain.file_size
        if len(unit) > self.chain.file_size - BLANK_SIZE or self.end_offset + room + len(unit) > OFFSET_MAX:
            return None
        if len(unit) > room - BLANK_SIZE:
            self._tail += BLANK.ljust(room, b"\0")
        offset = self.end_offset
        self._tail += unit
        return address_of(offset)

    def get(self, address: int) -> ExtUnit | None:
        """Return the unit at an address, or None if it is lost.

        Safe from any thread; outside the owner's, a unit that is being written may seem lost.
        """
        offset, start, tail = offset_of(address), self._tail_start, self._tail
        if offset >= start:
            return unpack(tail, offset - start)
        return self.written(offset)

    def units(self, addresses: Iterable[int]) -> Reading[dict[int, ExtUnit]]:
        """Read the units at ascending addresses, without lost ones, as a reading."""
        found: dict[int, ExtUnit] = {}
        places: dict[int, list[Stretch]] = {}
        offsets = [offset_of(address) for address in addresses]
        for offset, following in pairwise([*offsets, _NO_OFFSET]):
            if offset >= self._tail_start:
                if (unit := unpack(self._tail, offset - self._tail_start)) is not None:
                    found[address_of(offset)] = unit
            elif (start := self.chain.start_of(offset)) is not None:
                room = start + self.chain.file_size - offset
                size = min(room, UNIT_SIZE_MAX, max(following - offset, HEAD_SIZE))
                places.setdefault(start, []).append((offset - start, size))
        for start, stretches in places.items():
            units = yield ReadStep(self.chain.files, self.chain.path(start), stretches)
            for (position, _), data in zip(stretches, units or (), strict=False):
                if (unit := unpack(data)) is not None:
                    found[address_of(start + position)] = unit
        return found

    def written(self, offset: int) -> ExtUnit | None:
        """Return the unit at an offset in the files, or None if there is none."""
        room = self.chain.file_size - offset % self.chain.file_size
        head = self.chain.read(offset, min(HEAD_SIZE, room))
        size = int.from_bytes(head[:2], "big")
        return unpack(self.chain.read(offset, size) if HEAD_SIZE < size <= min(UNIT_SIZE_MAX, room) else head)

    def write_back(self) -> None:
        """Write the tail to the files. Raises OSError; the tail then stays."""
        if self._tail:
            self._unsynced_from = min(self._unsynced_from, self._tail_start)
            self.chain.write(self._tail_start, self._tail)
            self._tail_start += len(self._tail)
            self._tail = bytearray()

    def take_unsynced(self) -> list[Path]:
        """Return the files that were written since the last call, for syncing."""
        begin, self._unsynced_from = self._unsynced_from, _NO_OFFSET
        chain = self.chain
        return [chain.path(start) for start in chain.starts if start + chain.file_size > begin]

    def recover(
        self, last_address: int | None, drop_unsynced: Callable[[Path], object] | None = None
    ) -> None:
        """Load the files and clear all behind the last unit that an entry points to, None if no entry does.

        Units behind it belonged to lost entries. If the files do not reach so far, they are removed, and the
        next one begins there. Raises StoreDamaged.

        Args:
            drop_unsynced: for files that are too short or follow a gap: see ``FileChain.load``.
        """
        self.chain.load(drop_unsynced)
        if last_address is None:
            self.chain.remove_from(0)
            self._tail, self._tail_start = bytearray(), 0
            return
        offset, file_size = offset_of(last_address), self.chain.file_size
        unit = self.written(offset)
        if unit is not None:
            end = self._tail_start = offset + unit.size
        else:  # lost: another unit must not appear at its address
            end, self._tail_start = offset, offset + file_size - offset % file_size
        self.chain.remove_from(0 if self.chain.start_of(offset) is None else self._tail_start)
        if end < self.chain.end_offset:  # cleared, since a Java broker reads the files unit by unit
            self.chain.clear_from(end)
            if unit is None:
                self.chain.write(end, BLANK)
            self._unsynced_from = min(self._unsynced_from, end)

    def detach_before(self, address: int) -> list[Path]:
        """Detach the files whose units all lie before an address: see ``FileChain.detach_before``."""
        return self.chain.detach_before(offset_of(address))

    def detach(self) -> None:
        """Drop all units; the files stay on the disk until ``remove``."""
        self.chain.detach()
        self._tail, self._tail_start = bytearray(), 0

    def remove(self) -> None:
        """Remove all files, and the directory. Raises OSError; it may be called again."""
        self.detach()
        self.chain.remove()
