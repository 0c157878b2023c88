"""The kernels that copy pieces of a buffer one after another, for Arrow's string and binary columns."""

from typing import Final

from cometmq.kernels.arrays import Bytes, Ints, Longs
from cometmq.kernels.compiling.buffers import byte_at, copy_bytes
from cometmq.kernels.compiling.jit import inlined, int64, kernel, uint8
from cometmq.kernels.compiling.signatures import (
    bytes_in,
    bytes_out,
    ints_in,
    ints_out,
    long,
    longs_in,
    none,
    types,
)
from cometmq.kernels.text.utf8 import MALFORMED, code_point

_REPLACEMENT: Final = tuple("\ufffd".encode())
_DIGITS: Final = tuple(b"0123456789ABCDEF")


@inlined
def _is_ascii(buffer: Bytes, position: int, end: int) -> bool:
    bits = uint8(0)
    for i in range(position, end):
        bits |= byte_at(buffer, i)
    return bool(bits < 0x80)


@inlined
def _text_size(buffer: Bytes, position: int, end: int) -> int:
    """Return the size of a text in bytes once its malformed UTF-8 is replaced by U+FFFD."""
    size = 0
    while position < end:
        code, length = code_point(buffer, position, end)
        size += len(_REPLACEMENT) if code == MALFORMED else length
        position += length
    return size


@kernel(long(bytes_in, longs_in, longs_in, types.boolean, ints_out))
def set_offsets(buffer: Bytes, begins: Longs, ends: Longs, is_text: bool, offsets: Ints) -> int:
    """Compute where each piece will begin in a column; return the size of all pieces in bytes.

    Args:
        begins, ends: int64[pieces], positions in the buffer.
        is_text: whether malformed UTF-8 is replaced, which changes sizes.
        offsets: int32[pieces + 1], written; worthless if the size returned exceeds an int32.
    """
    size = 0
    for i in range(len(begins)):
        offsets[i] = size
        if not is_text or _is_ascii(buffer, begins[i], ends[i]):
            size += ends[i] - begins[i]
        else:
            size += _text_size(buffer, begins[i], ends[i])
    offsets[len(begins)] = size
    return size


@kernel(none(bytes_in, longs_in, longs_in, types.boolean, ints_in, bytes_out))
def copy_pieces(buffer: Bytes, begins: Longs, ends: Longs, is_text: bool, offsets: Ints, data: Bytes) -> None:
    """Copy the pieces to the offsets that ``set_offsets`` computed; replace malformed UTF-8 in texts.

    Args:
        begins, ends, is_text, offsets: as in ``set_offsets``.
        data: uint8[size], written; the size is the one that ``set_offsets`` returned.
    """
    for i in range(len(begins)):
        position, end, to = begins[i], ends[i], int64(offsets[i])
        if not is_text or _is_ascii(buffer, position, end):
            copy_bytes(buffer, position, end, data, to)
            continue
        while position < end:
            code, length = code_point(buffer, position, end)
            if code == MALFORMED:
                for k in range(len(_REPLACEMENT)):
                    data[to + k] = _REPLACEMENT[k]
                to += len(_REPLACEMENT)
            else:
                to = copy_bytes(buffer, position, position + length, data, to)
            position += length


@kernel(none(bytes_in, longs_in, ints_in, longs_in, ints_in, bytes_out))
def write_offset_ids(
    buffer: Bytes, hosts: Longs, host_lengths: Ints, physical_offsets: Longs, offsets: Ints, data: Bytes
) -> None:
    """Write offset message ids: the bytes of store host and physical offset in upper-case hex.

    Args:
        hosts, host_lengths: int64[records] and int32[records], positions and sizes in the buffer in bytes.
        physical_offsets: int64[records].
        offsets: int32[records + 1], where each id begins in ``data``.
        data: uint8, written.
    """
    for i in range(len(hosts)):
        to = int64(offsets[i])
        for k in range(host_lengths[i]):
            byte = int64(byte_at(buffer, hosts[i] + k))
            data[to], data[to + 1] = _DIGITS[byte >> 4], _DIGITS[byte & 15]
            to += 2
        for k in range(16):
            data[to] = _DIGITS[physical_offsets[i] >> (60 - 4 * k) & 15]
            to += 1
