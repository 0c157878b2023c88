"""Finding messages in a store that is only read, by id, key, time, topic and tags.

An offset id names its record. Keys and unique ids are looked up in the index, topic by topic, since its
hashes are over topic and key; what the index does not reach (the newest records, which a broker had not
written to it yet) is scanned. Without an index the whole log is. A time leads to its place in the log by
bisection (``log_seek``).

Whatever way a record was found, it is held against all that was asked for.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from cometmq import kernels
from cometmq.errors import DamagedRecord, FormatError
from cometmq.format import properties
from cometmq.format.checksum import Crc
from cometmq.format.delay_level import SCHEDULE_TOPIC, DelayLevels
from cometmq.format.java.java_hash import index_key_hash, tags_code
from cometmq.format.message_id import parse_offset_message_id
from cometmq.format.properties import split_keys
from cometmq.format.record import Record, decode
from cometmq.kernels.ops import Bytes, Dispatch, Longs, Scan
from cometmq.store.finding import Finding
from cometmq.store.index.index_view import IndexView
from cometmq.store.offline.directory import StoreDirectory
from cometmq.store.progress import Progress
from cometmq.store.read.log_seek import log_offset_by_time
from cometmq.store.recovery.log_scan import LogScan

TIME_MIN = -(2**63)
"""No damaged record has an earlier time."""
TIME_MAX = 2**63 - 1


class Found(NamedTuple):
    """A message that was found.

    Attributes:
        damage: what is wrong with its body, empty if nothing is.
    """

    record: Record
    damage: str = ""


class FindQuery(NamedTuple):
    """What is asked for; all of it must hold.

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
        """Keys of the index, of which a message must have one; none if it is not asked for by a key or id."""
        if self.message_id:
            return _spellings(self.message_id)
        return (self.key,) if self.key else ()

    def holds(self, record: Record) -> bool:
        """Tell whether a record is one of those asked for; an offset id has been looked at before."""
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


def find(
    store: StoreDirectory, wanted: FindQuery, *, use_index: bool = True, progress: Progress | None = None
) -> Iterator[Found]:
    """Give the messages asked for, in the order of the log.

    Args:
        use_index: False scans the log even where there is an index, which may be damaged.
        progress: told the bytes of the log that are done, and all of them, while scanning.
    """
    return _Search(store, wanted, progress).run(use_index=use_index)


