"""After a kill: the offsets of pops that were moved and not saved are found again in the log.

Offsets are saved every few seconds. A killed broker would hand out again, before their time, the messages of
the pops since the last save. But each of those pops has a check point in the log: so the timer topic, and the
revive topic for short times, are read from the last save on, and offsets move behind what their check points
name. (RocketMQ does not do this: after a kill its consumers get these messages twice.)
"""

from typing import Final

from cometmq.broker.reads import read, records_between
from cometmq.broker.state.groups import Groups
from cometmq.broker.state.offsets import Offsets
from cometmq.broker.state.pop.handles import HandlePoint
from cometmq.broker.timed.delays import QUEUE_ID
from cometmq.broker.timed.revive_log import ReviveLog
from cometmq.errors import FormatError
from cometmq.format import properties
from cometmq.format.java.java_hash import tags_code
from cometmq.format.pop.check_point import (
    ACK_TAG,
    BATCH_ACK_TAG,
    CHECK_POINT_TAG,
    CheckPoint,
    PopKey,
    decode_ack,
    decode_check_point,
)
from cometmq.format.properties import REAL_QUEUE_ID, REAL_TOPIC, TAGS, TIMER_OUT_MS
from cometmq.format.record import Record
from cometmq.format.timer.log import TIMER_TOPIC
from cometmq.store.store import MessageStore

MARGIN_MS: Final = 10_000
"""How much earlier than a save ended the offsets in it may have been copied."""
LOOKED_AT_MAX: Final = 10_000
"""Most records of the timer topic that are read at a start to know what is left of check points."""
ALL_WANTED: Final = frozenset(map(tags_code, (CHECK_POINT_TAG, ACK_TAG, BATCH_ACK_TAG)))
"""The tags codes of check points and acknowledgements."""
WANTED: Final = frozenset({tags_code(CHECK_POINT_TAG)})
"""The tags codes of check points."""
FROM_TIMER: Final = f"{TIMER_OUT_MS}{properties.NAME_END}".encode()
"""What check points hold that the timer has delivered: they are read in the timer topic, by their time."""


async def restore_left(store: MessageStore, log: ReviveLog) -> None:
    """Find what is left of the check points that wait in the timer. Raises OSError.

    Older ones than ``LOOKED_AT_MAX`` records stay unknown: their handles are believed.
    """
    now_ms, end = log.now_ms(), store.max_queue_offset(TIMER_TOPIC, QUEUE_ID)
    begin = max(end - LOOKED_AT_MAX, store.min_queue_offset(TIMER_TOPIC, QUEUE_ID))
    found: dict[PopKey, tuple[HandlePoint, set[int]]] = {}
    async for record in records_between(store, TIMER_TOPIC, QUEUE_ID, begin, end, ALL_WANTED, None):
        named = properties.decode(record.properties)
        if named.get(REAL_TOPIC) != log.topic:
            continue
        try:
            if named.get(TAGS) != CHECK_POINT_TAG:
                ack = decode_ack(record.body, log.broker_name)
                if ack.key in found:
                    found[ack.key][1].difference_update(ack.offsets)
                continue
            point = decode_check_point(record.body, log.broker_name)
        except FormatError:  # the revive logs it
            continue
        queue_id = named.get(REAL_QUEUE_ID, "")
        if point.revive_time_ms > now_ms and queue_id.isdecimal():
            where = HandlePoint(point.key, point.revive_time_ms, int(queue_id))
            found[point.key] = where, set(point.offsets)
    for where, left in found.values():
        log.settled.close(where, left)


async def restore_offsets(
    store: MessageStore,
    offsets: Offsets,
    groups: Groups,
    revive_topic: str,
    revive_queue_count: int,
    saved_ms: int,
) -> int:
    """Move the offsets of groups behind the messages that were popped since the last save.

    Args:
        saved_ms: when offsets were saved last, ms since the epoch; 0 if never.

    Returns:
        How many offsets were moved. Raises OSError.
    """
    ends: dict[tuple[str, str, int], int] = {}
    queues = [(TIMER_TOPIC, QUEUE_ID), *((revive_topic, number) for number in range(revive_queue_count))]
    for topic, queue_id in queues:
        since = store.readings.offset_by_time(topic, queue_id, max(saved_ms - MARGIN_MS, 0))
        offset, end = await read(store, since), store.max_queue_offset(topic, queue_id)
        without = None if topic == TIMER_TOPIC else FROM_TIMER
        async for record in records_between(store, topic, queue_id, offset, end, WANTED, without):
            point = _check_point(record, revive_topic)
            if point is not None and store.deleted_before(point.topic) <= record.physical_offset:
                key = point.group, point.topic, point.queue_id
                ends[key] = max(ends.get(key, 0), *(one + 1 for one in point.offsets))
    moved = 0
    for (group, topic, queue_id), behind in ends.items():
        committed = offsets.committed(group, topic, queue_id)
        is_known = groups.find(group) is not None and behind <= store.max_queue_offset(topic, queue_id)
        if is_known and (committed is None or committed < behind):
            offsets.commit_with_log(group, topic, queue_id, behind)
            moved += 1
    return moved


def _check_point(record: Record, revive_topic: str) -> CheckPoint | None:
    """Return the check point that a record holds, in the timer or not; None if it is another message."""
    named = properties.decode(record.properties)
    if named.get(TAGS) != CHECK_POINT_TAG or revive_topic not in (record.topic, named.get(REAL_TOPIC)):
        return None
    try:
        point = decode_check_point(record.body)
    except FormatError:  # the revive logs it
        return None
    return point if point.distances else None
