"""The ROCKETMQ serialization of a command's header. All integers are big-endian.

======  ====  ====================================================================================
Offset  Size  Field
======  ====  ====================================================================================
0       2     CODE: codes above 32,767 cannot be encoded
2       1     LANGUAGE: index in :data:`~cometmq.wire.codes.LANGUAGES`
3       2     VERSION
5       4     OPAQUE
9       4     FLAG: bit 0 response, bit 1 one-way
13      4     REMARK_LENGTH, then the remark
…       4     FIELDS_LENGTH, then repeatedly: KEY_LENGTH 2, the key, VALUE_LENGTH 4, the value
======  ====  ====================================================================================

RocketMQ: ``RocketMQSerializable.java``.
"""

import struct
from typing import Final

from cometmq.errors import ProtocolError
from cometmq.wire.codes import LANGUAGES, LanguageCode
from cometmq.wire.command import Command, SerializeType

_FIXED: Final = struct.Struct(">hBhii")
_INT: Final = struct.Struct(">i")
_SHORT: Final = struct.Struct(">h")
_UNSIGNED: Final = struct.Struct(">I")
_SHORT_FIELD: Final = struct.Struct(">h1sI")
"""A field whose name is one letter, up to its value: KEY_LENGTH 1, the key, VALUE_LENGTH."""
_LETTERS: Final = {bytes((code,)): chr(code) for code in range(128)}
assert _FIXED.size == 13 and _SHORT_FIELD.size == 7


def encode(command: Command) -> bytes:
    """Encode a header.

    Raises:
        ProtocolError: a number or a text does not fit.
    """
    try:
        fixed = _FIXED.pack(
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


def decode(header: bytes, body: bytes) -> Command:
    """Decode a header; ``body`` becomes the command's.

    Raises:
        ProtocolError: a length exceeds the header, or a text is not UTF-8.
    """
    try:
        code, language, version, opaque, flag = _FIXED.unpack_from(header)
        remark, position = _read_text(header, _FIXED.size, _INT)
        (fields_length,) = _INT.unpack_from(header, position)
        position += 4
        end = position + fields_length
        if not position <= end <= len(header):
            raise ProtocolError(f"binary header of {len(header)} bytes: fields from {position} to {end}")
        ext_fields = _read_fields(header, position, end)
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


def _read_fields(header: bytes, position: int, end: int) -> dict[str, str]:
    """Decode the fields from ``position`` to ``end``.

    The names of a V2 send are one letter each, and sends are most of what a broker decodes, so fields with
    such names are decoded in fewer steps. A length that exceeds the header leaves the position after the
    end.
    """
    fields = {}
    while position < end:
        if end - position >= _SHORT_FIELD.size:
            name_length, letter, value_length = _SHORT_FIELD.unpack_from(header, position)
            if name_length == 1 and letter in _LETTERS:
                value_at = position + _SHORT_FIELD.size
                position = value_at + value_length
                fields[_LETTERS[letter]] = header[value_at:position].decode()
                continue
        (name_length,) = _SHORT.unpack_from(header, position)
        name_at = position + _SHORT.size
        name_end = name_at + name_length
        if name_length < 0:
            raise ProtocolError(f"binary header of {len(header)} bytes: text from {name_at} to {name_end}")
        (value_length,) = _UNSIGNED.unpack_from(header, name_end)
        value_at = name_end + _UNSIGNED.size
        position = value_at + value_length
        fields[header[name_at:name_end].decode()] = header[value_at:position].decode()
    if position != end:
        raise ProtocolError(f"binary header of {len(header)} bytes: fields to {position} instead of {end}")
    return fields


def _read_text(header: bytes, position: int, length_format: struct.Struct) -> tuple[str, int]:
    """Decode a length and a UTF-8 text of so many bytes; return the text and the position after it."""
    (length,) = length_format.unpack_from(header, position)
    begin = position + length_format.size
    end = begin + length
    if not begin <= end <= len(header):
        raise ProtocolError(f"binary header of {len(header)} bytes: text from {begin} to {end}")
    return header[begin:end].decode(), end
