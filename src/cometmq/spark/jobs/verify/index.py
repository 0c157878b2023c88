"""Check an index file in a task, and group its entries by the file of the log that they point to."""

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from cometmq.format import index
from cometmq.io.files import File
from cometmq.kernels.arrays import Ints, Longs
from cometmq.spark.files.remote_files import layer_of
from cometmq.spark.jobs.verify.look import StoreListing
from cometmq.spark.jobs.verify.rows import ENTRIES, INDEX, Row
from cometmq.store.index.index_view import ENTRY_DTYPE, SLOT_DTYPE
from cometmq.store.verify.findings import Findings, Reported
from cometmq.store.verify.index import BLOCK_ENTRIES, entries_of
from cometmq.store.verify.index_file import IndexFileCheck
from cometmq.store.verify.keys import Entries, IndexedFile

NOWHERE: Final = -1
"""The ``place`` of entries that point to no file of the log."""
ENTRY_ROW: Final = np.dtype(
    [
        ("file", "<i4"),
        ("number", "<i4"),
        ("key_hash", "<i8"),
        ("physical_offset", "<i8"),
        ("time_diff_s", "<i4"),
    ]
)
assert ENTRY_ROW.names == Entries._fields


class IndexSeen(NamedTuple):
    """The result of a task for an index file.

    Attributes:
        file: its number among those of the store.
        indexed: the facts for the check of its entries.
        is_usable: whether its entries can be read.
    """

    file: int
    indexed: IndexedFile
    is_usable: bool
    reported: Reported


class IndexPart(NamedTuple):
    """The part of one task: an index file of a store.

    Attributes:
        store: the store's number.
        file: the file's number.
        recovered_from: CommitLog offset from which the next start indexes the log again, None if it does not.
        is_newest: whether it is the last one.
        log: CommitLog offsets at which the log's files begin and end.
        log_file_size: the length of each of these.
    """

    store: int
    file: int
    path: Path
    slot_count: int
    entry_count: int
    recovered_from: int | None
    is_newest: bool
    log: tuple[int, int]
    log_file_size: int

    def rows(self) -> Iterator[Row]:
        """Yield rows of the entries, then that of the file. Raises OSError."""
        findings = Findings()
        file = layer_of(self.path).open(self.path, writable=False)
        try:
            content = IndexByReads(file, self.slot_count, self.entry_count)
            check = IndexFileCheck(content, findings, self.recovered_from, is_newest=self.is_newest)
            is_usable = check.run()
            if is_usable:
                for at in range(index.FIRST_ENTRY, len(content.entries), BLOCK_ENTRIES):
                    yield from self._entry_rows(entries_of(self.file, content, at))
            seen = IndexSeen(self.file, check.indexed(), is_usable, findings.reported())
        finally:
            file.close()
        yield {"kind": INDEX, "store": self.store, "data": pickle.dumps(seen)}

    def _entry_rows(self, entries: Entries) -> Iterator[Row]:
        places = self._places(entries.physical_offset)
        for place in np.unique(places).tolist():
            mine = entries.chosen(places == place)
            rows = np.empty(len(mine.file), ENTRY_ROW)
            for name, values in mine._asdict().items():
                rows[name] = values
            yield {
                "kind": ENTRIES,
                "store": self.store,
                "place": place,
                "begin": int(mine.physical_offset.min()),
                "data": rows.tobytes(),
            }

    def _places(self, offsets: Longs) -> Longs:
        """Return the base offset of the log file that each CommitLog offset, ``int64[n]``, points to."""
        begin, end = self.log
        places: Longs = begin + (offsets - begin) // self.log_file_size * self.log_file_size
        return np.where((offsets >= begin) & (offsets < end), places, NOWHERE)


def index_parts(store: int, listing: StoreListing, claimed: int) -> list[IndexPart]:
    """Return a part for each index file of a store.

    Args:
        claimed: CommitLog offset behind the last record in any queue.
    """
    settings = listing.settings
    log_end = listing.files[-1].base_offset + listing.files[-1].size if listing.files else 0
    return [
        IndexPart(
            store=store,
            file=number,
            path=path,
            slot_count=settings.max_hash_slot_num,
            entry_count=settings.max_index_num,
            recovered_from=None if listing.was_closed else listing.recovered_from(claimed),
            is_newest=number == len(listing.index_files) - 1,
            log=(listing.log_begin, log_end),
            log_file_size=settings.mapped_file_size_commit_log,
        )
        for number, (path, _) in enumerate(listing.index_files)
    ]


class IndexByReads:
    """An index file that is read in parts, when they are needed: see ``IndexContent``."""

    def __init__(self, file: File, slot_count: int, entry_count: int) -> None:
        self.path = file.path
        self.slot_count = slot_count
        self.entry_count = entry_count
        self.header = index.IndexHeader.unpack(file.read(0, index.HEADER_SIZE))
        self.entries = EntriesByReads(file, slot_count, max(min(self.header.next_entry, entry_count), 0))
        self._file = file

    @property
    def slots(self) -> Ints:
        """The number of the newest entry of each slot, 0 for none, ``int32[slot_count]``."""
        size = index.slot_position(self.slot_count) - index.HEADER_SIZE
        return np.frombuffer(self._file.read(index.HEADER_SIZE, size), SLOT_DTYPE)

    def find(self, key_hash: int) -> list[int]:
        """Return the CommitLog offsets of all records with the key's hash, as ``IndexView.find`` does."""
        found: list[int] = []
        last = len(self.entries)
        slot = index.slot_position(index.slot_of(key_hash, self.slot_count))
        number = index.unpack_slot(self._file.read(slot, index.SLOT_SIZE))
        while index.NO_ENTRY < number < last:
            entry = index.IndexEntry.unpack(
                self._file.read(index.entry_position(number, self.slot_count), index.ENTRY_SIZE)
            )
            if entry.time_diff_s < 0:
                break
            if entry.key_hash == key_hash:
                found.append(entry.physical_offset)
            last, number = number, entry.previous  # a chain goes back in the file
        return found


class EntriesByReads:
    """The entries of an index file, each read when it is needed."""

    def __init__(self, file: File, slot_count: int, used: int) -> None:
        self._file = file
        self._slot_count = slot_count
        self._used = used

    def __len__(self) -> int:
        """Return the number of entries in use."""
        return self._used

    def __getitem__(self, place: int | slice) -> Any:
        """Read one entry by its number, or an array of entries by a slice (of ENTRY_DTYPE)."""
        if not isinstance(place, slice):
            number = place % self._used
            return self[number : number + 1][0]
        first, behind, _ = place.indices(self._used)
        position = index.entry_position(first, self._slot_count)
        return np.frombuffer(
            self._file.read(position, max(behind - first, 0) * index.ENTRY_SIZE), ENTRY_DTYPE
        )
