"""The timer wheel: a slot for each second of two weeks, with links to the timer log's units due in it.

====== ==== ========== ============================================================
Offset Size Field      What it is for
====== ==== ========== ============================================================
0      8    time       in units of the precision, since the epoch
8      8    first      position in the timer log of the slot's first unit
16     8    last       position of its last unit; each unit links to the one before it
24     4    unit count number of waiting units, minus those that recall one
28     4    magic      0
====== ==== ========== ============================================================

Big-endian, signed, 32 bytes. The file holds 2 * 604,800 slots; the slot of time t (in units of the precision,
a second unless ``timerPrecisionMs`` says otherwise) is at t modulo that number. It is empty for t if it holds
another time. RocketMQ leaves a slot unchanged when its messages have been delivered, CometMQ clears it.

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
    """The fields of a slot: see the table."""

    time: int
    first: int
    last: int
    unit_count: int

    def pack(self) -> bytes:
        """Encode the 32 bytes of the slot."""
        return _SLOT.pack(*self, 0)


def position_of(time: int) -> int:
    """Return the position in the file, in bytes, of the slot of a time in units of the precision."""
    return time % SLOTS * SLOT_SIZE


def slots(wheel: Buffer) -> list[Slot]:
    """Return all slots of a whole file that are not empty."""
    table = np.frombuffer(wheel, _SLOTS)
    at = np.flatnonzero(table["time"] > 0)
    at = at[table["time"][at] % SLOTS == at]
    return [Slot(*row[:4]) for row in table[at].tolist()]
