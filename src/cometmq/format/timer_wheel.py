"""The timer wheel: a slot for each second of two weeks, with the timer log's units that are due in it.

====== ==== ========== ============================================================
Offset Size Field      What it is for
====== ==== ========== ============================================================
0      8    time       in units of the precision, since the epoch
8      8    first      position in the timer log of the slot's first unit
16     8    last       of its last one; each unit names the one before it
24     4    unit count units that wait, less those that take one back
28     4    magic      0
====== ==== ========== ============================================================

Big-endian, signed, 32 bytes. The file holds 2 * 604,800 slots; that of time t (in units of the precision, a
second unless ``timerPrecisionMs`` says otherwise) is at t modulo that number. It is empty for t if it holds
another time. RocketMQ leaves a slot as it is when its messages have been given out, CometMQ clears it.

Source: RocketMQ ``store/timer/TimerWheel.java``, ``Slot.java``.
"""

import struct
from typing import Final, NamedTuple

import numpy as np

from cometmq.message import Buffer

SLOT_SIZE: Final = 32
SLOTS: Final = 2 * 7 * 24 * 3600
SIZE: Final = SLOTS * SLOT_SIZE

_SLOT: Final = struct.Struct(">qqqii")
_SLOTS: Final = np.dtype(
    [("time", ">i8"), ("first", ">i8"), ("last", ">i8"), ("count", ">i4"), ("magic", ">i4")]
)
assert (_SLOT.size, _SLOTS.itemsize, SIZE) == (SLOT_SIZE, SLOT_SIZE, 38_707_200)


class Slot(NamedTuple):
    """Which units are due at one time: see the table."""

    time: int
    first: int
    last: int
    unit_count: int

    def pack(self) -> bytes:
        """Make its 32 bytes."""
        return _SLOT.pack(*self, 0)


def position_of(time: int) -> int:
    """Give where in the file the slot of a time, in units of the precision, is."""
    return time % SLOTS * SLOT_SIZE


def slots(wheel: Buffer) -> list[Slot]:
    """Give the slots of a whole file that are not empty."""
    table = np.frombuffer(wheel, _SLOTS)
    at = np.flatnonzero(table["time"] > 0)
    at = at[table["time"][at] % SLOTS == at]
    return [Slot(*row[:4]) for row in table[at].tolist()]
