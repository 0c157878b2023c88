"""Is what a queue entry points to the message that it stands for? Asked each time that one is given out.

A bit can flip in a log of years after any start has looked at it, and no consumer shall get it as if it were
the message: so size, place, queue offset and the record's checksum are looked at, in about a microsecond.
"""

import logging
from collections.abc import Sequence
from itertools import chain
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from cometmq.errors import DamagedRecord
from cometmq.format.checksum import Crc
from cometmq.format.property_crc import is_sealed
from cometmq.format.queue_entry import unpack_tuples
from cometmq.format.record import (
    BODY_AT,
    BODY_LENGTH_AT,
    HOST_GROWTH,
    MAGIC_V1,
    MAGIC_V2,
    MIN_SIZE,
    PHYSICAL_OFFSET_AT,
)
from cometmq.format.scan import Stop, check
from cometmq.format.sys_flag import BORN_HOST_V6, STORE_HOST_V6
from cometmq.message import Buffer
from cometmq.store.commit_log import CommitLog
from cometmq.store.consume_queue import ConsumeQueue

log = logging.getLogger(__name__)

_HEAD: Final = Struct(">iIIiiqqi")
_LENGTH: Final = Struct(">i")
_MAGICS: Final = (MAGIC_V1, MAGIC_V2)


class Checked(NamedTuple):
    """What of the records read can be given.

    Attributes:
        runs: their bytes, ``sizes`` that of each.
        looked_at: so many entries are done with.
        damaged: why the first record is not given, if it is damaged.
    """

    runs: list[Buffer]
    sizes: Sequence[int]
    looked_at: int
    damaged: DamagedRecord | None


def sound_records(
    commit_log: CommitLog,
    queue: ConsumeQueue,
    queue_offset: int,
    entries: Buffer,
    runs: list[Buffer],
    sizes: Sequence[int],
    looked_at: int,
) -> Checked:
    """Leave a damaged message out of what a read gives: a read ends before it, the next passes over it.

    Args:
        entries: those that were read, from ``queue_offset`` on.
        runs: the records that they point to, as far as they are wanted.
    """
    places = [(offset, size) for offset, size, _ in unpack_tuples(entries)]
    data, damaged = b"".join(runs), None
    begin, at, number = 0, 0, -1
    for count, size in enumerate(sizes):
        number = _place(places, data[at : at + size], number)
        place = places[number][0]
        if not is_message(data[at : at + size], place, queue_offset + number, commit_log.crc):
            if at > begin or damaged is not None:
                first = 0 if damaged is None else 1
                return Checked([data[begin:at]] if at > begin else [], sizes[first:count], number, damaged)
            damaged = report(commit_log, queue, queue_offset + number, *places[number])
            begin = at + size
        at += size
    return (
        Checked(runs, sizes, looked_at, None)
        if damaged is None
        else Checked([data[begin:]] if at > begin else [], sizes[1:], looked_at, damaged)
    )


def _place(places: list[tuple[int, int]], data: bytes, last: int) -> int:
    """Give the number of the entry that a record was read by: the next with its place, or with its size."""
    offset = int.from_bytes(data[PHYSICAL_OFFSET_AT : PHYSICAL_OFFSET_AT + 8], "big")
    if last + 1 < len(places) and places[last + 1] == (offset, len(data)):
        return last + 1  # nearly always
    numbers = range(last + 1, len(places))
    by_place = (number for number in numbers if places[number] == (offset, len(data)))
    by_size = (number for number in numbers if places[number][1] == len(data))
    return next(chain(by_place, by_size))


def is_message(data: bytes, physical_offset: int, queue_offset: int, checksum: Crc) -> bool:
    """Tell whether ``data`` is, as a whole, the record that lies there and has this queue offset."""
    if len(data) < MIN_SIZE:
        return False
    size, magic, crc, _, _, own_queue_offset, own_offset, sys_flag = _HEAD.unpack_from(data)
    if size != len(data) or own_offset != physical_offset or own_queue_offset != queue_offset:
        return False
    growth = HOST_GROWTH * (bool(sys_flag & BORN_HOST_V6) + bool(sys_flag & STORE_HOST_V6))
    (length,) = _LENGTH.unpack_from(data, min(BODY_LENGTH_AT + growth, size - 4))
    begin = BODY_AT + growth
    if magic not in _MAGICS or length < 0 or begin + length > size:
        return False
    width = 1 if magic == MAGIC_V1 else 2
    topic = begin + length + width
    properties = topic + int.from_bytes(data[topic - width : topic], "big") + 2
    if properties + int.from_bytes(data[properties - 2 : properties], "big") != size:
        return False
    if checksum is Crc.RECORD:
        return is_sealed(data)
    return length == 0 or bool(crc32(data[begin : begin + length]) & 0x7FFFFFFF == crc)


def report(
    commit_log: CommitLog, queue: ConsumeQueue, queue_offset: int, physical_offset: int, size: int
) -> DamagedRecord:
    """Log and give what is wrong with a message that is not given out: file, place, what helps."""
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
