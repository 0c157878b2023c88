"""One file of the Index: keys are inserted until it is full, then it is only read.

Of the newest file header and slots are kept in memory, and entries until they are written. The order of
writes is entries, slots, header, so that recovery can repair the slots from the entries, each of which holds
the slot's previous value. Slots are written in parts, as all together take tens of ms; a key inserted
meanwhile may be in a slot that is written then, but the header does not count it.

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
"""Entries checked at once when a file is cut (20 MB)."""


class IndexBytes(NamedTuple):
    """The data in which kernels look keys up: see ``kernels.queries.rows.QueryOps.find``."""

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
        slot_count: number of slots.
        entry_count: capacity in entries, including the unused first one.
    """

    def __init__(self, files: OpenFiles, path: Path, slot_count: int, entry_count: int) -> None:
        self.path = path
        self._files = files
        self._slot_count = slot_count
        self._entry_count = entry_count
        self._image_size = slot_position(slot_count)
        self._image: Bytes | None = None  # header and slots; of a full file the slots are on the disk only
        self._header: IndexHeader | None = None  # decoded, None once the image's has changed
        self._dirty = np.zeros(-(-self._image_size // PAGE_SIZE), np.bool_)
        self._unwritten = np.empty(0, np.int64)  # dirty pages that the present parts have not written yet …
        self._unwritten_header = b""  # … and the header at their beginning, which is written after them
        self._tail = bytearray()
        self._written = FIRST_ENTRY  # number of the first entry that is not in the file yet

    def create(self, previous: IndexHeader | None) -> None:
        """Create the file; its header begins with the end of the previous file."""
        self._files.layer.make_directory(self.path.parent, durable=False)
        self._files.create(self.path, file_size(self._slot_count, self._entry_count), durable=False)
        self._image = np.zeros(self._image_size, np.uint8)
        if previous is not None:
            time, offset = previous.end_time, previous.end_physical_offset
            self._put_header(IndexHeader(time, time, offset, offset))

    def load(self) -> None:
        """Load the file; if it is not full, keys can be inserted then. Raises FormatError."""
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
        """Remove the records at or behind ``physical_offset``; return False if none is left.

        Slots are rebuilt from the entries that stay. The entries end before the first one that lies before
        its predecessor in the log, as it was never written.

        Args:
            store_time_at: returns the store time, ms, of the record at a CommitLog offset.
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
        """Count the last entries that are of the record at ``physical_offset``."""
        numbers = range(self.header.next_entry - 1, 0, -1)
        offsets = (int(self._entries(number, number + 1)["physical_offset"][0]) for number in numbers)
        return sum(1 for _ in takewhile(lambda offset: offset == physical_offset, offsets))

    @property
    def header(self) -> IndexHeader:
        """The file's header."""
        if self._header is None:
            assert self._image is not None, "the file is not loaded"
            self._header = IndexHeader.unpack(self._image[:HEADER_SIZE].tobytes())
        return self._header

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another key."""
        return self.header.next_entry >= self._entry_count

    def insert(self, key_hashes: Ints, physical_offsets: Longs, store_times: Longs) -> int:
        """Insert keys like ``Index.insert``, until the file is full; return the number inserted."""
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
        resident = self._find_resident(key_hash, begin_time, end_time, max_count)
        if resident is not None:
            return resident
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
        """Return the data for kernels; no key may be inserted while it is in use.

        Args:
            mapped: the result of ``mapped``.
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
        """Return the file's map; None if the residency of its pages is unknown. Raises OSError."""
        return self._files.get(self.path).mapped()

    def _find_resident(
        self, key_hash: int, begin_time: int, end_time: int, max_count: int
    ) -> list[int] | None:
        """Find offsets like ``find`` if all is in memory and the chain is short, nearly always; else None."""
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
        """Whether all is written to the file."""
        return self._image is None or not (self._tail or self._unwritten_header or self._dirty.any())

    def write_back(self) -> None:
        """Write what is in memory only. Raises OSError; it stays then."""
        if not self.is_written:
            self._begin_parts()
            self.write_part(self._image_size)

    def write_part(self, size_max: int) -> bool:
        """Write up to ``size_max`` bytes of what was in memory only when the first part was written.

        Something must be in memory only. Returns whether that was the last part. Raises OSError; the part
        stays in memory then.
        """
        if not self._unwritten_header:
            self._begin_parts()
        self.write_tail()  # before the slots, which may point to its entries
        first = max(len(self._unwritten) - -(-size_max // PAGE_SIZE), 0)
        self._write_pages(self._unwritten[first:])
        self._unwritten = self._unwritten[:first]
        if first:
            return False
        self._files.get(self.path).write(0, self._unwritten_header)
        self._unwritten_header = b""
        return True

    def write_tail(self, least_bytes: int = 1) -> bool:
        """Write the unwritten entries if they take ``least_bytes``; return whether. Raises OSError."""
        if len(self._tail) < least_bytes:
            return False
        self._files.get(self.path).write(entry_position(self._written, self._slot_count), self._tail)
        self._written += len(self._tail) // ENTRY_SIZE
        self._tail = bytearray()
        return True

    def seal(self) -> None:
        """Release the memory of a full file that has been written back."""
        self._header = self.header
        self._image = None

    def _begin_parts(self) -> None:
        """Begin a series of parts: all that is in memory only, and the rest of the series before."""
        assert self._image is not None
        self._dirty[self._unwritten] = True
        self._unwritten = np.flatnonzero(self._dirty)
        self._unwritten_header = self._image[:HEADER_SIZE].tobytes()
        self._dirty[:] = False

    def _write_pages(self, pages: Longs) -> None:
        """Write pages of the image (``int64[n]``), except the header; consecutive ones with one write."""
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
        """Return the file's entries from number ``first`` to before ``end`` (of ENTRY_DTYPE)."""
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
    """Build the image of a file with a single slot: a snapshot for a lookup while keys are inserted."""
    return np.concatenate((header, image[slot : slot + SLOT_SIZE]))
