"""Check index entries against the keys of records, stretch by stretch of the log.

Each entry's record must have a key of its hash, and each key of a record its entry. RocketMQ before 5.4 did
not index tags: missing entries of tags are no damage.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from cometmq.format.index import ENTRY_SIZE, FIRST_ENTRY, HEADER_SIZE, IndexHeader, entry_position
from cometmq.kernels.arrays import Flags, Ints, Longs
from cometmq.kernels.ops import Dispatch
from cometmq.store.directory import REBUILD, StoreDirectory
from cometmq.store.files.finding import Finding, Severity
from cometmq.store.log.log_scan import Chunk
from cometmq.store.verify.findings import AT_START, Findings
from cometmq.store.verify.log import LogExtent

NEVER_OFFSET = 2**63 - 1
HASH_BITS = 31
HASH_MASK = 2**HASH_BITS - 1


class IndexedFile(NamedTuple):
    """An index file whose entries are to be checked.

    Attributes:
        cut_from: number of the first entry that the next start cuts.
        first: CommitLog offset of the record of its first entry, None if it has no usable entry.
        last: CommitLog offset of the record of its last entry, -1 if it has no usable entry.
    """

    path: Path
    header: IndexHeader
    slot_count: int
    cut_from: int
    first: int | None
    last: int


class Entries(NamedTuple):
    """Entries of the index, in its order; an array [n] per field.

    Attributes:
        file: the number of the entry's file.
        number: the entry's number in that file.
    """

    file: Ints
    number: Ints
    key_hash: Longs
    physical_offset: Longs
    time_diff_s: Ints

    def chosen(self, places: Flags | Longs) -> "Entries":
        """Return some entries: by their places, int64[m], or whether each is one, bool[n]."""
        file, number, key_hash, physical_offset, time_diff_s = self
        return Entries(
            file[places], number[places], key_hash[places], physical_offset[places], time_diff_s[places]
        )

    def followed_by(self, other: "Entries") -> "Entries":
        """Return these entries with others behind them."""
        return Entries(
            np.concatenate((self.file, other.file)),
            np.concatenate((self.number, other.number)),
            np.concatenate((self.key_hash, other.key_hash)),
            np.concatenate((self.physical_offset, other.physical_offset)),
            np.concatenate((self.time_diff_s, other.time_diff_s)),
        )


class RecordKeys(NamedTuple):
    """Keys of records, in the order of the log; an array [n] per field.

    Attributes:
        may_miss: whether the entry may be missing: the key is that of the tags.
    """

    key_hash: Longs
    physical_offset: Longs
    store_time: Longs
    may_miss: Flags


class Missing(NamedTuple):
    """Keys without entries, of records behind the index's end.

    Attributes:
        keys: their number.
        begin: CommitLog offset of the first of these records.
    """

    keys: int
    begin: int

    def plus(self, other: "Missing") -> "Missing":
        """Return the sum of these and others."""
        begins = [missing.begin for missing in (self, other) if missing.keys]
        return Missing(self.keys + other.keys, min(begins, default=0))


NONE_MISSING: Final = Missing(0, 0)


class KeyCheck:
    """Compares entries with the keys of the records that they should point to.

    Args:
        log: the extent of the log, as far as it was scanned.
        files: the index files, in the order of the log.
        is_whole: whether no index file is missing or unusable.
        recovered_from: CommitLog offset from which the next start indexes the log again, None if it does not.

    Attributes:
        missing: the keys without entries behind the index's end.
    """

    def __init__(
        self,
        store: StoreDirectory,
        log: LogExtent,
        findings: Findings,
        files: Sequence[IndexedFile],
        recovered_from: int | None,
        *,
        is_whole: bool,
    ) -> None:
        self.missing = NONE_MISSING
        self._store = store
        self._log = log
        self._findings = findings
        self._files = files
        self._is_whole = is_whole
        self._recovered_from = NEVER_OFFSET if recovered_from is None else recovered_from
        ends = [(file.first, file.last) for file in files if file.first is not None]
        self._first, self._last = (ends[0][0], ends[-1][1]) if ends else (-1, -1)

    def check(self, begin: int, keys: RecordKeys, entries: Entries) -> None:
        """Check a stretch of the log: its keys, and the entries that point into or before it.

        Args:
            begin: CommitLog offset at which it begins.
        """
        outside = entries.physical_offset < begin
        self.report_strays(entries.chosen(outside))
        mine = entries.chosen(~outside)
        code, wanted = _codes(mine, begin), _codes(keys, begin)
        if np.array_equal(code, wanted):  # the usual case
            self._check_times(mine, keys.store_time)
            return
        place, missing = _matched(code, wanted)
        self.report_strays(mine.chosen(place < 0))
        self._check_times(mine.chosen(place >= 0), keys.store_time[place[place >= 0]])
        self._report_missing(keys, missing)

    def report_strays(self, strays: Entries) -> None:
        """Report entries that point to no record with their key, unless it has expired or is damaged."""
        offsets = strays.physical_offset
        wanted = (offsets >= self._log.begin_offset) | (offsets < 0)
        for begin, end in self._log.damaged:
            wanted &= (offsets < begin) | (offsets >= end)
        for file, number, offset in zip(
            *(array[wanted].tolist() for array in (strays.file, strays.number, offsets)), strict=True
        ):
            behind = offset >= self._log.end_offset
            what = "behind the log's end" if behind else "no record with its key is there"
            self._add(file, number, f"points to {offset}, {what}")

    def _check_times(self, entries: Entries, store_time: Longs) -> None:
        begin_times = np.array([file.header.begin_time for file in self._files], np.int64)
        begin_time = begin_times[entries.file] if len(self._files) else store_time
        expected = np.where(begin_time > 0, np.maximum(store_time - begin_time, 0) // 1000, 0)
        # The first entry is written before the header has its time: its difference is from the file before.
        wrong = (expected != entries.time_diff_s) & (entries.number != FIRST_ENTRY)
        for place in np.flatnonzero(wrong).tolist():
            what = f"time difference {entries.time_diff_s[place]} s, by its record {expected[place]} s"
            self._add(int(entries.file[place]), int(entries.number[place]), what)
        for file in np.unique(entries.file).tolist():
            header, mine = self._files[file].header, entries.file == file
            self._check_header_time(
                file, "begin", header.begin_time, store_time[mine & (entries.number == FIRST_ENTRY)]
            )
            last = header.next_entry - 1
            self._check_header_time(file, "end", header.end_time, store_time[mine & (entries.number == last)])

    def _check_header_time(self, file: int, name: str, says: int, store_times: Longs) -> None:
        for store_time in store_times.tolist():
            if says != store_time:
                what = f"{name} time {says} ms, by its record {store_time} ms"
                known = self._files[file]
                recovered = name == "end" and known.cut_from < known.header.next_entry
                self._report(known.path, 0, HEADER_SIZE, what, recovered=recovered)

    def _report_missing(self, keys: RecordKeys, missing: Flags) -> None:
        """Report keys without an entry; count those behind the index's end in ``missing``."""
        missing = missing & ~keys.may_miss & (keys.physical_offset > self._first)
        # The keys of one record can lie in two files, of which a kill may leave the first one only.
        last = self._last if self._store.was_closed else self._last - 1
        behind = missing & (keys.physical_offset > last)
        if behind.any():
            more = Missing(int(behind.sum()), int(keys.physical_offset[behind][0]))
            self.missing = self.missing.plus(more)
        inside = np.unique(keys.physical_offset[missing & ~behind])
        if not self._is_whole:
            return
        for offset in inside.tolist():
            start = self._store.log.chain.start_of(offset)
            assert start is not None
            what = f"a key of the record at {offset} has no entry in the index"
            path = self._store.log.chain.path(start)
            self._report(path, offset - start, None, what, recovered=offset >= self._recovered_from)

    def _add(self, file: int, number: int, what: str) -> None:
        known = self._files[file]
        position = entry_position(number, known.slot_count)
        recovered = number >= known.cut_from
        self._report(known.path, position, ENTRY_SIZE, f"entry {number} {what}", recovered=recovered)

    def _report(self, path: Path, position: int, size: int | None, what: str, *, recovered: bool) -> None:
        severity, remedy = (Severity.RECOVERY, AT_START) if recovered else (Severity.DAMAGE, REBUILD)
        self._findings.add(Finding(severity, path, position, size, what, remedy))


