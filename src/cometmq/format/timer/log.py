"""One unit of the timer log: a timed message, linked to the unit before it in the same slot.

====== ==== ================ ============================================================================
Offset Size Field            What it is for
====== ==== ================ ============================================================================
0      4    size             52
4      8    previous         position of the unit before it of the same slot; -1 for none
12     4    magic            1; 2 is added if the slot's time is not the message's, 4 if it recalls a message
16     8    write time       when it was written, whole seconds in ms since the epoch
24     4    delay            the slot's time minus the write time, ms
28     8    physical offset  of the waiting message, in the CommitLog
36     4    record size      of the same message
40     4    topic hash       Java's hash of the topic to which the message will be delivered
44     8    reserved         0
====== ==== ================ ============================================================================

Big-endian, signed, 52 bytes. The log is a chain of files of one length (100 MiB; ``mappedFileSizeTimerLog``),
each named by the position of its first byte. A unit that would leave less than 16 bytes of its file goes to
the next one; where it would have been there are 16 bytes: how many are left (4), 0 (8), 0xCBD43194 (4).

Source: RocketMQ ``store/timer/TimerLog.java``, ``TimerMessageStore.java``.
"""

import struct
from typing import Final, NamedTuple

from cometmq.message import Buffer

TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
"""The topic in which timed messages wait, in queue 0."""
SIZE: Final = 52
BLANK_SIZE: Final = 16
NO_PREVIOUS: Final = -1

DEFAULT: Final = 1
ROLL: Final = 2
"""The message is due later than the slot's time, and must be enqueued again then."""
DELETE: Final = 4
"""The message recalls another one of the slot."""
_KNOWN: Final = 0xF

_UNIT: Final = struct.Struct(">iqiqiqii8x")
_BLANK: Final = struct.Struct(">i8xI")
_BLANK_MAGIC: Final = 0xCBD43194
assert (_UNIT.size, _BLANK.size) == (SIZE, BLANK_SIZE)


class Unit(NamedTuple):
    """The fields of a unit; times in ms since the epoch."""

    previous: int
    magic: int
    write_time: int
    delay_ms: int
    physical_offset: int
    record_size: int
    topic_hash: int

    @property
    def time(self) -> int:
        """Time of the unit's slot, ms since the epoch."""
        return self.write_time + self.delay_ms

    def pack(self) -> bytes:
        """Encode the 52 bytes of the unit."""
        return _UNIT.pack(SIZE, *self)


def unpack(buffer: Buffer, position: int = 0) -> Unit | None:
    """Decode the unit at ``position``; None if there is none, as after the last unit of a file."""
    if len(buffer) - position < SIZE:
        return None
    size, *fields = _UNIT.unpack_from(buffer, position)
    unit = Unit(*fields)
    return unit if size == SIZE and unit.magic | _KNOWN == _KNOWN else None


def blank(size: int) -> bytes:
    """Encode the blank for the end of a file, where ``size`` bytes are left."""
    return _BLANK.pack(size, _BLANK_MAGIC)


def has_room(left: int) -> bool:
    """Check whether a unit fits where ``left`` bytes of a file are left."""
    return left >= SIZE + BLANK_SIZE


def last_position(file_size: int) -> int:
    """Return the position of the last unit of a full file, in bytes."""
    return (file_size - BLANK_SIZE) // SIZE * SIZE - SIZE
