"""Find records by key, through the index of an open store."""

from typing import Final, NamedTuple

from cometmq.format.dispatch import KeyKind
from cometmq.kernels.queries.plain import record_has_key
from cometmq.store.index.index import Index
from cometmq.store.log.commit_log import CommitLog
from cometmq.store.read.log_bytes import record_at
from cometmq.store.read.reading import PAUSE, Reading

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
    compared: dict[int, bytes | None] = {}
    limit = max_count
    while True:
        offsets = yield from index.find(topic, key, begin_time=begin_time, end_time=end_time, max_count=limit)
        for offset in sorted(set(offsets).difference(compared), reverse=True):
            record = yield from record_at(log, offset)
            is_found = record is not None and record_has_key(record, topic, key, kind)
            compared[offset] = record if is_found else None
            if len(compared) % COMPARED_AT_ONCE == 0:
                yield PAUSE
        found = sorted(offset for offset, record in compared.items() if record is not None)
        if len(found) >= max_count or len(offsets) < limit:
            break
        limit *= 2  # others have the same hash, or a record has the key twice
    records = [compared[offset] for offset in found[max(len(found) - max_count, 0) :]]
    return QueryResult([record for record in records if record is not None], *index.last_update)
