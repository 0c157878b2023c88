"""Find the last records of the log that contain some bytes, without scanning all records.

It searches for the bytes, and from a hit backwards for the beginning of its record. A start uses this, before
the kernels are loaded.
"""

import re
from collections.abc import Iterator

from cometmq.errors import DamagedRecord
from cometmq.format.record import MAGIC_AT, MAGICS, RecordHead, read_head
from cometmq.message import Buffer
from cometmq.store.log.commit_log import CommitLog
from cometmq.store.log.log_seek import log_offset_by_time

_REACHES = [1 << 10, 1 << 16, 1 << 32]
"""Distances, in bytes, of the searches backwards for the beginning of a record: most are short."""


def recent_records(
    log: CommitLog, since_ms: int, bytes_max: int, having: bytes
) -> Iterator[tuple[Buffer, RecordHead]]:
    """Find the records that contain ``having``, oldest first; yield a file's bytes and the head in them.

    Args:
        since_ms: store time, ms, of the earliest record.
        bytes_max: size of the log's end that is searched.
    """
    begin = max(log_offset_by_time(log, since_ms), log.written_offset - bytes_max)
    sought = re.compile(re.escape(having))
    for start in list(log.chain.starts):
        if begin >= start + log.chain.file_size or start >= log.written_offset:
            continue
        with log.chain.held(start) as file:  # this may run in a thread
            view = file.view()
            position, end = max(begin - start, 0), min(log.written_offset - start, len(view))
            for found in sought.finditer(view, position, end):
                if found.start() < position:
                    continue  # in the record that was yielded last
                head = _record_around(view, found.start(), position, end, start)
                if head is not None:
                    yield view, head
                    position = head.position + head.size


def _record_around(view: memoryview, place: int, begin: int, end: int, base_offset: int) -> RecordHead | None:
    """Find the record that begins at ``begin`` or later and contains the byte at ``place``."""
    behind = place
    for reach in _REACHES:
        low = max(place - reach, begin)
        stretch = bytes(view[low:behind])
        at = len(stretch)
        while (at := max(stretch.rfind(magic, 0, at) for magic in MAGICS)) >= MAGIC_AT:
            position = low + at - MAGIC_AT
            try:
                head = read_head(view, position, end, physical_offset=base_offset + position)
            except DamagedRecord:
                continue  # bytes that only look like a beginning
            return head if position + head.size > place else None
        if low == begin:
            break
        behind = min(low + 2 * MAGIC_AT, place)  # a magic may lie across the border
    return None
