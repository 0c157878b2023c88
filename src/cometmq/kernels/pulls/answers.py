"""Writing the headers of pull responses inside kernels: the same bytes as ``wire.template`` writes."""

from typing import Any, Final

from cometmq.kernels.arrays import Bytes, Longs
from cometmq.kernels.compiling.buffers import put_int
from cometmq.kernels.compiling.jit import inlined, int64
from cometmq.kernels.pulls.rows import (
    ASK_IS_BINARY,
    ASK_NUMBER,
    BINARY_PIECES,
    JSON_PIECES,
    MAX_OFFSET,
    MIN_OFFSET,
    NEXT_OFFSET,
)
from cometmq.kernels.sends.answers import put_decimal, put_piece, put_prefix
from cometmq.wire.frame import PREFIX_SIZE

_SUGGESTED_BROKER: Final = 0


@inlined
def put_header(ask: Longs, body_size: int, constants: Bytes, bounds: Longs, out: Bytes, begin: int) -> Any:
    """Write the response's header to ``out[begin:]``; return the position for its body."""
    at = begin + PREFIX_SIZE
    if ask[ASK_IS_BINARY]:
        at = put_piece(constants, bounds, BINARY_PIECES, out, at)
        put_int(out, at, ask[ASK_NUMBER])
        at = put_piece(constants, bounds, BINARY_PIECES + 1, out, at + 4)
        end = _put_numbers(ask, 4, constants, bounds, BINARY_PIECES + 2, out, at + 4)
        put_int(out, at, end - at - 4)
    else:
        end = _put_numbers(ask, 0, constants, bounds, JSON_PIECES, out, at)
        end = put_decimal(out, end, ask[ASK_NUMBER])
        end = put_piece(constants, bounds, JSON_PIECES + 5, out, end)
    put_prefix(out, begin, end, body_size, ask[ASK_IS_BINARY])
    return end


@inlined
def _put_numbers(
    ask: Longs, length_size: int, constants: Bytes, bounds: Longs, piece: int, out: Bytes, at: int
) -> Any:
    """Write four numbers between their constant parts, binary ones after their lengths; return their end."""
    for i in range(4):
        at = put_piece(constants, bounds, piece + i, out, at)
        if i == 0:
            number = int64(_SUGGESTED_BROKER)
        elif i == 1:
            number = ask[NEXT_OFFSET]
        elif i == 2:
            number = ask[MIN_OFFSET]
        else:
            number = ask[MAX_OFFSET]
        end = put_decimal(out, at + length_size, number)
        if length_size:
            put_int(out, at, end - at - length_size)
        at = end
    return put_piece(constants, bounds, piece + 4, out, at)
