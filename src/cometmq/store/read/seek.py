"""Finding a queue offset by time.

Source: RocketMQ ``store/ConsumeQueue.java`` (getOffsetInQueueByTime).
"""

from collections.abc import Callable

from cometmq.format.record import (
    BORN_HOST_AT,
    BORN_TIME_AT,
    HOST_GROWTH,
    STORE_HOST_AT,
    STORE_TIME_AT,
    SYS_FLAG_AT,
)
from cometmq.format.sys_flag import BORN_HOST_V6
from cometmq.message import Buffer
from cometmq.store.log.commit_log import CommitLog
from cometmq.store.queue.consume_queue import ConsumeQueue
from cometmq.store.read.reading import Reading

NEVER = -1
"""The store time of a message that is not there."""
AFTER_ALL = 2**63 - 1


def offset_by_time(commit_log: CommitLog, queue: ConsumeQueue, time_ms: int, *, upper: bool) -> Reading[int]:
    """Find the queue offset for a store time, among the messages whose records are still there.

    Args:
        upper: False gives the first message stored at or after ``time_ms`` (``max_offset`` if none is);
            True gives the last one stored at or before it (the first one of all if none is).
    """

    def is_there(queue_offset: int) -> Reading[bool]:
        found = yield from queue.find_message(queue_offset)
        return found is None or found[1].physical_offset >= commit_log.min_offset

    def is_later(queue_offset: int) -> Reading[bool]:
        # Of the first message from there on: where fillers stand for lost ones, times must not go back.
        found = yield from queue.find_message(queue_offset)
        time = AFTER_ALL if found is None else (yield from store_time_at(commit_log, queue, found[0]))
        return time > time_ms if upper else time >= time_ms

    first = queue.min_offset
    if not (yield from is_there(first)):
        first = yield from _bisect(first + 1, queue.max_offset, is_there)
    later = yield from _bisect(first, queue.max_offset, is_later)
    if upper:
        return max(later - 1, first)
    found = yield from queue.find_message(later)
    return queue.max_offset if found is None else found[0]


def store_time_at(commit_log: CommitLog, queue: ConsumeQueue, queue_offset: int) -> Reading[int]:
    """Find when the message at ``queue_offset`` was stored, ms; NEVER if it is not there."""
    if not queue.min_offset <= queue_offset < queue.max_offset:
        return NEVER
    found = yield from queue.find_message(queue_offset)
    if found is None or found[0] != queue_offset:
        return NEVER
    head = yield from commit_log.bytes_at(found[1].physical_offset, STORE_HOST_AT + HOST_GROWTH)
    return NEVER if head is None else record_store_time(head)


def record_store_time(head: Buffer) -> int:
    """Give the store time, ms, of a record of which at least the first 76 bytes are given."""
    sys_flag = int.from_bytes(head[SYS_FLAG_AT:BORN_TIME_AT], "big")
    at = STORE_TIME_AT + (HOST_GROWTH if sys_flag & BORN_HOST_V6 else 0)
    return int.from_bytes(head[at : at + 8], "big", signed=True)


def _bisect(low: int, high: int, holds: Callable[[int], Reading[bool]]) -> Reading[int]:
    """Find the first number from ``low`` to before ``high`` for which ``holds``, or ``high``."""
    while low < high:
        middle = (low + high) // 2
        if (yield from holds(middle)):
            high = middle
        else:
            low = middle + 1
    return low


assert STORE_TIME_AT == BORN_HOST_AT + 8
