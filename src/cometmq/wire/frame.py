"""Frames: commands encoded as bytes.

RocketMQ: ``NettyDecoder.java``, ``RemotingCommand.java``. All integers are big-endian.

======  ====  =================================================================
Offset  Size  Field
======  ====  =================================================================
0       4     LENGTH: bytes that follow this field
4       1     SERIALIZE_TYPE of the header: 0 JSON, 1 ROCKETMQ
5       3     HEADER_LENGTH
8       n     HEADER: see :mod:`~cometmq.wire.json_header`, :mod:`~cometmq.wire.binary_header`
8 + n   rest  BODY: its meaning depends on the command's code
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
    "HEADER_LENGTH_MASK",
    "HEADER_LENGTH_MAX",
    "ONEWAY_FLAG",
    "PREFIX_SIZE",
    "RESPONSE_FLAG",
    "RESPONSE_HEADER_LENGTH_MAX",
    "Command",
    "SerializeType",
    "check_length",
    "check_prefix",
    "decode",
    "decode_parts",
    "encode",
    "frame_end",
    "response",
    "with_prefix",
]

FRAME_LENGTH_MAX: Final = 16 * 1024 * 1024
"""Largest LENGTH that is accepted or sent, in bytes: RocketMQ's ``com.rocketmq.remoting.frameMaxLength``."""

HEADER_LENGTH_MAX: Final = 512 * 1024
"""Largest HEADER_LENGTH of a request, in bytes.

Properties of 32,767 bytes can need 192 KiB of JSON. A header's fields become objects that take ten times
their bytes in memory, so the limit of a frame would be too high.
"""

PREFIX_SIZE: Final = 8
"""Bytes of LENGTH, SERIALIZE_TYPE and HEADER_LENGTH, which are enough to check a frame's sizes."""

_PREFIX: Final = struct.Struct(">iI")
assert _PREFIX.size == PREFIX_SIZE

HEADER_LENGTH_MASK: Final = 0xFFFFFF
"""The bits of the word behind LENGTH that are HEADER_LENGTH; those above are SERIALIZE_TYPE."""
RESPONSE_HEADER_LENGTH_MAX: Final = HEADER_LENGTH_MASK
"""Largest HEADER_LENGTH of a response, in bytes: it names all messages of a batch, tens of thousands of small
ones, in one field."""
_HEADER_WORD_MAX: Final = SerializeType.ROCKETMQ << 24 | HEADER_LENGTH_MASK


def encode(command: Command) -> bytes:
    """Encode a whole frame.

    Raises:
        ProtocolError: the frame would exceed a limit, or a value does not fit into the binary header.
    """
    if command.serialize_type is SerializeType.JSON:
        header = json_header.encode(command)
    else:
        header = binary_header.encode(command)
    most = RESPONSE_HEADER_LENGTH_MAX if command.flag & RESPONSE_FLAG else HEADER_LENGTH_MAX
    return with_prefix(header, command.body, command.serialize_type, most)


def with_prefix(
    header: bytes,
    body: bytes,
    serialize_type: SerializeType = SerializeType.JSON,
    header_length_max: int = HEADER_LENGTH_MAX,
) -> bytes:
    """Build a frame from its parts. Raises ProtocolError if it would exceed a limit."""
    length = 4 + len(header) + len(body)
    header_word = serialize_type << 24 | len(header)
    if length > FRAME_LENGTH_MAX or len(header) > header_length_max:
        check_prefix(length, header_word, header_length_max)  # raises, naming the limit
    return _PREFIX.pack(length, header_word) + header + body


def decode(frame: Buffer) -> Command:
    """Decode a whole frame, LENGTH included.

    Raises:
        ProtocolError: it is incomplete, too long or not a frame; no bytes raise any other exception.
    """
    if len(frame) < PREFIX_SIZE:
        raise ProtocolError(f"frame of {len(frame)} bytes, expected at least {PREFIX_SIZE}")
    length, header_word = _PREFIX.unpack_from(frame)
    body_at = PREFIX_SIZE + check_prefix(length, header_word)
    if len(frame) != 4 + length:
        raise ProtocolError(f"frame of {len(frame)} bytes, its LENGTH says {4 + length}")
    return decode_parts(header_word, bytes(frame[PREFIX_SIZE:body_at]), bytes(frame[body_at:]))


def check_length(length: int) -> None:
    """Check a frame's LENGTH.

    Raises:
        ProtocolError: the length is outside the limits.
    """
    if not 4 <= length <= FRAME_LENGTH_MAX:
        raise ProtocolError(f"frame length {length} is outside 4 to {FRAME_LENGTH_MAX}")


def check_prefix(length: int, header_word: int, header_length_max: int = HEADER_LENGTH_MAX) -> int:
    """Check the first 8 bytes of a frame; return its HEADER_LENGTH.

    Raises:
        ProtocolError: a length is outside the limits, the serialize type is unknown, or the header is longer
            than the frame or its limit.
    """
    check_length(length)
    header_length = header_word & HEADER_LENGTH_MASK
    if header_word > _HEADER_WORD_MAX:
        raise ProtocolError(f"serialize type {header_word >> 24} is neither 0 (JSON) nor 1 (ROCKETMQ)")
    if header_length > length - 4 or header_length > header_length_max:
        raise ProtocolError(
            f"header of {header_length} bytes in a frame of length {length}, "
            f"at most {min(length - 4, header_length_max)} are possible"
        )
    return header_length


def frame_end(data: bytes, position: int) -> int:
    """Return where the frame at ``position`` ends, -1 if it is cut off or malformed."""
    if position + PREFIX_SIZE > len(data):
        return -1
    length, header_word = _PREFIX.unpack_from(data, position)
    end = position + 4 + int(length)
    try:
        check_prefix(length, header_word)
    except ProtocolError:
        return -1
    return end if end <= len(data) else -1


def decode_parts(header_word: int, header: bytes, body: bytes) -> Command:
    """Decode a frame that has been split into its parts.

    Raises:
        ProtocolError: the header does not match its serialize type.
    """
    if header_word <= HEADER_LENGTH_MASK:  # the serialize type is 0
        return json_header.decode(header, body)
    return binary_header.decode(header, body)
