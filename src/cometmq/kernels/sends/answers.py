"""Writing send responses inside kernels: the same bytes as ``wire.template`` writes."""

from typing import Any, Final

from cometmq.kernels.arrays import Bytes, Longs
from cometmq.kernels.compiling.buffers import copy_bytes, put_int
from cometmq.kernels.compiling.jit import inlined, int64, uint8, uint64
from cometmq.kernels.sends.rows import (
    ANSWER_SIZE_MAX,
    BINARY_PIECES,
    HOST_ID,
    JSON_PIECES,
    OFFSET_DIGITS,
    PHYSICAL_OFFSET,
    QUEUE_OFFSET,
)
from cometmq.wire.frame import PREFIX_SIZE

_ZERO: Final = ord("0")
_LETTERS_FROM: Final = ord("A") - 10
_COMMA: Final = ord(",")


@inlined
def answer_size(send: Any, constants: Bytes, bounds: Longs) -> Any:
    """Return the most bytes that the response to a send can take."""
    id_size = bounds[HOST_ID + 1] - bounds[HOST_ID] + OFFSET_DIGITS + 1
    return ANSWER_SIZE_MAX + len(constants) + send.key_length + send.message_count * id_size


@inlined
def put_answer(
    send: Any,
    entries: Longs,
    row: int,
    texts: Bytes,
    constants: Bytes,
    bounds: Longs,
    out: Bytes,
    begin: int,
) -> Any:
    """Write the response to a send to ``out[begin:]``; return where it ends.

    Args:
        entries: int64[n, 5], see ``rows.QUEUE`` and the others.
        row: the row of its first message in ``entries``.
        texts: uint8[], with the unique key at ``send.key_at``.
        constants, bounds: the fields of ``SendConstants``.
    """
    at = begin + PREFIX_SIZE
    if send.is_binary:
        at = put_piece(constants, bounds, BINARY_PIECES, out, at)
        put_int(out, at, send.opaque)
        at = put_piece(constants, bounds, BINARY_PIECES + 1, out, at + 4)
        end = _put_values(out, at + 4, send, entries, row, texts, constants, bounds, BINARY_PIECES + 2)
        put_int(out, at, end - at - 4)
    else:
        end = _put_values(out, at, send, entries, row, texts, constants, bounds, JSON_PIECES)
        end = put_decimal(out, end, send.opaque)
        end = put_piece(constants, bounds, JSON_PIECES + 5, out, end)
    put_prefix(out, begin, end, 0, send.is_binary)
    return end


@inlined
def put_prefix(out: Bytes, begin: int, header_end: int, body_size: int, is_binary: int) -> Any:
    """Write the prefix of a frame: its length and its header's, which ends at ``out[header_end]``."""
    header_size = header_end - begin - PREFIX_SIZE
    put_int(out, begin, 4 + header_size + body_size)
    put_int(out, begin + 4, is_binary << 24 | header_size)


@inlined
def put_piece(constants: Bytes, bounds: Longs, piece: int, out: Bytes, at: int) -> Any:
    """Write a constant part of a response; return the position after it."""
    return copy_bytes(constants, bounds[piece], bounds[piece + 1], out, at)


@inlined
def _put_values(
    out: Bytes,
    at: int,
    send: Any,
    entries: Longs,
    row: int,
    texts: Bytes,
    constants: Bytes,
    bounds: Longs,
    piece: int,
) -> Any:
    """Write four values between their constant parts, binary ones after their lengths; return their end."""
    length_size = 4 * (send.is_binary != 0)
    for i in range(4):
        at = put_piece(constants, bounds, piece + i, out, at)
        value = at + length_size
        if i == 0:
            end = _put_ids(out, value, entries, row, row + send.message_count, constants, bounds)
        elif i == 1:
            end = put_decimal(out, value, send.queue_id)
        elif i == 2:
            end = put_decimal(out, value, entries[row, QUEUE_OFFSET])
        else:
            end = copy_bytes(texts, send.key_at, send.key_at + send.key_length, out, value)
        if length_size:
            put_int(out, at, end - value)
        at = end
    return put_piece(constants, bounds, piece + 4, out, at)


@inlined
def _put_ids(
    out: Bytes, at: int, entries: Longs, row: int, end_row: int, constants: Bytes, bounds: Longs
) -> Any:
    """Write the offset ids of messages, separated by commas; return the position after them."""
    for i in range(row, end_row):
        if i > row:
            out[at] = uint8(_COMMA)
            at += 1
        at = put_piece(constants, bounds, HOST_ID, out, at)
        at = _put_hexadecimal(out, at, entries[i, PHYSICAL_OFFSET])
    return at


@inlined
def put_decimal(out: Bytes, at: int, number: int) -> Any:
    """Write a number in decimal digits; return the position after it."""
    if number < 0:
        out[at] = uint8(ord("-"))
        at += 1
    number = uint64(abs(number))  # unsigned division is faster
    size, rest = int64(1), number
    while rest >= uint64(10):
        rest //= uint64(10)
        size += 1
    for i in range(size):
        out[at + size - 1 - i] = uint8(_ZERO + number % uint64(10))
        number //= uint64(10)
    return at + size


@inlined
def _put_hexadecimal(out: Bytes, at: int, number: int) -> Any:
    """Write an offset as 16 upper-case hex digits; return the position after it."""
    for i in range(OFFSET_DIGITS):
        digit = number >> 4 * (OFFSET_DIGITS - 1 - i) & 0xF
        out[at + i] = uint8(digit + (_ZERO if digit < 10 else _LETTERS_FROM))
    return at + OFFSET_DIGITS
