"""Finding records by key, through the index of an open store."""

from typing import NamedTuple

from cometmq.store.commit_log import CommitLog
from cometmq.store.index import Index
from cometmq.store.reading import Reading
from cometmq.store.usual_reads import UsualReads


class QueryResult(NamedTuple):
    """What a query by key gave: raw records, oldest first, and how far the index goes.

    Only the keys' hashes were compared: who must be exact looks at the records' keys.
    """

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
    usual: UsualReads | None = None,
) -> Reading[QueryResult]:
    """Find the newest records of a topic with a key, stored within a time range (ms).

    Args:
        usual: reads what needs nothing but what is in memory, or None.
    """
    offsets = yield from index.find(topic, key, begin_time=begin_time, end_time=end_time, max_count=max_count)
    records = []
    for offset in offsets:
        record = None if usual is None else usual.record(offset)
        if record is None:
            record = yield from log.record_at(offset)
        if record is not None:
            records.append(record)
    return QueryResult(records, *index.last_update)
