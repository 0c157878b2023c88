"""Find records by key, through the index of an open store."""

from typing import Final, NamedTuple

from cometmq.format.dispatch import KeyKind
from cometmq.format.record import RecordHead, read_head
from cometmq.kernels.queries.plain import record_has_key
from cometmq.store.index.index import Index
from cometmq.store.log.commit_log import CommitLog
from cometmq.store.read.log_bytes import resident_record
from cometmq.store.reading import PAUSE, Reading

COMPARED_AT_ONCE: Final = 64
"""Records compared before the loop gets a turn: many may have the key's hash, but not the key."""


class QueryResult(NamedTuple):
    """Raw records found by key, oldest first, and store time (ms) and offset of the newest indexed record."""

    records: list[bytes]
    index_last_update_time: int
    index_last_update_offset: int


def query_records(
    log: CommitLog,
    index: Index,
    topic: str,
    key: str,
    *,
    max_count: int,
    begin_time: int,
    end_time: int,
    kind: KeyKind = KeyKind.ANY,
) -> Reading[QueryResult]:
    """Find the newest records of a topic with a key, stored within a time range (ms).

    The index holds only a hash of topic and key, so each record is compared with both. A record that has the
    key twice is found once.

    Args:
        max_count: most records to return.
        kind: which of a message's keys count.
    """
    compared: set[int] = set()
    records: dict[int, bytes] = {}
    limit = max_count
    while True:
        offsets = yield from index.find(topic, key, begin_time=begin_time, end_time=end_time, max_count=limit)
        for offset in reversed(offsets):
            if offset in compared:
                continue
            found = resident_record(log, offset) or (yield from _read_record(log, offset))
            if found is not None and record_has_key(*found, topic, key, kind):
                records[offset] = found[0]
            compared.add(offset)
            if len(compared) % COMPARED_AT_ONCE == 0:
                yield PAUSE
        if len(records) >= max_count or len(offsets) < limit:
            break
        limit *= 2  # others have the same hash, or a record has the key twice
    newest = sorted(records)[max(len(records) - max_count, 0) :]
    return QueryResult([records[offset] for offset in newest], *index.last_update)


def _read_record(log: CommitLog, offset: int) -> Reading[tuple[bytes, RecordHead] | None]:
    """Read a record that is not in memory, and its head; None if none begins there, or it is damaged."""
    record = yield from log.record_at(offset)
    return None if record is None else (record, read_head(record, 0))
