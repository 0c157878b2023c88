"""One file of the Index: inserted into until it is full, and then only read.

Of the newest file the header and slots are kept in memory, and entries until they are written: in the
order entries, slots, header, so that what a killed process leaves can be put right from the entries (each
holds the slot's value before it). Slots are written in parts, for all together take tens of ms; what is
inserted meanwhile may be in a slot that is written then, but is not counted by the header.

Source: RocketMQ ``store/index/IndexFile.java``.
"""

from collections.abc import Callable
from itertools import pairwise, takewhile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cometmq import kernels
from cometmq.errors import FormatError
from cometmq.format.index import (
    ENTRY_SIZE,
    FIRST_ENTRY,
    HEADER_SIZE,
    NO_ENTRY,
    SLOT_SIZE,
    IndexEntry,
    IndexHeader,
    entry_position,
    file_size,
    slot_position,
)
from cometmq.io.files import File, FileMap
from cometmq.io.open_files import OpenFiles
from cometmq.kernels.ops import PAGE_SIZE, Bytes, Ints, Longs
from cometmq.kernels.queries.rows import HOPS_MAX
from cometmq.store.index.index_view import ENTRY_DTYPE, SLOT_DTYPE
from cometmq.store.read.reading import FileStep, Reading

BLOCK_ENTRIES = 1_000_000
"""Entries looked at together when a file is cut (20 MB)."""


class IndexBytes(NamedTuple):
    """What kernels look keys up in: see ``kernels.queries.rows.QueryOps.find``."""

    image: Bytes
    file: Bytes
    resident: Bytes
    is_held: bool
    tail: Bytes
    written: int
    begin_time: int
    end_time: int
    next_entry: int