def keys_of(chunk: Chunk, dispatch: Dispatch) -> RecordKeys:
    """Return the keys of a chunk's records."""
    record = dispatch.key_record
    is_last = np.ones(len(record), np.bool_)
    is_last[:-1] = record[1:] != record[:-1]
    return RecordKeys(
        dispatch.key_hash.astype(np.int64),
        chunk.scan.physical_offset[record],
        chunk.scan.store_time[record],
        is_last & (dispatch.tags_code[record] != 0),
    )


def _codes(keys: Entries | RecordKeys, begin: int) -> Longs:
    """Return for each key its CommitLog offset from ``begin`` on and its hash in one number, int64[n]."""
    codes: Longs = (keys.physical_offset - begin) << HASH_BITS | keys.key_hash & HASH_MASK
    return codes


def _matched(found: Longs, wanted: Longs) -> tuple[Longs, Flags]:
    """Return each found code's place in ``wanted`` or -1, int64[n], and which wanted are missing, bool[m]."""
    if not len(found) or not len(wanted):
        return np.full(len(found), -1, np.int64), np.ones(len(wanted), np.bool_)
    order = np.argsort(wanted, kind="stable")
    place = order[np.minimum(np.searchsorted(wanted, found, sorter=order), len(wanted) - 1)]
    ascending = np.sort(found)
    nearest = ascending[np.minimum(np.searchsorted(ascending, wanted), len(found) - 1)]
    return np.where(wanted[place] == found, place, -1), nearest != wanted
