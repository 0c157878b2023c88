"""Parsing batches inside kernels: the messages in a SEND_BATCH_MESSAGE's body, see ``wire.batch``."""

from typing import Any, Final

from cometmq.kernels.arrays import Bytes
from cometmq.kernels.compiling.buffers import int_at, short_at
from cometmq.kernels.compiling.jit import inlined, int64
from cometmq.kernels.sends.properties import read_member
from cometmq.wire.batch import BODY_LENGTH_AT, FLAG_AT, HEAD_SIZE, SIZE_MIN

_PROPERTIES_LENGTH_SIZE: Final = SIZE_MIN - HEAD_SIZE


@inlined
def batch_count(data: Bytes, position: int, end: int) -> Any:
    """Count the messages from ``position`` to ``end``; return -1 if a length does not fit."""
    count = 0
    while position < end:
        if end - position < SIZE_MIN:
            return -1
        body_length = int64(int_at(data, position + BODY_LENGTH_AT))
        if body_length < 0 or body_length > end - position - SIZE_MIN:
            return -1
        body_end = position + HEAD_SIZE + body_length
        properties_length = int64(short_at(data, body_end))
        message_end = body_end + _PROPERTIES_LENGTH_SIZE + properties_length
        if properties_length < 0 or message_end > end or message_end - position != int_at(data, position):
            return -1
        position = message_end
        count += 1
    return count


@inlined
def read_message(data: Bytes, position: int, send: Any) -> Any:
    """Parse a message whose lengths fit into ``send``, whose flag, body and properties are replaced.

    Returns where it ends, and whether it is usual.
    """
    send.flag = int64(int_at(data, position + FLAG_AT))
    send.body_at = position + HEAD_SIZE
    send.body_length = int64(int_at(data, position + BODY_LENGTH_AT))
    properties_length_at = send.body_at + send.body_length
    send.properties_at = properties_length_at + _PROPERTIES_LENGTH_SIZE
    send.properties_length = int64(short_at(data, properties_length_at))
    end = send.properties_at + send.properties_length
    send.tags_code, is_usual = read_member(data, send.properties_at, end)
    return end, is_usual
