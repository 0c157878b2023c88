"""Find messages of a store in tasks: look them up by id, time and index, and scan pieces of the log.

It is what ``cometmq.store.offline.find`` does on one machine. A time leads to the files of the log that may
have messages of it, by their first records.
"""

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from cometmq import kernels
from cometmq.errors import CometMQError
from cometmq.format.checksum import Crc
from cometmq.format.delay_level import DelayLevels
from cometmq.format.record import BODY_AT, encode
from cometmq.spark.files.remote import opened, path_of
from cometmq.spark.files.remote_files import layer_of
from cometmq.spark.files.splits import FilePiece, LogFile
from cometmq.spark.files.walk import PieceWalk, scans
from cometmq.spark.jobs.stores import log_files_of
from cometmq.spark.jobs.verify.index import IndexByReads
from cometmq.store.directory import StoreDirectory
from cometmq.store.files.finding import Finding
from cometmq.store.log.commit_log import RECORD_START_SIZE, size_of_record
from cometmq.store.log.seek import AFTER_ALL, record_store_time
from cometmq.store.offline.find import (
    TIME_MAX,
    TIME_MIN,
    FindQuery,
    Found,
    MessageLookup,
    candidates,
    found_in,
)

NEAR_BYTES: Final = 64 * 1024
"""So much of a remote file is fetched to see when its first record was stored, unless that is larger."""
HITS: Final = "store int, offset bigint, record binary, damage string, error string"
_COLUMNS: Final[dict[str, pa.DataType]] = {
    "store": pa.int32(),
    "offset": pa.int64(),
    "record": pa.binary(),
    "damage": pa.string(),
    "error": pa.string(),
}
_HITS: Final = pa.schema(_COLUMNS)


class LookedUp(NamedTuple):
    """The messages found without scanning the log, and the ranges that are left to scan.

    Attributes:
        found: by CommitLog offset.
        ranges: CommitLog offsets from which and up to which the log is left, in order.
        files: of the log.
    """

    found: dict[int, Found]
    ranges: list[tuple[int, int]]
    files: list[LogFile]
    crc: Crc
    delay_levels: DelayLevels


class WalkedPart(NamedTuple):
    """The part of a store's log that one task scans.

    Attributes:
        store: the store's number.
        limit: so many messages are enough.
    """

    store: int
    pieces: list[FilePiece]
    wanted: FindQuery
    crc: Crc
    delay_levels: DelayLevels
    limit: int


def look_up(root: Path, wanted: FindQuery, limit: int, *, use_index: bool) -> LookedUp:
    """Look messages up, at most ``limit``. Raises SettingsError, OSError."""
    with StoreDirectory(root, layer=layer_of(root)) as store:
        return _RemoteLookup(store, wanted).run(limit, use_index=use_index)


def walk(part: WalkedPart) -> Iterator[pa.RecordBatch]:
    """Scan a part; yield the messages that match, as rows of ``HITS``, or the error if it cannot be read."""
    kernels.load_if_possible()
    hits: list[dict[str, object]] = []
    try:
        for offset, found in islice(_walked(part), min(part.limit, sys.maxsize)):
            hits.append(
                {
                    "store": part.store,
                    "offset": offset,
                    "record": encode(found.record),
                    "damage": found.damage,
                }
            )
    except (CometMQError, OSError) as failed:
        hits = [{"store": part.store, "error": str(failed) or type(failed).__name__}]
    yield pa.RecordBatch.from_pylist(hits, _HITS)


def _walked(part: WalkedPart) -> Iterator[tuple[int, Found]]:
    ops = kernels.loading.ops
    for piece in part.pieces:
        source = opened(piece.file.path, piece.file.size, piece.end)
        for data, _, scan in scans(source, piece, ops, on_damage=lambda _: None, crc=Crc.NONE):
            buffer = np.frombuffer(data, np.uint8)
            for place in candidates(buffer, scan, part.wanted, part.delay_levels).tolist():
                begin = int(scan.position[place])
                found = found_in(bytes(data[begin : begin + int(scan.size[place])]), part.crc)
                if found is not None and part.wanted.matches(found.record):
                    yield int(scan.physical_offset[place]), found


class _RemoteLookup(MessageLookup):
    """Finds messages of a store whose files are read in parts, and the ranges of the log left to scan."""

    def run(self, limit: int, *, use_index: bool) -> LookedUp:
        """Look the messages up, at most ``limit``."""
        if (found := self.by_offset_id()) is not None:
            return self._result(found, [])
        begin, end = self._time_range()
        if not use_index or (indexed := self.indexed()) is None:
            return self._result([], [(begin, end)])
        hits = islice(self.matching(indexed.offsets), min(limit, sys.maxsize))
        return self._result(hits, [(begin, min(indexed.begin, end)), (max(begin, indexed.end), end)])

    def read(self, physical_offset: int) -> bytes | None:
        """Read the record at a CommitLog offset, a damaged one too; None if none begins there."""
        chain = self.store.log.chain
        if (start := chain.start_of(physical_offset)) is None:
            return None
        file, position = chain.file(start), physical_offset - start
        size = size_of_record(file.read(position, RECORD_START_SIZE), physical_offset)
        data = b"" if size is None else file.read(position, size)
        return data if data and len(data) == size else None

    def index_files(self, findings: list[Finding]) -> list[IndexByReads]:
        """Return the index files; those that cannot be used are added to ``findings``."""
        settings = self.store.settings
        return [
            IndexByReads(
                self.store.layer.open(path, writable=False),
                settings.max_hash_slot_num,
                settings.max_index_num,
            )
            for path in self.store.index_paths(findings)
        ]

    def _result(self, found: Iterable[Found], ranges: list[tuple[int, int]]) -> LookedUp:
        files = log_files_of(self.store)
        by_offset = {one.record.physical_offset: one for one in found}
        return LookedUp(by_offset, ranges, files, self.store.log.crc, self.store.delay_levels)

    def _time_range(self) -> tuple[int, int]:
        """Return the CommitLog offsets between which the messages of the query's time range must be."""
        chain, wanted = self.store.log.chain, self.wanted
        starts, begin, end = chain.starts, chain.first_offset, chain.end_offset
        if wanted.begin_time != TIME_MIN:
            number = bisect_left(starts, wanted.begin_time, key=self._first_time) - 1
            begin = starts[max(number, 0)] if starts else begin
        if wanted.end_time != TIME_MAX:
            number = bisect_right(starts, wanted.end_time, key=self._first_time)
            end = starts[number] if number < len(starts) else end
        return begin, end

    def _first_time(self, start: int) -> int:
        """Return the store time of a file's first record, ms; AFTER_ALL if there is none."""
        chain = self.store.log.chain
        path, size = path_of(chain.path(start)), chain.file_size
        file = LogFile(path, start, size, size)
        piece = FilePiece(file, 0, size, more_follows=False)
        walk = PieceWalk(opened(path, size, NEAR_BYTES), piece, self.store.log.crc)
        position = walk.next_record(0, size)
        return AFTER_ALL if position is None else record_store_time(walk.read_record(position)[:BODY_AT])
