"""Find messages in a store that is only read, by id, key, time, topic and tags.

An offset id names its record. Keys and unique ids are looked up in the index, topic by topic, since its
hashes are of topic and key; records that the index does not cover (the newest, which a broker had not written
to it yet) are scanned. Without an index the whole log is scanned. A time is mapped to its place in the log by
bisection (``log_seek``).

However a record was found, it is compared with the whole query.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from cometmq import kernels
from cometmq.errors import DamagedRecord, FormatError
from cometmq.format import layout, properties
from cometmq.format.checksum import Crc
from cometmq.format.delay_level import SCHEDULE_TOPIC, DelayLevels
from cometmq.format.java.java_hash import index_key_hash, tags_code
from cometmq.format.message_id import parse_offset_message_id
from cometmq.format.properties import split_keys
from cometmq.format.record import Record, decode
from cometmq.kernels.arrays import Bytes, Longs
from cometmq.kernels.ops import Dispatch, Scan
from cometmq.store.directory import StoreDirectory
from cometmq.store.files.finding import Finding
from cometmq.store.files.folders import topics_in
from cometmq.store.index.index_view import IndexContent
from cometmq.store.log.log_scan import LogScan
from cometmq.store.log.log_seek import log_offset_by_time
from cometmq.store.progress import Progress

TIME_MIN = -(2**63)
"""A store time before all others, those of damaged records too."""
TIME_MAX = 2**63 - 1


class Found(NamedTuple):
    """A message that was found.

    Attributes:
        damage: what is wrong with its body, empty if nothing is.
    """

    record: Record
    damage: str = ""


class FindQuery(NamedTuple):
    """The conditions of a search, all of which a message must meet.

    Attributes:
        message_id: an offset id or a unique id.
        key: one of the message's keys, or its unique id.
        begin_time: earliest store time, ms.
        end_time: latest store time, ms.
    """

    message_id: str | None = None
    key: str | None = None
    topic: str | None = None
    tags: str | None = None
    begin_time: int = TIME_MIN
    end_time: int = TIME_MAX

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of the index, of which a message must have one; empty if neither key nor id is a condition."""
        if self.message_id:
            return _spellings(self.message_id)
        return (self.key,) if self.key else ()

    def matches(self, record: Record) -> bool:
        """Check whether a record meets the conditions; ``message_id`` must not be an offset id."""
        by_name = properties.decode(record.properties)
        unique_id = by_name.get(properties.UNIQ_KEY)
        keys = split_keys(by_name.get(properties.KEYS, ""))
        return (
            (self.topic is None or record.topic == self.topic)
            and (self.tags is None or by_name.get(properties.TAGS) == self.tags)
            and (self.key is None or self.key in keys or self.key == unique_id)
            and (self.message_id is None or unique_id in _spellings(self.message_id))
            and self.begin_time <= record.store_time <= self.end_time
        )


class SearchableIndex(IndexContent, Protocol):
    """An index file that can be searched by key."""

    def find(self, key_hash: int) -> list[int]:
        """Return the CommitLog offsets of all records with the key's hash."""
        ...


class Indexed(NamedTuple):
    """The part of the log that the index covers.

    Attributes:
        begin: CommitLog offset of its first record.
        end: CommitLog offset behind its last record.
        offsets: CommitLog offsets of the records that may have one of the keys, ascending.
    """

    begin: int
    end: int
    offsets: list[int]


class MessageLookup:
    """Finds messages of a store by offset id and through the index, without a scan of the log.

    A subclass overrides ``read`` and ``index_files`` if the files are better read in another way.
    """

    def __init__(self, store: StoreDirectory, wanted: FindQuery) -> None:
        self.store = store
        self.wanted = wanted

    def read(self, physical_offset: int) -> bytes | None:
        """Read the record at a CommitLog offset, a damaged one too; None if none begins there."""
        return self.store.log.read_record(physical_offset, damaged=True)

    def index_files(self, findings: list[Finding]) -> Sequence[SearchableIndex]:
        """Return the index files; those that cannot be used are added to ``findings``."""
        return self.store.index(findings)

    def by_offset_id(self) -> list[Found] | None:
        """Return the message of the query's offset id, if it matches; None if there is no such id."""
        if self.wanted.message_id is None:
            return None
        try:
            host, physical_offset = parse_offset_message_id(self.wanted.message_id)
        except FormatError:
            return None
        found = self._found_at(physical_offset)
        if found is None or found.record.store_host != host:
            return None
        return [found] if self.wanted._replace(message_id=None).matches(found.record) else []

    def indexed(self) -> Indexed | None:
        """Look the query's keys up in the index; None without keys, or if the index cannot be used."""
        if not self.wanted.keys or (self.wanted.topic is None and self.store.are_queues_foreign):
            return None  # topics may be unknown
        findings: list[Finding] = []
        files = self.index_files(findings)
        if findings or any(file.header.next_entry > file.entry_count for file in files):
            return None
        used = [file for file in files if len(file.entries) > 1]
        if not used:
            return None
        used.sort(key=lambda file: file.header.begin_physical_offset)
        first, last = used[0].header.begin_physical_offset, used[-1].header.end_physical_offset
        topics = [self.wanted.topic] if self.wanted.topic is not None else self._topics()
        hashes = {index_key_hash(topic, key) for topic in topics for key in self.wanted.keys}
        offsets = {offset for file in used for key_hash in hashes for offset in file.find(key_hash)}
        end = last + len(self.read(last) or b"")
        return Indexed(first, end, sorted(offset for offset in offsets if first <= offset <= last))

    def matching(self, offsets: Iterable[int]) -> Iterator[Found]:
        """Read the records at these offsets; yield those that match the query."""
        for offset in offsets:
            found = self._found_at(offset)
            if found is not None and self.wanted.matches(found.record):
                yield found

    def _found_at(self, physical_offset: int) -> Found | None:
        data = self.read(physical_offset)
        return None if data is None else found_in(data, self.store.log.crc)

    def _topics(self) -> list[str]:
        """Return the topics that have queues, and those in the broker's table."""
        queues = layout.consume_queues_dir(self.store.root)
        return sorted({*topics_in(self.store.layer, queues), *(self.store.topics() or ())})


