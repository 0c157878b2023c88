"""Index files in memory: what the tests of what inserts into them and looks keys up share."""

from typing import NamedTuple

import numpy as np

from cometmq.format.index import (
    ENTRY_SIZE,
    HEADER_SIZE,
    IndexEntry,
    IndexHeader,
    file_size,
    slot_position,
)
from cometmq.kernels.arrays import PAGE_SIZE, Bytes, Flags, Ints, Longs
from cometmq.kernels.ops import Ops
from cometmq.kernels.queries.rows import NO_LIMIT, IndexBytes, hash_query

EVER = 2**63 - 1


class Keys(NamedTuple):
    """What is inserted."""

    hashes: Ints
    offsets: Longs
    times: Longs

    def since(self, key: int) -> "Keys":
        return Keys._make(array[key:] for array in self)


def keys_of(*keys: tuple[int, int, int]) -> Keys:
    hashes, offsets, times = zip(*keys, strict=True)
    return Keys(np.array(hashes, np.int32), np.array(offsets, np.int64), np.array(times, np.int64))


class File:
    """An index file in memory."""

    def __init__(self, slot_count: int, entry_count: int, header: IndexHeader | None = None) -> None:
        self.entry_count = entry_count
        self.data: Bytes = np.zeros(file_size(slot_count, entry_count), np.uint8)
        self.data[:HEADER_SIZE] = np.frombuffer((header or IndexHeader()).pack(), np.uint8)
        self.image = self.data[: slot_position(slot_count)]
        self.entries = self.data[slot_position(slot_count) :]
        self.dirty: Flags = np.zeros(-(-len(self.image) // PAGE_SIZE), np.bool_)

    @property
    def header(self) -> IndexHeader:
        return IndexHeader.unpack(self.image[:HEADER_SIZE].tobytes())

    def entry(self, number: int) -> IndexEntry:
        return IndexEntry.unpack(self.entries.tobytes(), number * ENTRY_SIZE)

    def insert(self, ops: Ops, keys: Keys, *, room: int | None = None) -> int:
        begin = self.header.next_entry * ENTRY_SIZE
        entries = self.entries[begin : None if room is None else begin + room * ENTRY_SIZE]
        return ops.index_insert(self.image, self.dirty, entries, *keys, entry_count=self.entry_count)

    def bytes(
        self, *, written: int | None = None, resident: bytearray | None = None, is_held: bool = True
    ) -> IndexBytes:
        """Return what is looked at to find keys; the entries from ``written`` on are in the tail."""
        header, written = self.header, self.entry_count if written is None else written
        cut = len(self.image) + written * ENTRY_SIZE
        numbers = len(self.image), written, header.begin_time, header.end_time, header.next_entry
        pages = bytearray(b"\1" * -(-len(self.data) // PAGE_SIZE)) if resident is None else resident
        return IndexBytes(
            *(self.image, is_held, self.data[:cut], np.frombuffer(pages, np.uint8), self.data[cut:]),
            numbers,
        )

    def find(
        self, ops: Ops, key_hash: int, begin: int = 0, end: int = EVER, *, count: int = 64, written: int = 99
    ) -> list[int]:
        query = hash_query(key_hash, begin, end, count)
        assert not ops.queries.find(self.bytes(written=written), 0, count, NO_LIMIT, query)
        return query.found(0)
