"""Finding a queue offset by time.

Source: RocketMQ ``store/ConsumeQueue.java`` (getOffsetInQueueByTime).
"""

from bisect import bisect_left, bisect_right

from cometmq.format.record import (
    BORN_HOST_AT,
    BORN_TIME_AT,
    HOST_GROWTH,
    STORE_HOST_AT,
    STORE_TIME_AT,
    SYS_FLAG_AT,
)
from cometmq.format.sys_flag import BORN_HOST_V6
from cometmq.store.commit_log import CommitLog
from cometmq.store.consume_queue import ConsumeQueue

NEVER = -1
"""The store time of a message that is not there."""
AFTER_ALL = 2**63 - 1


def offset_by_time(commit_log: CommitLog, queue: ConsumeQueue, time_ms: int, *, upper: bool) -> int:
    """Give the queue offset for a store time.

    Args:
        upper: False gives the first message stored at or after ``time_ms`` (``max_offset`` if none is);
            True gives the last one stored at or before it (``min_offset`` if none is).
    """
    offsets = range(queue.min_offset, queue.max_offset)

    def store_time(queue_offset: int) -> int:
        """Of the first message from there on: where fillers stand for lost ones, times must not go back."""
        found = queue.first_message(queue_offset)
        return AFTER_ALL if found is None else store_time_at(commit_log, queue, found[0])

    if not upper:
        first = queue.first_message(queue.min_offset + bisect_left(offsets, time_ms, key=store_time))
        return queue.max_offset if first is None else first[0]
    return queue.min_offset + max(bisect_right(offsets, time_ms, key=store_time) - 1, 0)


def store_time_at(commit_log: CommitLog, queue: ConsumeQueue, queue_offset: int) -> int:
    """Give when the message at ``queue_offset`` was stored, ms; NEVER if it is not there."""
    if not queue.min_offset <= queue_offset < queue.max_offset:
        return NEVER
    head = commit_log.read(queue.entry(queue_offset).physical_offset, STORE_HOST_AT + HOST_GROWTH)
    return NEVER if head is None else record_store_time(head)


def record_store_time(head: bytes) -> int:
    """Give the store time, ms, of a record of which at least the first 76 bytes are given."""
    sys_flag = int.from_bytes(head[SYS_FLAG_AT:BORN_TIME_AT], "big")
    at = STORE_TIME_AT + (HOST_GROWTH if sys_flag & BORN_HOST_V6 else 0)
    return int.from_bytes(head[at : at + 8], "big", signed=True)


assert STORE_TIME_AT == BORN_HOST_AT + 8
