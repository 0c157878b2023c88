"""Read an index file as it is on the disk, for finding, checking and showing."""

from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cometmq import kernels
from cometmq.format.index import (
    ENTRY_SIZE,
    HEADER_SIZE,
    SLOT_SIZE,
    IndexHeader,
    entry_position,
    slot_position,
)
from cometmq.kernels.arrays import PAGE_SIZE, Bytes, Ints
from cometmq.kernels.queries.rows import NO_LIMIT, IndexBytes, QueryRows, hash_query

ENTRY_DTYPE = np.dtype(
    [("key_hash", ">i4"), ("physical_offset", ">i8"), ("time_diff_s", ">i4"), ("previous", ">i4")]
)
SLOT_DTYPE = np.dtype(">i4")
assert (ENTRY_DTYPE.itemsize, SLOT_DTYPE.itemsize) == (ENTRY_SIZE, SLOT_SIZE)

_NO_TAIL: Bytes = np.zeros(0, np.uint8)


class IndexEntries(Protocol):
    """The entries of an index file (of ENTRY_DTYPE), including the unused first one."""

    def __len__(self) -> int:
        """Return the number of entries in use."""
        ...

    def __getitem__(self, place: Any, /) -> Any:
        """Return one entry by its number, or an array of entries by a slice."""
        ...


class IndexContent(Protocol):
    """The parts of an index file that are checked against each other."""

    @property
    def path(self) -> Path:
        """The file's path."""
        ...

    @property
    def slot_count(self) -> int:
        """Number of slots."""
        ...

    @property
    def entry_count(self) -> int:
        """Capacity in entries, including the unused first one."""
        ...

    @property
    def header(self) -> IndexHeader:
        """The file's header."""
        ...

    @property
    def slots(self) -> Ints:
        """The number of the newest entry of each slot (``int32[slot_count]``), 0 where there is none."""
        ...

    @property
    def entries(self) -> IndexEntries:
        """The entries in use."""
        ...


class IndexView(NamedTuple):
    """One index file's bytes, mapped.

    Attributes:
        slot_count: number of slots.
        entry_count: capacity in entries, including the unused first one.
    """

    path: Path
    data: Bytes
    slot_count: int
    entry_count: int

    @property
    def header(self) -> IndexHeader:
        """The file's header."""
        return IndexHeader.unpack(self.data[:HEADER_SIZE].data)

    @property
    def slots(self) -> Ints:
        """The number of the newest entry of each slot (big-endian), 0 where there is none."""
        return self.data[HEADER_SIZE : slot_position(self.slot_count)].view(SLOT_DTYPE)

    @property
    def entries(self) -> NDArray[np.void]:
        """The entries in use, including the unused first one (of ENTRY_DTYPE)."""
        used = min(self.header.next_entry, self.entry_count)
        first = slot_position(self.slot_count)
        return self.data[first : entry_position(used, self.slot_count)].view(ENTRY_DTYPE)

    def find(self, key_hash: int) -> list[int]:
        """Find the CommitLog offsets of all records with the key's hash, newest first."""
        header = self.header
        entries_at, next_entry = slot_position(self.slot_count), header.next_entry
        numbers = entries_at, next_entry, header.begin_time, header.end_time, next_entry
        resident = all_resident(self.data)
        file = IndexBytes(self.data[:entries_at], True, self.data, resident, _NO_TAIL, numbers)
        most = max(min(header.next_entry, self.entry_count), 1)
        return find_in(file, hash_query(key_hash, 0, 2**63 - 1, most))


def find_in(file: IndexBytes, query: QueryRows) -> list[int]:
    """Find the CommitLog offsets of records for a query, newest first, wherever they are: it may be slow."""
    kernels.loading.ops.queries.find(file, 0, query.offsets.shape[1], NO_LIMIT, query)
    return query.found(0)


def all_resident(file: Bytes) -> Bytes:
    """Return ``IndexBytes.resident`` of a file (uint8[]) that may be read though it takes time."""
    return np.ones(-(-len(file) // PAGE_SIZE), np.uint8)
