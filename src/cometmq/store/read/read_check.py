"""Check each message as it is read: a damaged one is reported and skipped."""

from collections.abc import Sequence
from typing import NamedTuple

from cometmq.errors import DamagedRecord
from cometmq.format import properties
from cometmq.format.dispatch import light_offsets
from cometmq.format.layout import is_light
from cometmq.format.record import record_at
from cometmq.format.scan import Stop, check, whole_record
from cometmq.kernels.pulls.plain import ChosenRecord
from cometmq.logs import get_logger
from cometmq.message import Buffer
from cometmq.store.log.commit_log import CommitLog
from cometmq.store.queue.consume_queue import ConsumeQueue

log = get_logger(__name__)


class CheckedRecords(NamedTuple):
    """The sound ones among the records of a read.

    Attributes:
        runs: their bytes; ``sizes`` has the size of each.
        looked_at: number of entries that the read has handled.
        damaged: the error of the first record, if that is damaged and was skipped.
    """

    runs: list[Buffer]
    sizes: Sequence[int]
    looked_at: int
    damaged: DamagedRecord | None


def sound_records(
    commit_log: CommitLog,
    queue: ConsumeQueue,
    queue_offset: int,
    chosen: Sequence[ChosenRecord],
    runs: list[Buffer],
    looked_at: int,
) -> CheckedRecords:
    """Return the records of a read up to the first damaged one; skip that if it is the first of the read.

    Args:
        queue_offset: at which the read began.
        runs: the bytes of the chosen records.
        looked_at: number of entries examined.
    """
    data, damaged = b"".join(runs), None
    begin, at = 0, 0
    for count, (number, offset, size) in enumerate(chosen):
        if not _is_sound(commit_log, queue, queue_offset + number, memoryview(data)[at : at + size], offset):
            if at > begin or damaged is not None:
                sizes = _sizes(chosen[0 if damaged is None else 1 : count])
                return CheckedRecords([data[begin:at]] if at > begin else [], sizes, number, damaged)
            damaged = _report(commit_log, queue, queue_offset + number, offset, size)
            begin = at + size
        at += size
    if damaged is None:
        return CheckedRecords(runs, _sizes(chosen), looked_at, None)
    return CheckedRecords([data[begin:]] if at > begin else [], _sizes(chosen[1:]), looked_at, damaged)


def _is_sound(
    commit_log: CommitLog, queue: ConsumeQueue, queue_offset: int, data: memoryview, physical_offset: int
) -> bool:
    """Check that bytes are the record of a queue's entry; those in light queues have other queue offsets."""
    head = whole_record(data, 0, len(data), physical_offset, commit_log.crc)
    if head is None or head.queue_offset == queue_offset:
        return head is not None
    if not is_light(queue.topic):
        return False
    record = record_at(data, head)
    by_name = properties.decode(record.properties)
    return light_offsets(record.topic, by_name).get(queue.topic) == queue_offset


def _sizes(chosen: Sequence[ChosenRecord]) -> list[int]:
    return [size for _, _, size in chosen]


def _report(
    commit_log: CommitLog, queue: ConsumeQueue, queue_offset: int, physical_offset: int, size: int
) -> DamagedRecord:
    """Log and return what is wrong with a damaged message: file, position, reason and remedy."""
    start = commit_log.chain.start_of(physical_offset)
    assert start is not None, "it was read there"
    path, position = commit_log.chain.path(start), physical_offset - start
    view = commit_log.chain.file(start).view()
    found = check(view, position, commit_log.chain.file_size, base_offset=start, crc=commit_log.crc)
    if isinstance(found, Stop):
        why, remedy = found.detail or "zeros", "run `cometmq store verify` for all that is damaged"
    else:
        why = f"the record there has queue offset {found.queue_offset} and {found.size} bytes"
        remedy = "run `cometmq store rebuild` if `cometmq store verify` says that the queue is damaged"
    of = f"{queue.topic}-{queue.queue_id}, queue offset {queue_offset}"
    log.error("%s, byte %d, %d bytes: %s cannot be read: %s; %s", path, position, size, of, why, remedy)
    return DamagedRecord(physical_offset, why)