class _Search:
    """One search."""

    def __init__(self, store: StoreDirectory, wanted: FindQuery, progress: Progress | None) -> None:
        self._store = store
        self._wanted = wanted
        self._progress = progress

    def run(self, *, use_index: bool) -> Iterator[Found]:
        """Give the messages, in the order of the log."""
        wanted = self._wanted
        if (found := self._by_offset_id()) is not None:
            if wanted._replace(message_id=None).holds(found.record):
                yield found
            return
        keys = wanted.keys
        begin, end = log_offset_by_time(self._store.log, wanted.begin_time), self._end_of_time()
        if keys and use_index and (views := self._usable_index()):
            first, last = views[0].header.begin_physical_offset, views[-1].header.end_physical_offset
            yield from self._scan(begin, min(first, end))
            yield from self._true(offset for offset in self._look_up(views, keys) if first <= offset <= last)
            begin = max(begin, self._behind(last))
        yield from self._scan(begin, end)

    def _by_offset_id(self) -> Found | None:
        """Give the record that the id names, if it is an offset id of this store."""
        if self._wanted.message_id is None:
            return None
        try:
            host, physical_offset = parse_offset_message_id(self._wanted.message_id)
        except FormatError:
            return None
        found = self._read(physical_offset)
        return found if found is not None and found.record.store_host == host else None

    def _usable_index(self) -> list[IndexView]:
        """Give the index files; none if one cannot be used."""
        findings: list[Finding] = []
        views = self._store.index(findings)
        broken = findings or any(view.header.next_entry > view.entry_count for view in views)
        return [] if broken else [view for view in views if len(view.entries) > 1]

    def _look_up(self, views: list[IndexView], keys: Sequence[str]) -> list[int]:
        """Find the offsets of records that may have one of the keys, ascending."""
        topics = [self._wanted.topic] if self._wanted.topic is not None else self._topics()
        hashes = {index_key_hash(topic, key) for topic in topics for key in keys}
        return sorted({offset for view in views for key_hash in hashes for offset in view.find(key_hash)})

    def _topics(self) -> list[str]:
        """Give the topics that messages can be of: those with queues, and those that the broker knows."""
        queues = {queue.topic for queue in self._store.queues([])}
        return sorted(queues | (self._store.topics() or set()))

    def _behind(self, physical_offset: int) -> int:
        """Give the offset behind a record; its own if it cannot be read."""
        data = self._store.log.read_record(physical_offset, damaged=True)
        return physical_offset + (len(data) if data else 0)

    def _scan(self, begin: int, end: int) -> Iterator[Found]:
        """Give the records asked for of a stretch of the log."""
        chain, total = self._store.log.chain, self._store.data_bytes()
        kernels.load_for(min(end - begin, total))
        for start in chain.starts:
            first, last = max(begin, start), min(end, start + chain.file_size)
            if first >= last:
                continue
            for chunk in LogScan(self._store.log, first, last, verify_crc=False):
                places = candidates(chunk.buffer, chunk.scan, self._wanted, self._store.delay_levels)
                yield from self._true(chunk.scan.physical_offset[places].tolist())
                self._store.drop_pages()
                if self._progress is not None:
                    self._progress(chunk.end_offset - chain.first_offset, total)
                if chunk.scan.store_time[0] > self._wanted.end_time:
                    return

    def _true(self, offsets: Iterable[int]) -> Iterator[Found]:
        """Give of the records at these offsets those that are asked for."""
        for offset in offsets:
            found = self._read(offset)
            if found is not None and self._wanted.holds(found.record):
                yield found

    def _read(self, physical_offset: int) -> Found | None:
        data = self._store.log.read_record(physical_offset, damaged=True)
        return None if data is None else found_in(data, self._store.log.crc)

    def _end_of_time(self) -> int:
        """Give an offset behind the last record that was stored in the time asked for."""
        log = self._store.log
        if self._wanted.end_time == TIME_MAX:
            return log.chain.end_offset
        offset = log_offset_by_time(log, self._wanted.end_time + 1)
        return log.chain.end_offset if log.read_record(offset, damaged=True) is None else offset


def candidates(buffer: Bytes, scan: Scan, wanted: FindQuery, delay_levels: DelayLevels) -> Longs:
    """Return the places of the records that may be asked for, by what the kernels know of them."""
    chosen = (scan.store_time >= wanted.begin_time) & (scan.store_time <= wanted.end_time)
    if not chosen.any():
        return np.flatnonzero(chosen)
    dispatch = kernels.current().dispatch(buffer, scan, delay_levels)
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
    """Return the message that a record holds, also if only its body is damaged; None if it cannot be read."""
    try:
        return Found(decode(data, crc=crc))
    except DamagedRecord as damage:
        reason = damage.reason
    try:
        return Found(decode(data, crc=Crc.NONE), reason)
    except DamagedRecord:
        return None


def _spellings(message_id: str) -> tuple[str, ...]:
    """Return an id as it was given, and in capitals, as nearly all clients write theirs."""
    return tuple(dict.fromkeys((message_id, message_id.upper())))


def _records_with(key: str, dispatch: Dispatch) -> Longs:
    """Give the places of records that may have the key."""
    hashes = np.array([index_key_hash(topic, key) for topic, _ in dispatch.queues], np.int32)
    records: Longs = dispatch.key_record[dispatch.key_hash == hashes[dispatch.queue[dispatch.key_record]]]
    return records
