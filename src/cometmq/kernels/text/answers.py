"""Writing the headers of responses inside kernels: the same bytes as ``wire.template`` writes.

What is the same in all responses are constants: constant ``i`` is ``constants[bounds[i]:bounds[i + 1]]``.
"""

from collections.abc import Callable
from typing import Any, Final

from cometmq.kernels.arrays import Bytes, Longs
from cometmq.kernels.compiling.buffers import copy_bytes, put_int
from cometmq.kernels.compiling.jit import inlined, int64, uint8, uint64
from cometmq.wire.frame import PREFIX_SIZE

_VALUE_COUNT: Final = 4
"""How many values differ in the headers of responses to sends, and of those to pulls."""
_JSON_PIECES: Final = 0
"""The first of the constants around them in JSON, in the order in which ``wire.template`` gives them."""
_BINARY_PIECES: Final = _VALUE_COUNT + 2
"""The first one in the ROCKETMQ serialization."""
_ZERO: Final = ord("0")


def header_writer(put_value: Callable[[int, Any, Bytes, int], Any]) -> Any:
    """Return what writes the header of a response with four values; it returns where the body goes.

    Args:
        put_value: writes the value with this number, of the ``values`` that the writer is given, to
            ``out[at:]``; returns where it ends.
    """

    @inlined
    def put_header(
        opaque: int,
        is_binary: int,
        body_size: int,
        values: Any,
        constants: Bytes,
        bounds: Longs,
        out: Bytes,
        begin: int,
    ) -> Any:
        at, piece, length_size = int64(begin + PREFIX_SIZE), int64(_JSON_PIECES), int64(0)
        if is_binary:
            at = put_piece(constants, bounds, _BINARY_PIECES, out, at)
            put_int(out, at, opaque)
            at = put_piece(constants, bounds, _BINARY_PIECES + 1, out, at + 4) + 4
            piece, length_size = int64(_BINARY_PIECES + 2), int64(4)
        values_at = at
        for i in range(_VALUE_COUNT):
            at = put_piece(constants, bounds, piece + i, out, at)
            end = put_value(i, values, out, at + length_size)
            if is_binary:
                put_int(out, at, end - at - 4)
            at = end
        at = put_piece(constants, bounds, piece + _VALUE_COUNT, out, at)
        if is_binary:
            put_int(out, values_at - 4, at - values_at)
        else:
            at = put_piece(constants, bounds, piece + _VALUE_COUNT + 1, out, put_decimal(out, at, opaque))
        put_prefix(out, begin, at, body_size, is_binary)
        return at

    return put_header


@inlined
def put_around(
    opaque: int,
    is_binary: int,
    body_size: int,
    constants: Bytes,
    bounds: Longs,
    piece: int,
    out: Bytes,
    begin: int,
) -> Any:
    """Write a header that is two constants around the opaque number; return the position for its body."""
    at = put_piece(constants, bounds, piece, out, begin + PREFIX_SIZE)
    if is_binary:
        put_int(out, at, opaque)
        at += 4
    else:
        at = put_decimal(out, at, opaque)
    at = put_piece(constants, bounds, piece + 1, out, at)
    put_prefix(out, begin, at, body_size, is_binary)
    return at


@inlined
def put_prefix(out: Bytes, begin: int, header_end: int, body_size: int, is_binary: int) -> Any:
    """Write the prefix of a frame: its length and its header's, which ends at ``out[header_end]``."""
    header_size = header_end - begin - PREFIX_SIZE
    put_int(out, begin, 4 + header_size + body_size)
    put_int(out, begin + 4, is_binary << 24 | header_size)


@inlined
def put_piece(constants: Bytes, bounds: Longs, piece: int, out: Bytes, at: int) -> Any:
    """Write a constant; return the position after it."""
    return copy_bytes(constants, bounds[piece], bounds[piece + 1], out, at)


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
