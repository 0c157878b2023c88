"""The checkpoint file: the store time up to which each part of the store is on the disk.

====== ==== ===================== ========================================================
Offset Size Field                 What it is for
====== ==== ===================== ========================================================
0      8    physic msg timestamp  store time up to which the CommitLog is on the disk, ms
8      8    logics msg timestamp  … the ConsumeQueues
16     8    index msg timestamp   … the index files that are full
24     8    master flushed offset CommitLog offset that the master had on its disk (a slave's)
32     8    confirm phy offset    CommitLog offset that all in-sync replicas have
40     4056                       zeros up to one page; CometMQ keeps a copy there: ``pack_with_copy``
====== ==== ===================== ========================================================

Big-endian, signed, 4096 bytes. The last two fields came with RocketMQ 5; older files hold zeros there.

Source: RocketMQ ``store/StoreCheckpoint.java``.
"""

import struct
from typing import Final, NamedTuple
from zlib import crc32

from cometmq.errors import FormatError
from cometmq.message import Buffer

SIZE: Final = 4096
RECOVERY_MARGIN_MS: Final = 3000
"""Recovery begins this much earlier than the checkpoint's times."""

COPY_AT: Final = 256
"""Position of CometMQ's copy in the file, in the same disk sector as the fields."""

_FIELDS: Final = struct.Struct(">qqqqq")
_CHECKPOINT: Final = struct.Struct(">qqqqq4056x")
_CRC: Final = struct.Struct(">I")
assert (_FIELDS.size, _CHECKPOINT.size) == (40, SIZE)


class Checkpoint(NamedTuple):
    """The fields of the checkpoint file, by RocketMQ's names."""

    physic_msg_timestamp: int = 0
    logics_msg_timestamp: int = 0
    index_msg_timestamp: int = 0
    master_flushed_offset: int = 0
    confirm_phy_offset: int = 0

    def pack(self) -> bytes:
        """Encode the 4096 bytes of the file."""
        return _CHECKPOINT.pack(*self)

    def pack_with_copy(self) -> bytes:
        """Encode the 4096 bytes of the file with a copy of the fields and its CRC-32, which Java ignores."""
        data, fields = bytearray(self.pack()), _FIELDS.pack(*self)
        copy = fields + _CRC.pack(crc32(fields))
        data[COPY_AT : COPY_AT + len(copy)] = copy
        return bytes(data)

    @classmethod
    def unpack_copy(cls, buffer: Buffer) -> "Checkpoint | None":
        """Decode the copy that ``pack_with_copy`` wrote; None if there is none or its CRC differs."""
        fields = bytes(buffer[COPY_AT : COPY_AT + _FIELDS.size])
        crc = bytes(buffer[COPY_AT + _FIELDS.size :][: _CRC.size])
        if len(crc) < _CRC.size or _CRC.pack(crc32(fields)) != crc:
            return None
        return cls._make(_FIELDS.unpack(fields))

    @classmethod
    def unpack(cls, buffer: Buffer) -> "Checkpoint":
        """Decode the fields at the beginning of ``buffer``. Raises FormatError if it is too short."""
        if len(buffer) < _FIELDS.size:
            raise FormatError(f"checkpoint: needs {_FIELDS.size} bytes, got {len(buffer)}")
        return cls._make(_FIELDS.unpack_from(buffer))

    def recovery_time(self, *, with_index: bool = False) -> int:
        """Return the store time, ms since the epoch, from which recovery after an unclean stop must begin.

        Args:
            with_index: whether the index must be complete too (RocketMQ: ``messageIndexSafe``).
        """
        times = self[:3] if with_index else self[:2]
        return max(min(times) - RECOVERY_MARGIN_MS, 0)
