"""The scan kernel: from a buffer of CommitLog records to one array per field.

``walk`` finds each record by the rules of ``format.scan``; this writes down its fields.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cometmq.format import record
from cometmq.format.checksum import Crc
from cometmq.format.host import IPV4_SIZE
from cometmq.format.scan import StopReason
from cometmq.kernels.arrays import Bytes
from cometmq.kernels.compiling.buffers import int_at, long_at
from cometmq.kernels.compiling.jit import int64, kernel
from cometmq.kernels.compiling.signatures import bytes_in, long, types
from cometmq.kernels.ops import Scan
from cometmq.kernels.records.walk import ANYWHERE, GOOD, walk
from cometmq.message import Buffer

LONG_COLUMNS: Final = Scan._fields.index("size")
INT_COLUMNS: Final = Scan._fields.index("stop_position") - LONG_COLUMNS
_COLUMN: Final[Any] = Scan._make((*range(LONG_COLUMNS), *range(INT_COLUMNS), 0, 0))
"""Which row of ``longs``, or of ``ints``, each array of a ``Scan`` is."""

_FULL: Final = -1
"""The kernel's reason to stop when the arrays are full."""
_USUAL_SIZE: Final = 256
"""The assumed size of a record in bytes for the first arrays; their number is known only at the end."""
_ROOM_MIN: Final = 64


def scan(
    buffer: Buffer | Bytes,
    *,
    base_offset: int | None,
    start: int = 0,
    end: int | None = None,
    crc: Crc = Crc.BODY,
    max_records: int | None = None,
) -> Scan:
    """Scan the records of a buffer: see ``ops.Ops.scan``."""
    data = np.frombuffer(buffer, np.uint8)
    end = len(data) if end is None else min(end, len(data))
    base = ANYWHERE if base_offset is None else base_offset
    most = max(end - start, 0) // record.MIN_SIZE if max_records is None else max_records
    longs, ints = _tables(min(most, max(end - start, 0) // _USUAL_SIZE + _ROOM_MIN))
    count, position, reason = _scan(data, start, end, base, int(crc), longs, ints, 0)
    while reason == _FULL and count < most:
        usual_size = (position - start) // count
        more_longs, more_ints = _tables(min(most, count + count // 4 + (end - position) // usual_size))
        more_longs[:, :count], more_ints[:, :count] = longs[:, :count], ints[:, :count]
        longs, ints = more_longs, more_ints
        count, position, reason = _scan(data, position, end, base, int(crc), longs, ints, count)
    stop = StopReason.LIMIT if reason == _FULL else StopReason(reason)
    return Scan._make((*longs[:, :count], *ints[:, :count], position, stop))


def _tables(room: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    return np.empty((LONG_COLUMNS, room), np.int64), np.empty((INT_COLUMNS, room), np.int32)


@kernel(
    types.UniTuple(long, 3)(
        bytes_in,
        long,
        long,
        long,
        long,
        types.Array(types.int64, 2, "C"),
        types.Array(types.int32, 2, "C"),
        long,
    )
)
def _scan(
    buffer: Bytes,
    position: int,
    end: int,
    base_offset: int,
    crc: int,
    longs: NDArray[np.int64],
    ints: NDArray[np.int32],
    count: int,
) -> tuple[int, int, int]:
    while True:
        lies_at = ANYWHERE if base_offset == ANYWHERE else base_offset + position
        parts = walk(buffer, position, end, lies_at, crc)
        if parts.stop != GOOD:
            return count, position, parts.stop
        if count == longs.shape[1]:
            return count, position, int64(_FULL)
        behind_born_host, behind_hosts = parts.behind_born_host, parts.behind_hosts
        longs[_COLUMN.position, count] = position
        longs[_COLUMN.queue_offset, count] = long_at(buffer, position + record.QUEUE_OFFSET_AT)
        longs[_COLUMN.physical_offset, count] = long_at(buffer, position + record.PHYSICAL_OFFSET_AT)
        longs[_COLUMN.born_time, count] = long_at(buffer, position + record.BORN_TIME_AT)
        longs[_COLUMN.store_time, count] = long_at(buffer, behind_born_host + record.STORE_TIME_AT)
        longs[_COLUMN.prepared_transaction_offset, count] = long_at(
            buffer, behind_hosts + record.PREPARED_TRANSACTION_OFFSET_AT
        )
        longs[_COLUMN.topic_position, count] = parts.topic_position
        longs[_COLUMN.body_position, count] = parts.body_position
        longs[_COLUMN.properties_position, count] = parts.properties_position
        longs[_COLUMN.born_host_position, count] = position + record.BORN_HOST_AT
        longs[_COLUMN.store_host_position, count] = behind_born_host + record.STORE_HOST_AT
        ints[_COLUMN.size, count] = parts.size
        ints[_COLUMN.queue_id, count] = int_at(buffer, position + record.QUEUE_ID_AT)
        ints[_COLUMN.flag, count] = int_at(buffer, position + record.FLAG_AT)
        ints[_COLUMN.sys_flag, count] = int_at(buffer, position + record.SYS_FLAG_AT)
        ints[_COLUMN.reconsume_times, count] = int_at(buffer, behind_hosts + record.RECONSUME_TIMES_AT)
        ints[_COLUMN.body_crc, count] = int_at(buffer, position + record.BODY_CRC_AT)
        ints[_COLUMN.topic_length, count] = parts.topic_length
        ints[_COLUMN.body_length, count] = parts.body_length
        ints[_COLUMN.properties_length, count] = parts.properties_length
        ints[_COLUMN.born_host_length, count] = IPV4_SIZE + behind_born_host - position
        ints[_COLUMN.store_host_length, count] = IPV4_SIZE + behind_hosts - behind_born_host
        count += 1
        position += parts.size