def find(
    store: StoreDirectory, wanted: FindQuery, *, use_index: bool = True, progress: Progress | None = None
) -> Iterator[Found]:
    """Find the messages that match a query, in the order of the log.

    Args:
        use_index: False scans the log even if there is an index, which may be damaged.
        progress: called while scanning, with the bytes of the log that are done and the total.
    """
    return _Search(store, wanted, progress).run(use_index=use_index)


class _Search(MessageLookup):
    """Finds messages of a store by look-up, and by a scan of the rest of its log."""

    def __init__(self, store: StoreDirectory, wanted: FindQuery, progress: Progress | None) -> None:
        super().__init__(store, wanted)
        self._progress = progress

    def run(self, *, use_index: bool) -> Iterator[Found]:
        """Find the messages, in the order of the log."""
        if (found := self.by_offset_id()) is not None:
            yield from found
            return
        begin, end = log_offset_by_time(self.store.log, self.wanted.begin_time), self._end_of_time()
        if use_index and (indexed := self.indexed()) is not None:
            yield from self._scan(begin, min(indexed.begin, end))
            yield from self.matching(indexed.offsets)
            begin = max(begin, indexed.end)
        yield from self._scan(begin, end)

    def _scan(self, begin: int, end: int) -> Iterator[Found]:
        """Scan a stretch of the log; yield the records that match."""
        chain, total = self.store.log.chain, self.store.data_bytes()
        kernels.load_for(min(end - begin, total))
        for start in chain.starts:
            first, last = max(begin, start), min(end, start + chain.file_size)
            if first >= last:
                continue
            for chunk in LogScan(self.store.log, first, last, verify_crc=False):
                places = candidates(chunk.buffer, chunk.scan, self.wanted, self.store.delay_levels)
                yield from self.matching(chunk.scan.physical_offset[places].tolist())
                self.store.drop_pages()
                if self._progress is not None:
                    self._progress(chunk.end_offset - chain.first_offset, total)
                if chunk.scan.store_time[0] > self.wanted.end_time:
                    return

    def _end_of_time(self) -> int:
        """Return an offset behind the last record of the query's time range."""
        log = self.store.log
        if self.wanted.end_time == TIME_MAX:
            return log.chain.end_offset
        offset = log_offset_by_time(log, self.wanted.end_time + 1)
        return log.chain.end_offset if self.read(offset) is None else offset


def candidates(buffer: Bytes, scan: Scan, wanted: FindQuery, delay_levels: DelayLevels) -> Longs:
    """Return which records of a scan of ``buffer``, uint8[n], may match, by their fields: int64[m]."""
    chosen = (scan.store_time >= wanted.begin_time) & (scan.store_time <= wanted.end_time)
    if not chosen.any():
        return np.flatnonzero(chosen)
    dispatch = kernels.loading.ops.dispatch(buffer, scan, delay_levels)
    if wanted.topic is not None:
        mine = [topic == wanted.topic for topic, _ in dispatch.queues]
        chosen &= np.array(mine, np.bool_)[dispatch.queue]
    if wanted.tags is not None:
        delayed = [topic == SCHEDULE_TOPIC for topic, _ in dispatch.queues]
        same = dispatch.tags_code == tags_code(wanted.tags)
        chosen &= same | np.array(delayed, np.bool_)[dispatch.queue]
    if wanted.keys:
        with_key = np.zeros(scan.count, np.bool_)
        for key in wanted.keys:
            with_key[_records_with(key, dispatch)] = True
        chosen &= with_key
    return np.flatnonzero(chosen)


def found_in(data: bytes, crc: Crc) -> Found | None:
    """Decode the message of a record, even if its body is damaged; None if it cannot be decoded."""
    try:
        return Found(decode(data, crc=crc))
    except DamagedRecord as damage:
        reason = damage.reason
    try:
        return Found(decode(data, crc=Crc.NONE), reason)
    except DamagedRecord:
        return None


def _spellings(message_id: str) -> tuple[str, ...]:
    """Return an id as it is, and in capitals, as nearly all clients write theirs."""
    return tuple(dict.fromkeys((message_id, message_id.upper())))


def _records_with(key: str, dispatch: Dispatch) -> Longs:
    """Return the indexes of the records that may have the key, int64[n]."""
    hashes = np.array([index_key_hash(topic, key) for topic, _ in dispatch.queues], np.int32)
    records: Longs = dispatch.key_record[dispatch.key_hash == hashes[dispatch.queue[dispatch.key_record]]]
    return records
