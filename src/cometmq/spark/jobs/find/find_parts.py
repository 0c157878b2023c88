"""What tasks do to find messages in a store: look them up by id, time and index, and walk pieces of the log.

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
from cometmq.errors import CometMQError, FormatError
from cometmq.format import layout
from cometmq.format.checksum import Crc
from cometmq.format.delay_level import DelayLevels
from cometmq.format.java.java_hash import index_key_hash
from cometmq.format.message_id import parse_offset_message_id
from cometmq.format.record import BODY_AT, encode
from cometmq.spark.files.remote import RemotePath, opened, path_of
from cometmq.spark.files.remote_files import layer_of
from cometmq.spark.files.splits import FilePiece, LogFile
from cometmq.spark.files.walk import PieceWalk, scans
from cometmq.spark.jobs.verify.index import IndexByReads
from cometmq.store.finding import Finding
from cometmq.store.folders import topics_in
from cometmq.store.log.commit_log import RECORD_START_SIZE, size_of_record
from cometmq.store.offline.directory import StoreDirectory
from cometmq.store.offline.find import TIME_MAX, TIME_MIN, FindQuery, Found, candidates, found_in
from cometmq.store.read.seek import AFTER_ALL, record_store_time

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
    """What was found of a store without walking its log, and what is left to be walked.

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
    """What one task walks of the log of a store.

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
        return _LookUp(store, wanted).run(limit, use_index=use_index)


def walk(part: WalkedPart) -> Iterator[pa.RecordBatch]:
    """Return the messages of a part that are asked for (of ``HITS``); if it cannot be read, why."""
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
    ops = kernels.current()
    for piece in part.pieces:
        source = opened(piece.file.path, piece.file.size, piece.end)
        buffer = np.frombuffer(source.data, np.uint8)
        for scan in scans(source, piece, ops, on_damage=lambda _: None, crc=Crc.NONE):
            for place in candidates(buffer, scan, part.wanted, part.delay_levels).tolist():
                begin = int(scan.position[place])
                data = bytes(source.data[begin : begin + int(scan.size[place])])
                found = found_in(data, part.crc)
                if found is not None and part.wanted.holds(found.record):
                    yield int(scan.physical_offset[place]), found


class _LookUp:
    """One look at a store."""

    def __init__(self, store: StoreDirectory, wanted: FindQuery) -> None:
        self._store = store
        self._wanted = wanted
        self._chain = store.log.chain

    def run(self, limit: int, *, use_index: bool) -> LookedUp:
        """Look the messages up."""
        found = self._by_offset_id()
        if found is not None:
            is_wanted = self._wanted._replace(message_id=None).holds(found.record)
            return self._result({found.record.physical_offset: found} if is_wanted else {}, [])
        begin, end = self._of_time()
        index = self._index() if self._wanted.keys and use_index else []
        if not index:
            return self._result({}, [(begin, end)])
        first, last = index[0].header.begin_physical_offset, index[-1].header.end_physical_offset
        offsets = (offset for offset in self._indexed(index) if first <= offset <= last)
        hits = dict(islice(self._true(offsets), min(limit, sys.maxsize)))
        return self._result(hits, [(begin, min(first, end)), (max(begin, self._behind(last)), end)])

    def _result(self, found: dict[int, Found], ranges: list[tuple[int, int]]) -> LookedUp:
        chain, is_remote = self._chain, isinstance(self._store.root, RemotePath)
        files = [
            LogFile(
                path_of(chain.path(start)),
                start,
                chain.file_size,
                chain.file_size if is_remote else chain.file(start).data_end(0),
            )
            for start in chain.starts
        ]
        return LookedUp(found, ranges, files, self._store.log.crc, self._store.delay_levels)

    def _by_offset_id(self) -> Found | None:
        """Return the message that the id names, if it is an offset id of this store."""
        if self._wanted.message_id is None:
            return None
        try:
            host, physical_offset = parse_offset_message_id(self._wanted.message_id)
        except FormatError:
            return None
        found = self._read(physical_offset)
        return found if found is not None and found.record.store_host == host else None

    def _of_time(self) -> tuple[int, int]:
        """Return the CommitLog offsets between which messages of the time asked for can be."""
        starts, wanted = self._chain.starts, self._wanted
        begin, end = self._chain.first_offset, self._chain.end_offset
        if wanted.begin_time != TIME_MIN:
            number = bisect_left(starts, wanted.begin_time, key=self._first_time) - 1
            begin = starts[max(number, 0)] if starts else begin
        if wanted.end_time != TIME_MAX:
            number = bisect_right(starts, wanted.end_time, key=self._first_time)
            end = starts[number] if number < len(starts) else end
        return begin, end

    def _first_time(self, start: int) -> int:
        """Return when the first record of a file was stored, ms; AFTER_ALL if there is none."""
        path, size = path_of(self._chain.path(start)), self._chain.file_size
        file = LogFile(path, start, size, size)
        found = opened(path, size, NEAR_BYTES)
        piece = FilePiece(file, 0, size, more_follows=False)
        position = PieceWalk(found, piece, self._store.log.crc).next_record(0, size)
        return AFTER_ALL if position is None else record_store_time(found.data[position : position + BODY_AT])

    def _index(self) -> list[IndexByReads]:
        """Return the index files, in the order of the log; none if one cannot be used."""
        findings: list[Finding] = []
        settings = self._store.settings
        files = [
            IndexByReads(
                self._store.layer.open(path, writable=False),
                settings.max_hash_slot_num,
                settings.max_index_num,
            )
            for path in self._store.index_paths(findings)
        ]
        if findings or any(file.header.next_entry > file.entry_count for file in files):
            return []
        used = [file for file in files if len(file.entries) > 1]
        return sorted(used, key=lambda file: file.header.begin_physical_offset)

    def _indexed(self, index: list[IndexByReads]) -> list[int]:
        """Return the CommitLog offsets of records that may have one of the keys, ascending."""
        topics = [self._wanted.topic] if self._wanted.topic is not None else self._topics()
        hashes = {index_key_hash(topic, key) for topic in topics for key in self._wanted.keys}
        return sorted({offset for file in index for key_hash in hashes for offset in file.find(key_hash)})

    def _topics(self) -> list[str]:
        """Return the topics that messages can be of: those with queues, and those that the broker knows."""
        queues = layout.consume_queues_dir(self._store.root)
        return sorted({*topics_in(self._store.layer, queues), *(self._store.topics() or ())})

    def _true(self, offsets: Iterable[int]) -> Iterator[tuple[int, Found]]:
        """Return of the messages at these offsets those that are asked for."""
        for offset in offsets:
            found = self._read(offset)
            if found is not None and self._wanted.holds(found.record):
                yield offset, found

    def _behind(self, physical_offset: int) -> int:
        """Return the offset behind a record; its own if it cannot be read."""
        return physical_offset + len(self._record(physical_offset))

    def _read(self, physical_offset: int) -> Found | None:
        data = self._record(physical_offset)
        return found_in(data, self._store.log.crc) if data else None

    def _record(self, physical_offset: int) -> bytes:
        """Return the bytes of the record at an offset; none if none begins there."""
        start = self._chain.start_of(physical_offset)
        if start is None:
            return b""
        file, position = self._chain.file(start), physical_offset - start
        size = size_of_record(file.read(position, RECORD_START_SIZE), physical_offset)
        data = b"" if size is None else file.read(position, size)
        return data if len(data) == size else b""
