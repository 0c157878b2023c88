"""Writing send responses inside kernels: the values between their constants."""

from typing import Any, Final

from cometmq.kernels.arrays import Bytes, Longs
from cometmq.kernels.compiling.buffers import copy_bytes
from cometmq.kernels.compiling.jit import inlined, uint8
from cometmq.kernels.sends.rows import (
    ANSWER_SIZE_MAX,
    HOST_ID,
    OFFSET_DIGITS,
    PHYSICAL_OFFSET,
    QUEUE_OFFSET,
)
from cometmq.kernels.text.answers import header_writer, put_decimal, put_piece

_ZERO: Final = ord("0")
_LETTERS_FROM: Final = ord("A") - 10
_COMMA: Final = ord(",")


@inlined
def answer_size(send: Any, constants: Bytes, bounds: Longs) -> Any:
    """Return the most bytes that the response to a send can take."""
    id_size = bounds[HOST_ID + 1] - bounds[HOST_ID] + OFFSET_DIGITS + 1
    return ANSWER_SIZE_MAX + len(constants) + send.key_length + send.message_count * id_size


@inlined
def _put_value(number: int, values: Any, out: Bytes, at: int) -> Any:
    """Write message id, queue id, queue offset or unique key; return the position after it.

    Args:
        values: a send; the entries, and which row is its first message's; its unescaped texts; and the
            fields of ``SendConstants``.
    """
    send, entries, row, texts, constants, bounds = values
    if number == 0:
        return _put_ids(out, at, entries, row, row + send.message_count, constants, bounds)
    if number == 1:
        return put_decimal(out, at, send.queue_id)
    if number == 2:
        return put_decimal(out, at, entries[row, QUEUE_OFFSET])
    return copy_bytes(texts, send.key_at, send.key_at + send.key_length, out, at)


put_answer = header_writer(_put_value)


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
def _put_hexadecimal(out: Bytes, at: int, number: int) -> Any:
    """Write an offset as 16 upper-case hex digits; return the position after it."""
    for i in range(OFFSET_DIGITS):
        digit = number >> 4 * (OFFSET_DIGITS - 1 - i) & 0xF
        out[at + i] = uint8(digit + (_ZERO if digit < 10 else _LETTERS_FROM))
    return at + OFFSET_DIGITS
