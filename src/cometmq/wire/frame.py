"""Frames: one command of the remoting protocol as bytes.

RocketMQ: ``RemotingCommand.java``, ``RocketMQSerializable.java``. All integers are big-endian.

======  ====  =================================================================
Offset  Size  Field
======  ====  =================================================================
0       4     LENGTH: bytes that follow this field
4       1     SERIALIZE_TYPE of the header: 0 JSON, 1 ROCKETMQ
5       3     HEADER_LENGTH
8       n     HEADER
8 + n   rest  BODY: bytes whose meaning depends on the command's code
======  ====  =================================================================

A JSON header is an object of ``code``, ``extFields``, ``flag``, ``language``, ``opaque``, ``remark``
and ``version``; the values of ``extFields`` are strings, though some clients write numbers there.
A ROCKETMQ header is

======  ====  =================================================================
Offset  Size  Field
======  ====  =================================================================
0       2     CODE: codes above 32,767 cannot be carried
2       1     LANGUAGE: index in :data:`~cometmq.wire.codes.LANGUAGES`
3       2     VERSION
5       4     OPAQUE
9       4     FLAG: bit 0 response, bit 1 one-way
13      4     REMARK_LENGTH, then the remark
…       4     FIELDS_LENGTH, then the extFields: KEY_LENGTH 2, key, VALUE_LENGTH 4, value, again and again
======  ====  =================================================================
"""

import struct
from enum import IntEnum
from typing import Annotated, Final

import msgspec

from cometmq.errors import ProtocolError
from cometmq.message import Buffer
from cometmq.wire.codes import LANGUAGE, LANGUAGES, VERSION, LanguageCode, RequestCode, ResponseCode

FRAME_LENGTH_MAX: Final = 16 * 1024 * 1024
"""The largest LENGTH that is taken or sent, bytes: RocketMQ's ``com.rocketmq.remoting.frameMaxLength``."""

PREFIX_SIZE: Final = 8
"""LENGTH, SERIALIZE_TYPE and HEADER_LENGTH: what must be read before a frame can be judged."""

RESPONSE_FLAG: Final = 1
ONEWAY_FLAG: Final = 2

_PREFIX: Final = struct.Struct(">iI")
_BINARY_HEADER: Final = struct.Struct(">hBhii")
_INT: Final = struct.Struct(">i")
_SHORT: Final = struct.Struct(">h")
assert _PREFIX.size == PREFIX_SIZE and _BINARY_HEADER.size == 13


class SerializeType(IntEnum):
    """How a header is written."""

    JSON = 0
    ROCKETMQ = 1


_HEADER_LENGTH_MASK: Final = 0xFFFFFF
_HEADER_WORD_MAX: Final = SerializeType.ROCKETMQ << 24 | _HEADER_LENGTH_MASK


class Command(msgspec.Struct):
    """A request, a one-way request or a response.

    Attributes:
        code: a :class:`RequestCode`, or in a response a :class:`ResponseCode`.
        opaque: the number by which a response finds its request.
        flag: bit 0 response, bit 1 one-way.
        version: what the peer understands: a :class:`~cometmq.wire.codes.Version` ordinal.
        remark: a response's text for people.
        ext_fields: the header fields of this code; :mod:`cometmq.wire.headers` gives them types.
        serialize_type: how the header is written; an answer must keep that of its request.
    """

    code: int
    opaque: int = 0
    flag: int = 0
    version: int = VERSION
    language: LanguageCode = LANGUAGE
    remark: str | None = None
    ext_fields: dict[str, str] = {}
    body: bytes = b""
    serialize_type: SerializeType = SerializeType.JSON

    @property
    def is_response(self) -> bool:
        """Whether this answers a request."""
        return self.flag & RESPONSE_FLAG != 0

    @property
    def is_oneway(self) -> bool:
        """Whether this is a request that wants no answer."""
        return self.flag & ONEWAY_FLAG != 0

    def __str__(self) -> str:
        """Draw a protocol trace line: ``→ SEND_MESSAGE_V2 #17 b=TopicA e=3 [128 bytes]``."""
        arrow = "←" if self.is_response else "→"
        parts = [arrow, _code_name(self), f"#{self.opaque}"]
        if self.is_oneway:
            parts.append("oneway")
        parts += [f"{_shown(name)}={_shown(value)}" for name, value in self.ext_fields.items()]
        if self.remark:
            parts.append(f'"{_shown(self.remark)}"')
        return " ".join([*parts, f"[{len(self.body)} bytes]"])


