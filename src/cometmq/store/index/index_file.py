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

import numpy as np

from cometmq import kernels
from cometmq.errors import FormatError
from cometmq.format import index
from cometmq.io.files import File, FileMap
from cometmq.io.open_files import OpenFiles
from cometmq.kernels.arrays import PAGE_SIZE, Bytes, Ints, Longs
from cometmq.kernels.queries.rows import (
    FOUND_MAX,
    HOPS_MAX,
    IndexBytes,
    QueryOps,
    QueryRows,
    QueryState,
    hash_query,
)
from cometmq.store.files.residency import settle
from cometmq.store.index.index_view import ENTRY_DTYPE, SLOT_DTYPE, all_resident, find_in
from cometmq.store.reading import FileStep, Reading

BLOCK_ENTRIES = 1_000_000
"""Entries checked at once when a file is cut (20 MB)."""
_MISSING = int(QueryState.MISSING)
_LEFT = int(QueryState.LEFT)


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
        self._image_size = index.slot_position(slot_count)
        self._image: Bytes | None = None  # header and slots; of a full file the slots are on the disk only
        self._header: index.IndexHeader | None = None  # decoded, None once the image's has changed
        self._dirty = np.zeros(-(-self._image_size // PAGE_SIZE), np.bool_)
        self._unwritten = np.empty(0, np.int64)  # dirty pages that the present parts have not written yet …
        self._unwritten_header = b""  # … and the header at their beginning, which is written after them
        self._tail = bytearray()
        self._query = QueryRows(1)  # room for one look-up: to make it anew would cost half of the look-up
        self._written = index.FIRST_ENTRY  # number of the first entry that is not in the file yet

    def create(self, previous: index.IndexHeader | None) -> None:
        """Create the file; its header begins with the end of the previous file."""
        self._files.layer.make_directory(self.path.parent, durable=False)
        self._files.create(self.path, index.file_size(self._slot_count, self._entry_count), durable=False)
        self._image = np.zeros(self._image_size, np.uint8)
        if previous is not None:
            time, offset = previous.end_time, previous.end_physical_offset
            self._put_header(index.IndexHeader(time, time, offset, offset))

    def load(self) -> None:
        """Load the file; if it is not full, keys can be inserted then. Raises FormatError."""
        expected = index.file_size(self._slot_count, self._entry_count)
        if (size := self._files.layer.size(self.path)) != expected:
            raise FormatError(f"{self.path}: has {size} bytes, expected {expected}")
        header = index.IndexHeader.unpack(self._files.get(self.path).read(0, index.HEADER_SIZE))
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
        number, last = index.FIRST_ENTRY, header.begin_physical_offset
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
        if number == index.FIRST_ENTRY:
            return False
        self._put_slots(slots)
        if number < header.next_entry:
            time = store_time_at(last)
            header = header._replace(end_time=time, end_physical_offset=last, next_entry=number)
        self._put_header(header._replace(used_slots=int(np.count_nonzero(slots))))
        self._written = number
        return True

    def entries_from(self, physical_offset: int) -> bytes:
        """Return the entries, as they are in the file, of records at or behind a CommitLog offset."""
        if self.header.end_physical_offset < physical_offset:
            return b""
        numbers = range(index.FIRST_ENTRY, self.header.next_entry, BLOCK_ENTRIES)
        ends = (min(number + BLOCK_ENTRIES, self.header.next_entry) for number in numbers)
        blocks = (self._entries(first, end).tobytes() for first, end in zip(numbers, ends, strict=True))
        return b"".join(behind(block, physical_offset) for block in blocks)

    def count_last(self, physical_offset: int) -> int:
        """Count the last entries that are of the record at ``physical_offset``."""
        numbers = range(self.header.next_entry - 1, 0, -1)
        offsets = (int(self._entries(number, number + 1)["physical_offset"][0]) for number in numbers)
        return sum(1 for _ in takewhile(lambda offset: offset == physical_offset, offsets))

    @property
    def header(self) -> index.IndexHeader:
        """The file's header."""
        if self._header is None:
            assert self._image is not None, "the file is not loaded"
            self._header = index.IndexHeader.unpack(self._image[: index.HEADER_SIZE].tobytes())
        return self._header

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another key."""
        return self.header.next_entry >= self._entry_count

    def insert(self, key_hashes: Ints, physical_offsets: Longs, store_times: Longs) -> int:
        """Insert keys like ``Index.insert``, until the file is full; return the number inserted."""
        assert self._image is not None, "a full file takes no keys"
        entries = np.empty(len(key_hashes) * index.ENTRY_SIZE, np.uint8)
        self._header = None
        taken = kernels.loading.ops.index_insert(
            self._image,
            self._dirty,
            entries,
            key_hashes,
            physical_offsets,
            store_times,
            entry_count=self._entry_count,
        )
        self._tail += entries[: taken * index.ENTRY_SIZE].tobytes()
        return taken

    def find(self, key_hash: int, *, begin_time: int, end_time: int, max_count: int) -> Reading[list[int]]:
        """Find the CommitLog offsets of records with the key's hash, newest first."""
        if max_count <= 0:
            return []
        query = self._query if max_count <= FOUND_MAX else QueryRows(1, max_count)
        query.ask(key_hash, begin_time, end_time, max_count)
        if self.find_ready(kernels.loading.ops.queries, query, 0, max_count) and query.rows[0].state != _LEFT:
            return query.found(0)
        slot = index.slot_position(key_hash % self._slot_count)
        held = None if self._image is None else self._image[slot : slot + index.SLOT_SIZE].copy()
        tail, numbers = np.frombuffer(bytes(self._tail), np.uint8), self._numbers()

        def look(file: File) -> list[int]:
            data = np.frombuffer(file.view(), np.uint8)
            # of one slot only: all that finding looks at, while others insert
            image = np.concatenate(
                (data[: index.HEADER_SIZE], data[slot : slot + index.SLOT_SIZE] if held is None else held)
            )
            wanted = hash_query(key_hash, begin_time, end_time, max_count)
            return find_in(IndexBytes(image, True, data, all_resident(data), tail, numbers), wanted)

        found = yield FileStep(self._files, self.path, look)
        return found or []

    def find_ready(self, ops: QueryOps, queries: QueryRows, number: int, max_count: int) -> bool:
        """Look up queries in what is in memory of the file: see ``QueryOps.find``.

        Returns:
            Whether all were looked up; if not, some are still LOOKING.

        Raises:
            OSError: the file cannot be opened.
        """
        mapped = self._files.get(self.path).mapped()
        if mapped is None:
            return False  # nothing is known of its pages
        file = self._bytes_for(mapped)
        for _ in range(HOPS_MAX + 1):
            if not ops.find(file, number, max_count, HOPS_MAX, queries):
                return True
            for row in np.flatnonzero(queries.states[: queries.count] == _MISSING).tolist():
                settle(mapped, queries.rows[row], QueryState.LOOKING)
        return False  # memory is short: what was there is gone again

    def _bytes_for(self, mapped: FileMap) -> IndexBytes:
        """Return all that is looked at to find keys; nothing may be inserted while it is in use."""
        file, held = np.frombuffer(mapped.view, np.uint8), self._image
        return IndexBytes(
            file[: self._image_size] if held is None else held,
            held is not None,
            file,
            np.frombuffer(mapped.resident, np.uint8),
            np.frombuffer(self._tail, np.uint8),
            self._numbers(),
        )

    def _numbers(self) -> tuple[int, int, int, int, int]:
        """Return the numbers of ``IndexBytes``."""
        header = self.header
        return self._image_size, self._written, header.begin_time, header.end_time, header.next_entry

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
        self._files.get(self.path).write(index.entry_position(self._written, self._slot_count), self._tail)
        self._written += len(self._tail) // index.ENTRY_SIZE
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
        self._unwritten_header = self._image[: index.HEADER_SIZE].tobytes()
        self._dirty[:] = False

    def _write_pages(self, pages: Longs) -> None:
        """Write pages of the image (``int64[n]``), except the header; consecutive ones with one write."""
        assert self._image is not None
        file = self._files.get(self.path)
        edges = np.flatnonzero(np.diff(pages, prepend=-2, append=-2) != 1).tolist()
        for first, end in pairwise(edges):
            begin = max(int(pages[first]) * PAGE_SIZE, index.HEADER_SIZE)
            file.write(begin, self._image[begin : (int(pages[end - 1]) + 1) * PAGE_SIZE].data)

    def _load_image(self) -> None:
        image = self._files.get(self.path).read(0, self._image_size)
        self._image = np.frombuffer(image, np.uint8).copy()

    def _entries(self, first: int, end: int) -> np.ndarray:
        """Return the file's entries from number ``first`` to before ``end`` (of ENTRY_DTYPE)."""
        position = index.entry_position(first, self._slot_count)
        data = self._files.get(self.path).read(position, (end - first) * index.ENTRY_SIZE)
        return np.frombuffer(data, ENTRY_DTYPE)

    def _put_slots(self, slots: Ints) -> None:
        assert self._image is not None
        stored = self._image[index.HEADER_SIZE :].view(SLOT_DTYPE)
        changed = np.flatnonzero(stored != slots)
        stored[changed] = slots[changed]
        self._dirty[(index.HEADER_SIZE + changed * index.SLOT_SIZE) // PAGE_SIZE] = True

    def _put_header(self, header: index.IndexHeader) -> None:
        assert self._image is not None
        self._header = None
        self._image[: index.HEADER_SIZE] = np.frombuffer(header.pack(), np.uint8)
        self._dirty[0] = True


def behind(entries: bytes, physical_offset: int) -> bytes:
    """Return those of some entries, as they are in a file, of records at or behind a CommitLog offset."""
    block = np.frombuffer(entries, ENTRY_DTYPE)
    return block[block["physical_offset"].astype(np.int64) >= physical_offset].tobytes()
