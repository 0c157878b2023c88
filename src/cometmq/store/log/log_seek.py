"""Find a CommitLog offset by store time, by bisection.

The log is in the order of store times, unless the machine's clock was set back.
"""

from bisect import bisect_left

from cometmq.format.record import HEAD_MAX_SIZE, RecordHead
from cometmq.format.scan import check, find_next_record
from cometmq.store.log.commit_log import CommitLog
from cometmq.store.log.seek import AFTER_ALL, record_store_time

NEAR_BYTES = 64 * 1024
"""Bisection ends at a stretch of this size, which is scanned."""


def log_offset_by_time(log: CommitLog, time_ms: int) -> int:
    """Find the offset of the first record stored at ``time_ms`` or later, or of damage or blank before."""
    chain = log.chain
    if time_ms <= 0:
        return chain.first_offset
    number = bisect_left(chain.starts, time_ms, key=lambda start: _record_behind(log, start, 0)[1]) - 1
    if number < 0:
        return chain.first_offset
    start = chain.starts[number]
    low, high = 0, chain.file(start).data_end(0)
    while high - low > NEAR_BYTES:
        middle = (low + high) // 2
        position, found_time = _record_behind(log, start, middle)
        if found_time < time_ms:
            low = position
        else:
            high = middle
    view = chain.file(start).view()
    while isinstance(head := check(view, low, len(view), base_offset=start, crc=log.crc), RecordHead):
        if head.store_time >= time_ms:
            break
        low += head.size
    return start + low


def _record_behind(log: CommitLog, start: int, position: int) -> tuple[int, int]:
    """Return position and store time of a file's next record; the file's size and AFTER_ALL without one."""
    file = log.chain.file(start)
    view = file.view()
    found = find_next_record(view, position, base_offset=start, end=file.data_end(position), crc=log.crc)
    if found is None:
        return file.size, AFTER_ALL
    return found, record_store_time(bytes(view[found : found + HEAD_MAX_SIZE]))