def response(
    request: Command,
    code: int = ResponseCode.SUCCESS,
    remark: str | None = None,
    ext_fields: dict[str, str] | None = None,
    body: bytes = b"",
) -> Command:
    """Make the answer to ``request``: the same opaque number, the header written the same way."""
    return Command(
        code,
        request.opaque,
        RESPONSE_FLAG,
        VERSION,
        LANGUAGE,
        remark,
        {} if ext_fields is None else ext_fields,
        body,
        request.serialize_type,
    )


def encode(command: Command) -> bytes:
    """Write a whole frame.

    Raises:
        ProtocolError: the frame would exceed a limit, or a value does not fit the binary header.
    """
    if command.serialize_type is SerializeType.JSON:
        header = _encode_json_header(command)
    else:
        header = _encode_binary_header(command)
    length = 4 + len(header) + len(command.body)
    if length > FRAME_LENGTH_MAX:
        raise ProtocolError(f"frame of {length} bytes exceeds the limit of {FRAME_LENGTH_MAX}")
    return _PREFIX.pack(length, command.serialize_type << 24 | len(header)) + header + command.body


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
            would not fit into the frame.
    """
    check_length(length)
    header_length = header_word & _HEADER_LENGTH_MASK
    if header_word > _HEADER_WORD_MAX:
        raise ProtocolError(f"serialize type {header_word >> 24} is neither 0 (JSON) nor 1 (ROCKETMQ)")
    if header_length > length - 4:
        raise ProtocolError(f"header of {header_length} bytes does not fit a frame of length {length}")
    return header_length


def decode_parts(header_word: int, header: bytes, body: bytes) -> Command:
    """Read the header of a frame that has been cut into its parts.

    Raises:
        ProtocolError: the header is not what its type says.
    """
    if header_word <= _HEADER_LENGTH_MASK:  # the serialize type is 0
        return _decode_json_header(header, body)
    return _decode_binary_header(header, body)


_Int = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
"""Java's ``int``: what a binary header can hold, and so what a command of either kind may."""


class _JsonHeader(msgspec.Struct, rename={"ext_fields": "extFields"}):
    """The JSON header as nearly all clients write it: read in one go."""

    code: _Int
    ext_fields: dict[str, str] = {}
    flag: _Int = 0
    language: LanguageCode = LanguageCode.OTHER
    opaque: _Int = 0
    remark: str | None = None
    version: _Int = 0


class _LooseJsonHeader(msgspec.Struct, rename={"ext_fields": "extFields"}):
    """The JSON header as some clients write it: numbers as strings, field values of any simple type."""

    code: _Int
    ext_fields: dict[str, str | int | float | bool | None] | None = None
    flag: _Int | None = 0
    language: str | int | None = None
    opaque: _Int | None = 0
    remark: str | None = None
    version: _Int | None = 0


class _JsonHeaderOut(
    msgspec.Struct,
    rename={"ext_fields": "extFields", "serialize_type": "serializeTypeCurrentRPC"},
):
    """The JSON header as RocketMQ writes it: this order, empty things left out, zeros not.

    A Java client would take a missing opaque number for one of its own.
    """

    code: int
    ext_fields: dict[str, str] | msgspec.UnsetType
    flag: int
    language: LanguageCode
    opaque: int
    remark: str | msgspec.UnsetType
    serialize_type: str
    version: int


_HEADER_DECODER: Final = msgspec.json.Decoder(_JsonHeader)
_LOOSE_HEADER_DECODER: Final = msgspec.json.Decoder(_LooseJsonHeader, strict=False)
_ENCODER: Final = msgspec.json.Encoder()
_MALFORMED: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)


def _encode_json_header(command: Command) -> bytes:
    try:
        return _ENCODER.encode(
            _JsonHeaderOut(
                command.code,
                command.ext_fields or msgspec.UNSET,
                command.flag,
                command.language,
                command.opaque,
                msgspec.UNSET if command.remark is None else command.remark,
                "JSON",
                command.version,
            )
        )
    except UnicodeError as error:
        raise ProtocolError(f"header of {command} is not text: {error}") from None


