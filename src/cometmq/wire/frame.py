"""Frames: a command as bytes.

RocketMQ: ``NettyDecoder.java``, ``RemotingCommand.java``. All integers are big-endian.

======  ====  =================================================================
Offset  Size  Field
======  ====  =================================================================
0       4     LENGTH: bytes that follow this field
4       1     SERIALIZE_TYPE of the header: 0 JSON, 1 ROCKETMQ
5       3     HEADER_LENGTH
8       n     HEADER: see :mod:`~cometmq.wire.json_header`, :mod:`~cometmq.wire.binary_header`
8 + n   rest  BODY: bytes whose meaning depends on the command's code
======  ====  =================================================================
"""

import struct
from typing import Final

from cometmq.errors import ProtocolError
from cometmq.message import Buffer
from cometmq.wire import binary_header, json_header
from cometmq.wire.command import ONEWAY_FLAG, RESPONSE_FLAG, Command, SerializeType, response

__all__ = [
    "FRAME_LENGTH_MAX",
    "HEADER_LENGTH_MAX",
    "ONEWAY_FLAG",
    "PREFIX_SIZE",
    "RESPONSE_FLAG",
    "Command",
    "SerializeType",
    "check_length",
    "check_prefix",
    "decode",
    "decode_parts",
    "encode",
    "response",
    "with_prefix",
]

FRAME_LENGTH_MAX: Final = 16 * 1024 * 1024
"""The largest LENGTH that is taken or sent, bytes: RocketMQ's ``com.rocketmq.remoting.frameMaxLength``."""

HEADER_LENGTH_MAX: Final = 512 * 1024
"""The largest HEADER_LENGTH that is taken or sent, bytes.

Properties of 32,767 bytes can need 192 KiB of JSON. A header's fields become objects that cost ten times
their bytes, so the limit of the frame would be too much.
"""

PREFIX_SIZE: Final = 8
"""LENGTH, SERIALIZE_TYPE and HEADER_LENGTH: what must be read before a frame can be judged."""

_PREFIX: Final = struct.Struct(">iI")
assert _PREFIX.size == PREFIX_SIZE

_HEADER_LENGTH_MASK: Final = 0xFFFFFF
_HEADER_WORD_MAX: Final = SerializeType.ROCKETMQ << 24 | _HEADER_LENGTH_MASK


def encode(command: Command) -> bytes:
    """Write a whole frame.

    Raises:
        ProtocolError: the frame would exceed a limit, or a value does not fit the binary header.
    """
    if command.serialize_type is SerializeType.JSON:
        header = json_header.encode(command)
    else:
        header = binary_header.encode(command)
    return with_prefix(header, command.body, command.serialize_type)


def with_prefix(header: bytes, body: bytes, serialize_type: SerializeType = SerializeType.JSON) -> bytes:
    """Make a frame of its parts. Raises ProtocolError if it would exceed a limit."""
    length = 4 + len(header) + len(body)
    header_word = serialize_type << 24 | len(header)
    if length > FRAME_LENGTH_MAX or len(header) > HEADER_LENGTH_MAX:
        check_prefix(length, header_word)  # says which limit
    return _PREFIX.pack(length, header_word) + header + body


def decode(frame: Buffer) -> Command:
    """Read a whole frame, LENGTH included.

    Raises:
        ProtocolError: it is cut, too long or not a frame; nothing else is ever raised for any bytes.
    """
    if len(frame) < PREFIX_SIZE:
        raise ProtocolError(f"frame of {len(frame)} bytes, expected at least {PREFIX_SIZE}")
    length, header_word = _PREFIX.unpack_from(frame)
    body_at = PREFIX_SIZE + check_prefix(length, header_word)
    if len(frame) != 4 + length:
        raise ProtocolError(f"frame of {len(frame)} bytes, its LENGTH says {4 + length}")
    return decode_parts(header_word, bytes(frame[PREFIX_SIZE:body_at]), bytes(frame[body_at:]))


def check_length(length: int) -> None:
    """Judge a frame by its LENGTH, as soon as that is known.

    Raises:
        ProtocolError: no frame can have this length.
    """
    if not 4 <= length <= FRAME_LENGTH_MAX:
        raise ProtocolError(f"frame length {length} is outside 4 to {FRAME_LENGTH_MAX}")


def check_prefix(length: int, header_word: int) -> int:
    """Judge a frame by its first 8 bytes; give HEADER_LENGTH.

    Raises:
        ProtocolError: no frame can have this length, the serialize type is unknown, or the header
            is too long for the frame or at all.
    """
    check_length(length)
    header_length = header_word & _HEADER_LENGTH_MASK
    if header_word > _HEADER_WORD_MAX:
        raise ProtocolError(f"serialize type {header_word >> 24} is neither 0 (JSON) nor 1 (ROCKETMQ)")
    if header_length > length - 4 or header_length > HEADER_LENGTH_MAX:
        raise ProtocolError(
            f"header of {header_length} bytes in a frame of length {length}, "
            f"at most {min(length - 4, HEADER_LENGTH_MAX)} are possible"
        )
    return header_length


def decode_parts(header_word: int, header: bytes, body: bytes) -> Command:
    """Read the header of a frame that has been cut into its parts.

    Raises:
        ProtocolError: the header is not what its type says.
    """
    if header_word <= _HEADER_LENGTH_MASK:  # the serialize type is 0
        return json_header.decode(header, body)
    return binary_header.decode(header, body)
