"""The kernel that answers sends: the bytes of ``wire.template``'s answers, one frame behind the other."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cometmq.kernels.jit import (
    Bytes,
    Longs,
    bytes_in,
    bytes_out,
    inlined,
    int64,
    kernel,
    long,
    longs_in,
    put_int,
    sends_out,
    uint8,
)
from cometmq.kernels.sends import Answers

_PREFIX_SIZE: Final = 8
_ZERO: Final = ord("0")
_LETTERS_FROM: Final = ord("A") - 10
_OFFSET_DIGITS: Final = 16


def answer(batch: NDArray[np.void], count: int, texts: Bytes, answers: Answers, frames: Bytes) -> int:
    """Encode answers: see ``sends.SendOps.answer``."""
    size: int = _answer(batch, count, texts, answers.pieces, answers.bounds, answers.host_id, frames)
    return size


@inlined
def _put(source: Bytes, begin: int, end: int, out: Bytes, at: int) -> Any:
    for i in range(begin, end):
        out[at] = source[i]
        at += 1
    return at


@inlined
def _put_decimal(out: Bytes, at: int, number: int) -> Any:
    """Write a number as text; give where the next goes."""
    if number < 0:
        out[at] = uint8(ord("-"))
        at += 1
    rest = abs(number)
    size = int64(1)
    while rest >= 10:
        rest //= 10
        size += 1
    rest = abs(number)
    for i in range(size):
        out[at + size - 1 - i] = uint8(_ZERO + rest % 10)
        rest //= 10
    return at + size


@inlined
def _put_message_id(out: Bytes, at: int, host_id: Bytes, physical_offset: int) -> Any:
    at = _put(host_id, 0, len(host_id), out, at)
    for i in range(_OFFSET_DIGITS):
        digit = physical_offset >> 4 * (_OFFSET_DIGITS - 1 - i) & 0xF
        out[at + i] = uint8(digit + (_ZERO if digit < 10 else _LETTERS_FROM))
    return at + _OFFSET_DIGITS


@inlined
def _put_values(
    out: Bytes, at: int, send: Any, texts: Bytes, pieces: Bytes, bounds: Longs, piece: int, host_id: Bytes
) -> Any:
    """Write the four values between their pieces; before each binary one goes its length."""
    length_size = 4 * (send.is_binary != 0)
    for i in range(4):
        at = _put(pieces, bounds[piece + i], bounds[piece + i + 1], out, at)
        value = at + length_size
        if i == 0:
            end = _put_message_id(out, value, host_id, send.physical_offset)
        elif i == 1:
            end = _put_decimal(out, value, send.queue_id)
        elif i == 2:
            end = _put_decimal(out, value, send.queue_offset)
        else:
            end = _put(texts, send.key_at, send.key_at + send.key_length, out, value)
        if length_size:
            put_int(out, at, end - value)
        at = end
    return _put(pieces, bounds[piece + 4], bounds[piece + 5], out, at)


@kernel(long(sends_out, long, bytes_out, bytes_in, longs_in, bytes_in, bytes_out))
def _answer(
    batch: Any, count: int, texts: Bytes, pieces: Bytes, bounds: Longs, host_id: Bytes, frames: Bytes
) -> Any:
    position = int64(0)
    for i in range(count):
        send = batch[i]
        if send.is_oneway:
            continue
        at = position + _PREFIX_SIZE
        if send.is_binary:
            at = _put(pieces, bounds[6], bounds[7], frames, at)
            put_int(frames, at, send.opaque)
            at = _put(pieces, bounds[7], bounds[8], frames, at + 4)
            end = _put_values(frames, at + 4, send, texts, pieces, bounds, 8, host_id)
            put_int(frames, at, end - at - 4)
        else:
            end = _put_values(frames, at, send, texts, pieces, bounds, 0, host_id)
            end = _put_decimal(frames, end, send.opaque)
            end = _put(pieces, bounds[5], bounds[6], frames, end)
        header_size = end - position - _PREFIX_SIZE
        put_int(frames, position, 4 + header_size)
        put_int(frames, position + 4, send.is_binary << 24 | header_size)
        position = end
    return position
