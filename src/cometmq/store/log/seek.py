"""Find a queue offset by store time, and the store time of a message.

Source: RocketMQ ``store/ConsumeQueue.java`` (getOffsetInQueueByTime).
"""

from collections.abc import Callable

from cometmq.format.record import BORN_TIME_AT, HOST_GROWTH, STORE_HOST_AT, STORE_TIME_AT, SYS_FLAG_AT
from cometmq.format.sys_flag import BORN_HOST_V6
from cometmq.message import Buffer
from cometmq.store.log.commit_log import CommitLog
from cometmq.store.queue.consume_queue import ConsumeQueue
from cometmq.store.reading import Reading

NEVER = -1
"""Store time of a message that does not exist."""
AFTER_ALL = 2**63 - 1
"""A store time later than all others."""


def offset_by_time(commit_log: CommitLog, queue: ConsumeQueue, time_ms: int, *, upper: bool) -> Reading[int]:
    """Find the queue offset for a store time, among the messages whose records still exist.

    Args:
        upper: False finds the first message stored at or after ``time_ms`` (``max_offset`` if none is);
            True finds the last one stored at or before it (the first of all if none is).
    """

    def is_there(queue_offset: int) -> Reading[bool]:
        found = yield from queue.find_message(queue_offset)
        return found is None or found[1].physical_offset >= commit_log.min_offset

    def is_later(queue_offset: int) -> Reading[bool]:
        # A filler of a lost message counts as the message behind it: the times must stay ascending.
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
    """Return the store time of the message at ``queue_offset``, ms; NEVER if it does not exist."""
    if not queue.min_offset <= queue_offset < queue.max_offset:
        return NEVER
    found = yield from queue.find_message(queue_offset)
    if found is None or found[0] != queue_offset:
        return NEVER
    head = yield from commit_log.bytes_at(found[1].physical_offset, STORE_HOST_AT + HOST_GROWTH)
    return NEVER if head is None else record_store_time(head)


def record_store_time(head: Buffer) -> int:
    """Return the store time, ms, of a record from its first 76 bytes or more."""
    sys_flag = int.from_bytes(head[SYS_FLAG_AT:BORN_TIME_AT], "big")
    growth = HOST_GROWTH if sys_flag & BORN_HOST_V6 else 0
    return int.from_bytes(head[STORE_TIME_AT + growth : STORE_HOST_AT + growth], "big", signed=True)


def _bisect(low: int, high: int, holds: Callable[[int], Reading[bool]]) -> Reading[int]:
    """Find the first number in ``low <= n < high`` for which ``holds`` is true; ``high`` if there is none."""
    while low < high:
        middle = (low + high) // 2
        if (yield from holds(middle)):
            high = middle
        else:
            low = middle + 1
    return low