def _decode_json_header(header: bytes, body: bytes) -> Command:
    try:
        fields = _HEADER_DECODER.decode(header)
    except _MALFORMED:
        fields = _decode_loose_json_header(header)
    return Command(
        fields.code,
        fields.opaque,
        fields.flag,
        fields.version,
        fields.language,
        fields.remark,
        fields.ext_fields,
        body,
    )


def _decode_loose_json_header(header: bytes) -> _JsonHeader:
    try:
        fields = _LOOSE_HEADER_DECODER.decode(header)
    except _MALFORMED as error:
        raise ProtocolError(f"JSON header of {len(header)} bytes, {_excerpt(header)}: {error}") from None
    ext_fields = fields.ext_fields or {}
    return _JsonHeader(
        fields.code,
        {name: _text(value) for name, value in ext_fields.items() if value is not None},
        fields.flag or 0,
        LanguageCode(str(fields.language)),
        fields.opaque or 0,
        fields.remark,
        fields.version or 0,
    )


def _text(value: str | float) -> str:
    """Give a field's value as the string that it should have been."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _encode_binary_header(command: Command) -> bytes:
    try:
        fixed = _BINARY_HEADER.pack(
            command.code,
            LANGUAGES.index(command.language),
            command.version,
            command.opaque,
            command.flag,
        )
        remark = (command.remark or "").encode()
        parts = []
        for name, value in command.ext_fields.items():
            name_bytes, value_bytes = name.encode(), value.encode()
            parts += [_SHORT.pack(len(name_bytes)), name_bytes, _INT.pack(len(value_bytes)), value_bytes]
    except (struct.error, UnicodeError) as error:
        raise ProtocolError(f"binary header cannot carry {command}: {error}") from None
    fields = b"".join(parts)
    return b"".join((fixed, _INT.pack(len(remark)), remark, _INT.pack(len(fields)), fields))


def _decode_binary_header(header: bytes, body: bytes) -> Command:
    try:
        code, language, version, opaque, flag = _BINARY_HEADER.unpack_from(header)
        remark, position = _read_text(header, _BINARY_HEADER.size, _INT)
        (fields_length,) = _INT.unpack_from(header, position)
        position += 4
        end = position + fields_length
        if not position <= end <= len(header):
            raise ProtocolError(f"binary header of {len(header)} bytes: fields from {position} to {end}")
        ext_fields = {}
        while position < end:
            name, position = _read_text(header, position, _SHORT)
            ext_fields[name], position = _read_text(header, position, _INT)
    except (struct.error, UnicodeError) as error:
        raise ProtocolError(f"binary header of {len(header)} bytes: {error}") from None
    return Command(
        code,
        opaque,
        flag,
        version,
        LANGUAGES[language] if language < len(LANGUAGES) else LanguageCode.OTHER,
        remark or None,
        ext_fields,
        body,
        SerializeType.ROCKETMQ,
    )


def _read_text(header: bytes, position: int, length_format: struct.Struct) -> tuple[str, int]:
    """Read a length and that many bytes of UTF-8; give the text and the position after it."""
    (length,) = length_format.unpack_from(header, position)
    begin = position + length_format.size
    end = begin + length
    if not begin <= end <= len(header):
        raise ProtocolError(f"binary header of {len(header)} bytes: text from {begin} to {end}")
    return header[begin:end].decode(), end


_SHOWN_LENGTH: Final = 40
"""Longer texts lose their middle in a trace line, characters."""


def _code_name(command: Command) -> str:
    codes: type[IntEnum] = ResponseCode if command.is_response else RequestCode
    try:
        return codes(command.code).name
    except ValueError:
        return f"code {command.code}"


def _shown(value: object) -> str:
    """Give ``value`` on one line: the middle left out when long, control characters escaped."""
    text = str(value)
    if len(text) <= _SHOWN_LENGTH:
        return _printable(text)
    half = _SHOWN_LENGTH // 2
    return f"{_printable(text[:half])}…{_printable(text[-half:])}"


def _printable(text: str) -> str:
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def _excerpt(data: bytes) -> str:
    return repr(data[:_SHOWN_LENGTH]) + ("…" if len(data) > _SHOWN_LENGTH else "")
