"""Checking the index against the CommitLog, both ways.

Each entry's record has a key of its hash, and each key of the records has its entry. RocketMQ before 5.4
did not index tags: that they are missing is no damage.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cometmq.format import layout
from cometmq.format.index import ENTRY_SIZE, FIRST_ENTRY, HEADER_SIZE, entry_position
from cometmq.kernels.ops import Dispatch, Flags, Ints, Longs
from cometmq.store.directory import REBUILD, StoreDirectory
from cometmq.store.finding import Finding, Severity
from cometmq.store.index_view import IndexView
from cometmq.store.log_scan import Chunk
from cometmq.store.verify.findings import Findings
from cometmq.store.verify.index_file import AT_START, IndexFileCheck
from cometmq.store.verify.log import LogWalk

BLOCK_ENTRIES = 1 << 16
NEVER_OFFSET = 2**63 - 1
HASH_BITS = 31
HASH_MASK = 2**HASH_BITS - 1


class _Block(NamedTuple):
    """Some entries of the index, in its order; one array per field.

    Attributes:
        file: which file each one is of.
        number: its number there.
    """

    file: Ints
    number: Ints
    key_hash: Longs
    physical_offset: Longs
    time_diff_s: Ints

    def chosen(self, places: Flags | Longs) -> "_Block":
        """Give some of the entries."""
        file, number, key_hash, physical_offset, time_diff_s = self
        return _Block(
            file[places], number[places], key_hash[places], physical_offset[places], time_diff_s[places]
        )

    def followed_by(self, other: "_Block") -> "_Block":
        """Give these entries and others."""
        return _Block(
            np.concatenate((self.file, other.file)),
            np.concatenate((self.number, other.number)),
            np.concatenate((self.key_hash, other.key_hash)),
            np.concatenate((self.physical_offset, other.physical_offset)),
            np.concatenate((self.time_diff_s, other.time_diff_s)),
        )


class _Keys(NamedTuple):
    """The keys of a chunk's records.

    Attributes:
        code: physical offset from the chunk's first one on, and hash, in one number.
        may_miss: whether it is the key that stands for the tags.
    """

    code: Longs
    physical_offset: Longs
    store_time: Longs
    may_miss: Flags


class IndexCheck:
    """Holds the index against the records, which come by chunks.

    Attributes:
        count: index files that can be used.
        entries: entries of these.
    """

    def __init__(
        self, store: StoreDirectory, walk: LogWalk, findings: Findings, recovered_from: int | None
    ) -> None:
        self._store = store
        self._walk = walk
        self._findings = findings
        listed: list[Finding] = []
        self._views = store.index(listed) if store.settings.message_index_enable else []
        for finding in listed:
            findings.add(finding)
        self._is_whole = not any(finding.severity is Severity.DAMAGE for finding in listed)
        self.count = len(self._views)
        self.entries = sum(view.header.next_entry - FIRST_ENTRY for view in self._views)
        self._recovered_from = NEVER_OFFSET if recovered_from is None else recovered_from
        self._cuts: list[int] = []  # by file: the first entry that the next start cuts
        self._views = [view for view in self._views if self._check_file(view, recovered_from)]
        self._is_whole &= len(self._views) == self.count
        offsets = [view.entries["physical_offset"] for view in self._views if len(view.entries) > FIRST_ENTRY]
        self._first = int(offsets[0][FIRST_ENTRY]) if offsets else -1
        self._last = int(offsets[-1][-1]) if offsets else -1
        self._blocks = self._read_blocks()
        self._waiting = _NOTHING
        self._reach = -1.0  # CommitLog offset in the middle of the last block read
        self._missing_behind = 0  # keys of records behind the index's end
        self._missing_from = 0

    def take(self, chunk: Chunk, dispatch: Dispatch) -> None:
        """Check the entries that should point to a chunk's records."""
        if not self._store.settings.message_index_enable:
            return
        begin = int(chunk.scan.physical_offset[0])
        keys = _keys_of(chunk, dispatch, begin)
        mine = self._entries_before(chunk.end_offset)
        outside = mine.physical_offset < begin
        self._judge_strays(mine.chosen(outside))
        mine = mine.chosen(~outside)
        code = (mine.physical_offset - begin) << HASH_BITS | mine.key_hash & HASH_MASK
        if np.array_equal(code, keys.code):  # all is as it should be
            self._check_times(mine, keys.store_time)
            return
        place, missing = _matched(code, keys.code)
        self._judge_strays(mine.chosen(place < 0))
        self._check_times(mine.chosen(place >= 0), keys.store_time[place[place >= 0]])
        self._judge_missing(keys, missing)

    def finish(self) -> None:
        """Check what is left: entries behind the log's end, keys behind the index's."""
        for block in self._blocks:
            self._waiting = self._waiting.followed_by(block)
        self._judge_strays(self._waiting)
        if not self._missing_behind:
            return
        directory = layout.index_dir(self._store.root)
        what = f"{self._missing_behind} keys have no entry, those of records from {self._missing_from} on"
        if not self._store.layer.exists(directory):
            self._findings.note(directory, "there is no index: messages are not found by key", REBUILD)
        elif self._store.was_closed and self._is_whole:
            self._findings.damage(directory, None, None, what, REBUILD)
        elif self._is_whole:
            self._findings.add(Finding(Severity.RECOVERY, directory, None, None, what, AT_START))

    def _check_file(self, view: IndexView, recovered_from: int | None) -> bool:
        is_newest = view.path == self._views[-1].path
        check = IndexFileCheck(view, self._findings, recovered_from, is_newest=is_newest)
        if check.run():
            self._cuts.append(check.cut_from)
            return True
        return False

    def _read_blocks(self) -> Iterator[_Block]:
        for file, view in enumerate(self._views):
            entries = view.entries
            for at in range(FIRST_ENTRY, len(entries), BLOCK_ENTRIES):
                block = entries[at : at + BLOCK_ENTRIES]
                yield _Block(
                    np.full(len(block), file, np.int32),
                    np.arange(at, at + len(block), dtype=np.int32),
                    block["key_hash"].astype(np.int64),
                    block["physical_offset"].astype(np.int64),
                    block["time_diff_s"].astype(np.int32),
                )

    def _entries_before(self, offset: int) -> _Block:
        """Take the entries that point before a CommitLog offset.

        The index is in the log's order, but for damaged entries: so it is read on as long as most of
        what was read points before ``offset``.
        """
        while self._reach < offset and (block := next(self._blocks, None)) is not None:
            self._reach = float(np.median(block.physical_offset))
            self._waiting = self._waiting.followed_by(block)
        before = self._waiting.physical_offset < offset
        mine, self._waiting = self._waiting.chosen(before), self._waiting.chosen(~before)
        return mine

    def _judge_strays(self, strays: _Block) -> None:
        """Report entries that point to no record with their key, unless that has expired or is damaged."""
        offsets = strays.physical_offset
        wanted = (offsets >= self._walk.begin_offset) | (offsets < 0)
        for begin, end in self._walk.damaged:
            wanted &= (offsets < begin) | (offsets >= end)
        for file, number, offset in zip(
            *(array[wanted].tolist() for array in (strays.file, strays.number, offsets)), strict=True
        ):
            behind = offset >= self._walk.end_offset
            what = "behind the log's end" if behind else "no record with its key is there"
            self._add(file, number, f"points to {offset}, {what}")

    def _check_times(self, entries: _Block, store_time: Longs) -> None:
        begin_times = np.array([view.header.begin_time for view in self._views], np.int64)
        begin_time = begin_times[entries.file] if len(self._views) else store_time
        expected = np.where(begin_time > 0, np.maximum(store_time - begin_time, 0) // 1000, 0)
        # The first entry is made before the header has its time: that of the file before it holds.
        wrong = (expected != entries.time_diff_s) & (entries.number != FIRST_ENTRY)
        for place in np.flatnonzero(wrong).tolist():
            what = f"time difference {entries.time_diff_s[place]} s, by its record {expected[place]} s"
            self._add(int(entries.file[place]), int(entries.number[place]), what)
        for file in np.unique(entries.file).tolist():
            header, mine = self._views[file].header, entries.file == file
            self._check_header_time(
                file, "begin", header.begin_time, store_time[mine & (entries.number == FIRST_ENTRY)]
            )
            last = header.next_entry - 1
            self._check_header_time(file, "end", header.end_time, store_time[mine & (entries.number == last)])

    def _check_header_time(self, file: int, name: str, says: int, store_times: Longs) -> None:
        for store_time in store_times.tolist():
            if says != store_time:
                what = f"{name} time {says} ms, by its record {store_time} ms"
                recovered = name == "end" and self._cuts[file] < self._views[file].header.next_entry
                self._report(self._views[file].path, 0, HEADER_SIZE, what, recovered=recovered)

    def _judge_missing(self, keys: _Keys, missing: Flags) -> None:
        """Report keys without an entry, where the index should have them."""
        missing = missing & ~keys.may_miss & (keys.physical_offset > self._first)
        # The keys of one record can lie in two files, of which a kill may leave the first one only.
        last = self._last if self._store.was_closed else self._last - 1
        behind = missing & (keys.physical_offset > last)
        if not self._missing_behind and behind.any():
            self._missing_from = int(keys.physical_offset[behind][0])
        self._missing_behind += int(behind.sum())
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
        view = self._views[file]
        position = entry_position(number, view.slot_count)
        recovered = number >= self._cuts[file]
        self._report(view.path, position, ENTRY_SIZE, f"entry {number} {what}", recovered=recovered)

    def _report(self, path: Path, position: int, size: int | None, what: str, *, recovered: bool) -> None:
        severity, remedy = (Severity.RECOVERY, AT_START) if recovered else (Severity.DAMAGE, REBUILD)
        self._findings.add(Finding(severity, path, position, size, what, remedy))


_NO_INTS, _NO_LONGS = np.zeros(0, np.int32), np.zeros(0, np.int64)
_NOTHING = _Block(_NO_INTS, _NO_INTS, _NO_LONGS, _NO_LONGS, _NO_INTS)


def _keys_of(chunk: Chunk, dispatch: Dispatch, begin: int) -> _Keys:
    record = dispatch.key_record
    offset: NDArray[np.int64] = chunk.scan.physical_offset[record]
    is_last = np.ones(len(record), np.bool_)
    is_last[:-1] = record[1:] != record[:-1]
    return _Keys(
        (offset - begin) << HASH_BITS | dispatch.key_hash.astype(np.int64),
        offset,
        chunk.scan.store_time[record],
        is_last & (dispatch.tags_code[record] != 0),
    )


def _matched(found: Longs, wanted: Longs) -> tuple[Longs, Flags]:
    """Give for each code found its place among the wanted ones, or -1; and which wanted ones are missing."""
    if not len(found) or not len(wanted):
        return np.full(len(found), -1, np.int64), np.ones(len(wanted), np.bool_)
    order = np.argsort(wanted, kind="stable")
    place = order[np.minimum(np.searchsorted(wanted, found, sorter=order), len(wanted) - 1)]
    ascending = np.sort(found)
    nearest = ascending[np.minimum(np.searchsorted(ascending, wanted), len(found) - 1)]
    return np.where(wanted[place] == found, place, -1), nearest != wanted