class IndexFile:
    """One index file.

    Args:
        slot_count: how many slots it has.
        entry_count: how many entries it has room for, the unused first one included.
    """

    def __init__(self, files: OpenFiles, path: Path, slot_count: int, entry_count: int) -> None:
        self.path = path
        self._files = files
        self._slot_count = slot_count
        self._entry_count = entry_count
        self._image_size = slot_position(slot_count)
        self._image: Bytes | None = None  # header and slots; of a full file the slots are on the disk only
        self._header: IndexHeader | None = None  # as it was last looked at, if that is how it is
        self._dirty = np.zeros(-(-self._image_size // PAGE_SIZE), np.bool_)
        self._unwritten = np.empty(
            0, np.int64
        )  # pages that are still to be written of those that were dirty …
        self._unwritten_header = b""  # … when the header was this; it is written after them
        self._tail = bytearray()
        self._written = FIRST_ENTRY  # number of the first entry that is not in the file yet

    def create(self, previous: IndexHeader | None) -> None:
        """Make the file; its header begins with what the file before it ended with."""
        self._files.layer.make_directory(self.path.parent, durable=False)
        self._files.create(self.path, file_size(self._slot_count, self._entry_count), durable=False)
        self._image = np.zeros(self._image_size, np.uint8)
        if previous is not None:
            time, offset = previous.end_time, previous.end_physical_offset
            self._put_header(IndexHeader(time, time, offset, offset))

    def load(self) -> None:
        """Read the file; one that is not full can be inserted into after this. Raises FormatError."""
        expected = file_size(self._slot_count, self._entry_count)
        if (size := self._files.layer.size(self.path)) != expected:
            raise FormatError(f"{self.path}: has {size} bytes, expected {expected}")
        header = IndexHeader.unpack(self._files.get(self.path).read(0, HEADER_SIZE))
        if header.next_entry > self._entry_count or header.begin_physical_offset > header.end_physical_offset:
            raise FormatError(
                f"{self.path}: header {header} cannot be in a file of {self._entry_count} entries"
            )
        self._written = header.next_entry
        if header.next_entry >= self._entry_count:
            self._header = header
        else:
            self._load_image()
            self._put_header(header)

    def cut(self, physical_offset: int, store_time_at: Callable[[int], int]) -> bool:
        """Forget the records at or behind ``physical_offset``; False if that is all.

        Slots are set from the entries that stay, whatever they held. The entries end before the first that
        lies before its predecessor in the log: it was never written.

        Args:
            store_time_at: gives the store time, ms, of the record at a CommitLog offset.
        """
        if self._image is None:
            self._load_image()
        header = self.header
        slots = np.zeros(self._slot_count, np.int32)
        number, last = FIRST_ENTRY, header.begin_physical_offset
        while number < header.next_entry:
            block = self._entries(number, min(number + BLOCK_ENTRIES, header.next_entry))
            offsets = block["physical_offset"].astype(np.int64)
            fits = (offsets < physical_offset) & (np.diff(offsets, prepend=last) >= 0)
            count = len(block) if fits.all() else int(np.argmin(fits))
            taken = block["key_hash"][:count].astype(np.int64) % self._slot_count
            np.maximum.at(slots, taken, np.arange(number, number + count, dtype=np.int32))
            number += count
            if count:
                last = int(offsets[count - 1])
            if count < len(block):
                break
        if number == FIRST_ENTRY:
            return False
        self._put_slots(slots)
        if number < header.next_entry:
            time = store_time_at(last)
            header = header._replace(end_time=time, end_physical_offset=last, next_entry=number)
        self._put_header(header._replace(used_slots=int(np.count_nonzero(slots))))
        self._written = number
        return True

    def count_last(self, physical_offset: int) -> int:
        """Count the entries at the end that are for the record at ``physical_offset``."""
        numbers = range(self.header.next_entry - 1, 0, -1)
        offsets = (int(self._entries(number, number + 1)["physical_offset"][0]) for number in numbers)
        return sum(1 for _ in takewhile(lambda offset: offset == physical_offset, offsets))

    @property
    def header(self) -> IndexHeader:
        """What the file says about itself."""
        if self._header is None:
            assert self._image is not None, "the file is not loaded"
            self._header = IndexHeader.unpack(self._image[:HEADER_SIZE].tobytes())
        return self._header

    @property
    def is_full(self) -> bool:
        """Whether no further key fits."""
        return self.header.next_entry >= self._entry_count

    def insert(self, key_hashes: Ints, physical_offsets: Longs, store_times: Longs) -> int:
        """Insert keys in order; gives how many fitted."""
        assert self._image is not None, "a full file takes no keys"
        entries = np.empty(len(key_hashes) * ENTRY_SIZE, np.uint8)
        self._header = None
        taken = kernels.current().index_insert(
            self._image,
            self._dirty,
            entries,
            key_hashes,
            physical_offsets,
            store_times,
            entry_count=self._entry_count,
        )
        self._tail += entries[: taken * ENTRY_SIZE].tobytes()
        return taken

    def find(self, key_hash: int, *, begin_time: int, end_time: int, max_count: int) -> Reading[list[int]]:
        """Find the CommitLog offsets of records with the key's hash, newest first."""
        at_hand = self._find_at_hand(key_hash, begin_time, end_time, max_count)
        if at_hand is not None:
            return at_hand
        slot = slot_position(key_hash % self._slot_count)
        image = None if self._image is None else _image_of_one(self._image[:HEADER_SIZE], self._image, slot)
        tail = np.frombuffer(bytes(self._tail), np.uint8)
        entries = slice(self._image_size, entry_position(self._written, self._slot_count))

        def look(file: File) -> list[int]:
            data = np.frombuffer(file.view(), np.uint8)
            return kernels.current().index_find(
                _image_of_one(data[:HEADER_SIZE], data, slot) if image is None else image,
                data[entries],
                tail,
                key_hash,
                begin_time=begin_time,
                end_time=end_time,
                max_count=max_count,
            )

        found = yield FileStep(self._files, self.path, look)
        return found or []

    def bytes_for(self, mapped: FileMap) -> IndexBytes:
        """Give all that kernels look at; nothing may be inserted while somebody has it.

        Args:
            mapped: what ``mapped`` gave.
        """
        file, header, held = np.frombuffer(mapped.view, np.uint8), self.header, self._image
        return IndexBytes(
            file[: self._image_size] if held is None else held,
            file,
            np.frombuffer(mapped.resident, np.uint8),
            held is not None,
            np.frombuffer(self._tail, np.uint8),
            self._written,
            header.begin_time,
            header.end_time,
            header.next_entry,
        )

    def mapped(self) -> FileMap | None:
        """Give the file's map; None where nothing is known of its pages. Raises OSError."""
        return self._files.get(self.path).mapped()

    def _find_at_hand(
        self, key_hash: int, begin_time: int, end_time: int, max_count: int
    ) -> list[int] | None:
        """Find the same where all is in memory and the chain is short, as nearly always; or give None."""
        file, header = self._files.get(self.path), self.header
        slot = slot_position(key_hash % self._slot_count)
        held = (
            file.read_ready(slot, SLOT_SIZE) if self._image is None else self._image[slot : slot + SLOT_SIZE]
        )
        if held is None:
            return None
        number = int.from_bytes(held, "big", signed=True)
        last = min(header.next_entry, self._written + len(self._tail) // ENTRY_SIZE)
        found: list[int] = []
        for _ in range(HOPS_MAX):
            if not NO_ENTRY < number < last or len(found) >= max_count:
                return found
            if number < self._written:
                data = file.read_ready(entry_position(number, self._slot_count), ENTRY_SIZE)
            else:
                at = (number - self._written) * ENTRY_SIZE
                data = self._tail[at : at + ENTRY_SIZE]
            if data is None:
                return None
            entry = IndexEntry.unpack(data)
            store_time = entry.store_time(header.begin_time)
            if entry.time_diff_s < 0:
                return found
            if entry.key_hash == key_hash and begin_time <= store_time <= end_time:
                found.append(entry.physical_offset)
            if store_time < begin_time:
                return found
            number, last = entry.previous, number
        return None

    @property
    def is_written(self) -> bool:
        """Whether nothing is in memory only."""
        return self._image is None or not (self._tail or self._unwritten_header or self._dirty.any())

    def write_back(self) -> None:
        """Write what is in memory only. Raises OSError; it then stays."""
        if not self.is_written:
            self._begin_parts()
            self.write_part(self._image_size)

    def write_part(self, size_max: int) -> bool:
        """Write so many bytes of what was in memory only as the first part was, or less: there is something.

        Returns:
            Whether that was the last part. Raises OSError; what is in memory only then stays.
        """
        if not self._unwritten_header:
            self._begin_parts()
        self.write_tail()  # before the slots that may have its entries
        first = max(len(self._unwritten) - -(-size_max // PAGE_SIZE), 0)
        self._write_pages(self._unwritten[first:])
        self._unwritten = self._unwritten[:first]
        if first:
            return False
        self._files.get(self.path).write(0, self._unwritten_header)
        self._unwritten_header = b""
        return True

    def write_tail(self, least_bytes: int = 1) -> bool:
        """Write the entries that wait if they take ``least_bytes``; tell whether. Raises OSError."""
        if len(self._tail) < least_bytes:
            return False
        self._files.get(self.path).write(entry_position(self._written, self._slot_count), self._tail)
        self._written += len(self._tail) // ENTRY_SIZE
        self._tail = bytearray()
        return True

    def seal(self) -> None:
        """Let the memory of a full file go that has been written back."""
        self._header = self.header
        self._image = None

    def _begin_parts(self) -> None:
        """Let all that is in memory only now be written next, beside what is left of the parts before."""
        assert self._image is not None
        self._dirty[self._unwritten] = True
        self._unwritten = np.flatnonzero(self._dirty)
        self._unwritten_header = self._image[:HEADER_SIZE].tobytes()
        self._dirty[:] = False

    def _write_pages(self, pages: Longs) -> None:
        """Write pages of the image, but for the header; pages that follow one another in one go."""
        assert self._image is not None
        file = self._files.get(self.path)
        edges = np.flatnonzero(np.diff(pages, prepend=-2, append=-2) != 1).tolist()
        for first, end in pairwise(edges):
            begin = max(int(pages[first]) * PAGE_SIZE, HEADER_SIZE)
            file.write(begin, self._image[begin : (int(pages[end - 1]) + 1) * PAGE_SIZE].data)

    def _load_image(self) -> None:
        image = self._files.get(self.path).read(0, self._image_size)
        self._image = np.frombuffer(image, np.uint8).copy()

    def _entries(self, first: int, end: int) -> np.ndarray:
        """Give the entries of the file from number ``first`` to before ``end`` (of ENTRY_DTYPE)."""
        position = entry_position(first, self._slot_count)
        data = self._files.get(self.path).read(position, (end - first) * ENTRY_SIZE)
        return np.frombuffer(data, ENTRY_DTYPE)

    def _put_slots(self, slots: Ints) -> None:
        assert self._image is not None
        stored = self._image[HEADER_SIZE:].view(SLOT_DTYPE)
        changed = np.flatnonzero(stored != slots)
        stored[changed] = slots[changed]
        self._dirty[(HEADER_SIZE + changed * SLOT_SIZE) // PAGE_SIZE] = True

    def _put_header(self, header: IndexHeader) -> None:
        assert self._image is not None
        self._header = None
        self._image[:HEADER_SIZE] = np.frombuffer(header.pack(), np.uint8)
        self._dirty[0] = True


def _image_of_one(header: Bytes, image: Bytes, slot: int) -> Bytes:
    """Make the image of a file with a single slot: all that finding looks at, while others insert."""
    return np.concatenate((header, image[slot : slot + SLOT_SIZE]))
