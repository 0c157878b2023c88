"""After a kill: the offsets of pops that were moved and not saved are found again in the log.

Offsets are saved every few seconds. A killed broker would hand out again, before their time, the messages of
the pops since the last save. But each of those pops has a check point in the log: so the timer topic is read
from the last save on, and offsets move behind what its check points name. (RocketMQ does not do this: after
a kill its consumers get these messages twice.)
"""

from typing import Final

from cometmq.broker.reads import read
from cometmq.broker.state.groups import Groups
from cometmq.broker.state.offsets import Offsets
from cometmq.broker.timed.delays import QUEUE_ID
from cometmq.errors import FormatError
from cometmq.format import properties
from cometmq.format.pop.check_point import CHECK_POINT_TAG, CheckPoint, decode_check_point
from cometmq.format.properties import REAL_TOPIC, TAGS
from cometmq.format.record import Record, decode
from cometmq.format.timer.log import TIMER_TOPIC
from cometmq.store.read.get_result import GetStatus
from cometmq.store.store import MessageStore

MARGIN_MS: Final = 10_000
"""How much earlier than a save ended the offsets in it may have been copied."""
AT_ONCE_MAX: Final = 32


async def restore_offsets(
    store: MessageStore, offsets: Offsets, groups: Groups, revive_topic: str, saved_ms: int
) -> int:
    """Move the offsets of groups behind the messages that were popped since the last save.

    Args:
        saved_ms: when offsets were saved last, ms since the epoch; 0 if never.

    Returns:
        How many offsets were moved. Raises OSError.
    """
    ends: dict[tuple[str, str, int], int] = {}
    since = store.readings.offset_by_time(TIMER_TOPIC, QUEUE_ID, max(saved_ms - MARGIN_MS, 0))
    offset, end = await read(store, since), store.max_queue_offset(TIMER_TOPIC, QUEUE_ID)
    while offset < end:
        found = await read(store, store.readings.get(TIMER_TOPIC, QUEUE_ID, offset, AT_ONCE_MAX))
        for record in map(decode, found.records):
            point = _check_point(record, revive_topic)
            if point is not None and store.deleted_before(point.topic) <= record.physical_offset:
                key = point.group, point.topic, point.queue_id
                ends[key] = max(ends.get(key, 0), *(one + 1 for one in point.offsets))
        if found.status is not GetStatus.FOUND and found.next_offset <= offset:
            break
        offset = found.next_offset
    moved = 0
    for (group, topic, queue_id), behind in ends.items():
        committed = offsets.committed(group, topic, queue_id)
        is_known = groups.find(group) is not None and behind <= store.max_queue_offset(topic, queue_id)
        if is_known and (committed is None or committed < behind):
            offsets.commit_with_log(group, topic, queue_id, behind)
            moved += 1
    return moved


def _check_point(record: Record, revive_topic: str) -> CheckPoint | None:
    """Return the check point that a timed message is; None if it is another message."""
    named = properties.decode(record.properties)
    if named.get(TAGS) != CHECK_POINT_TAG or named.get(REAL_TOPIC) != revive_topic:
        return None
    try:
        point = decode_check_point(record.body)
    except FormatError:  # the revive logs it
        return None
    return point if point.distances else None
