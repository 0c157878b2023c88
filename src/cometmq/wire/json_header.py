"""The JSON serialization of a command's header.

An object of ``code``, ``extFields``, ``flag``, ``language``, ``opaque``, ``remark`` and ``version``. The
values of ``extFields`` are strings, though some clients send numbers and booleans; null counts as
absent.

RocketMQ: ``RemotingCommand.java``, ``RemotingSerializable.java``.
"""

from typing import Annotated, Final

import msgspec

from cometmq.errors import ProtocolError
from cometmq.wire.codes import LanguageCode
from cometmq.wire.command import Command


def encode(command: Command) -> bytes:
    """Encode a header.

    Raises:
        ProtocolError: a text in it holds half a surrogate pair, which is not a character.
    """
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


def header_format(code: int, ext_fields: dict[str, str]) -> str:
    """Encode a request's header as a format, into which its flag and its opaque number are filled.

    Args:
        ext_fields: values may be ``%s`` or ``%d``, to be filled in, too; they come before those two.
    """
    text = encode(Command(code, ext_fields=ext_fields)).decode()
    return text.replace('"flag":0', '"flag":%d').replace('"opaque":0', '"opaque":%d')


def decode(header: bytes, body: bytes) -> Command:
    """Decode a header; ``body`` becomes the command's.

    Raises:
        ProtocolError: it is not JSON, or not a header.
    """
    try:
        fields = _HEADER_DECODER.decode(header)
    except _MALFORMED:
        fields = _decode_loosely(header)
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


_Int = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
"""Java's ``int``: the range of a binary header's numbers, and so of every command's."""


class _JsonHeader(msgspec.Struct, rename={"ext_fields": "extFields"}):
    """The JSON header as nearly all clients send it, for decoding in one step."""

    code: _Int
    ext_fields: dict[str, str] = {}
    flag: _Int = 0
    language: LanguageCode = LanguageCode.OTHER
    opaque: _Int = 0
    remark: str | None = None
    version: _Int = 0


class _LooseJsonHeader(msgspec.Struct, rename={"ext_fields": "extFields"}):
    """The JSON header as some clients send it: numbers as strings, field values of any simple type."""

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
    """The JSON header as RocketMQ encodes it: in this order, without empty members, but with zeros.

    A Java client would replace a missing opaque number by one of its own.
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

_SHOWN_LENGTH: Final = 40
"""Length of the excerpt of a header in an error, in bytes."""


def _decode_loosely(header: bytes) -> _JsonHeader:
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
    """Return a field's value as the string that it should have been."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _excerpt(data: bytes) -> str:
    return repr(data[:_SHOWN_LENGTH]) + ("…" if len(data) > _SHOWN_LENGTH else "")
