"""CRC-32 (IEEE 802.3, as ``zlib.crc32``): sixteen bytes a step, or 64 where the processor can.

Table ``k`` holds what a byte contributes that is ``k`` bytes before the end of the sixteen. So all sixteen
look-ups are independent of each other, but for the four that need the last step's result
("slicing", M. E. Kounavis and F. L. Berry, 2005). What is left after sixteens goes by fours, then by bytes.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cometmq.kernels.arrays import Bytes
from cometmq.kernels.compiling.buffers import byte_at
from cometmq.kernels.compiling.jit import inlined, int64, kernel, uint8, uint32, uint64
from cometmq.kernels.compiling.signatures import bytes_in, long
from cometmq.kernels.records.crc_folding import BLOCK, FOLDS, POLYNOMIAL, STRIDE, folded
from cometmq.message import Buffer

_ONES: Final = 0xFFFFFFFF
_SLICES: Final = 16


def crc32(buffer: Buffer | Bytes) -> int:
    """Compute the CRC-32 of a buffer, as ``zlib.crc32``."""
    data = np.frombuffer(buffer, np.uint8)
    crc: int = _crc32(data, 0, len(data))
    return crc


def _make_tables() -> NDArray[np.uint32]:
    tables = np.zeros((_SLICES, 256), np.uint32)
    value = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        value = (value >> 1) ^ np.where(value & 1, uint32(POLYNOMIAL), uint32(0))
    tables[0] = value
    for k in range(1, _SLICES):
        tables[k] = (tables[k - 1] >> 8) ^ tables[0][tables[k - 1] & 0xFF]
    return tables


_TABLES: Final = _make_tables()


@inlined
def crc32_of(buffer: Bytes, position: int, length: int) -> Any:
    """Compute the CRC-32 of ``length`` bytes at ``position``, inside a kernel."""
    crc = uint32(_ONES)
    end = position + length
    if FOLDS:  # a constant: Numba leaves the branch out where it is False
        if length >= STRIDE:
            crc = folded(buffer, int64(position), int64(length), uint64(crc))
            position += length // BLOCK * BLOCK
    while position + 16 <= end:
        following = uint32(0)
        for k in range(12):
            following ^= _TABLES[11 - k, byte_at(buffer, position + 4 + k)]
        for k in range(4):
            following ^= _TABLES[15 - k, uint8(crc >> (8 * k)) ^ byte_at(buffer, position + k)]
        crc = following
        position += 16
    while position + 4 <= end:
        following = uint32(0)
        for k in range(4):
            following ^= _TABLES[3 - k, uint8(crc >> (8 * k)) ^ byte_at(buffer, position + k)]
        crc = following
        position += 4
    while position < end:
        crc = uint32(_TABLES[0, uint8(crc) ^ byte_at(buffer, position)] ^ uint32(crc >> 8))
        position += 1
    return crc ^ uint32(_ONES)


@kernel(long(bytes_in, long, long))
def _crc32(buffer: Bytes, position: int, length: int) -> Any:
    return int64(crc32_of(buffer, position, length))
