"""The timer's checkpoint, ``config/timercheck``: how far timed messages have been enqueued and delivered.

====== ==== ==================== =========================================================================
Offset Size Field                What it is for
====== ==== ==================== =========================================================================
0      8    read time            messages that were due before it have been delivered, ms since the epoch
8      8    log position         the timer log is on the disk up to here
16     8    queue offset         of the timer topic's queue: messages before it are in the timer log
24     8    master queue offset  the same offset of the master; on a master, its own
32     8    state version        0
40     8    timestamp            of the last change, ms since the epoch
48     8    counter              of changes
56     4040                      zeros up to one page
====== ==== ==================== =========================================================================

Big-endian, signed, 4096 bytes. Before RocketMQ 5 there were zeros from 32 on.

Source: RocketMQ ``store/timer/TimerCheckpoint.java``.
"""

import struct
from typing import Final, NamedTuple

from cometmq.errors import FormatError
from cometmq.message import Buffer

SIZE: Final = 4096

_FIELDS: Final = struct.Struct(">qqqqqqq")
_CHECKPOINT: Final = struct.Struct(">qqqqqqq4040x")
assert _CHECKPOINT.size == SIZE

FIELDS_SIZE: Final = _FIELDS.size
"""Number of bytes before the zeros: a slave receives these."""


class TimerCheckpoint(NamedTuple):
    """The fields of the file: see the table."""

    read_time: int = 0
    log_position: int = 0
    queue_offset: int = 0
    master_queue_offset: int = 0
    state_version: int = 0
    timestamp: int = 0
    counter: int = 0

    def pack(self) -> bytes:
        """Encode the 4096 bytes of the file."""
        return _CHECKPOINT.pack(*self)

    @classmethod
    def unpack(cls, buffer: Buffer) -> "TimerCheckpoint":
        """Decode the fields at the beginning of ``buffer``. Raises FormatError if it is too short."""
        if len(buffer) < _FIELDS.size:
            raise FormatError(f"timer checkpoint: needs {_FIELDS.size} bytes, got {len(buffer)}")
        return cls._make(_FIELDS.unpack_from(buffer))
