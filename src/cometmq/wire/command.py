"""Commands: requests, one-way requests and responses, independent of the serialization of their headers."""

from enum import IntEnum
from typing import Final

import msgspec

from cometmq.escaping import printable
from cometmq.wire.codes import LANGUAGE, VERSION, LanguageCode, RequestCode, ResponseCode

RESPONSE_FLAG: Final = 1
ONEWAY_FLAG: Final = 2

REMARK_LENGTH_MAX: Final = 500
"""Longest remark that is sent, in characters."""
_SHOWN_LENGTH: Final = 40
"""Longest text in a trace line, in characters; the middle of longer ones is left out."""
_SECRETS: Final = frozenset(("Signature", "SecurityToken"))
"""Fields that must not appear in a log."""


class SerializeType(IntEnum):
    """The serialization of a header."""

    JSON = 0
    ROCKETMQ = 1


class Command(msgspec.Struct, gc=False):
    """A request, a one-way request or a response. Python's garbage collector does not track it.

    Attributes:
        code: a :class:`RequestCode`, or in a response a :class:`ResponseCode`.
        opaque: the request's number; its response has the same number.
        flag: bit 0 response, bit 1 one-way.
        version: the peer's version: a :class:`~cometmq.wire.codes.Version` ordinal.
        remark: a response's text for people.
        ext_fields: the header fields of this code; :mod:`cometmq.wire.headers` defines their types.
        serialize_type: the serialization of the header; a response must use that of its request.
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
        """Whether this is a response."""
        return self.flag & RESPONSE_FLAG != 0

    @property
    def is_oneway(self) -> bool:
        """Whether this is a request to which no response is sent."""
        return self.flag & ONEWAY_FLAG != 0

    def __str__(self) -> str:
        """Return a protocol trace line: ``→ SEND_MESSAGE_V2 #17 b=TopicA e=3 [128 bytes]``."""
        arrow = "←" if self.is_response else "→"
        parts = [arrow, _code_name(self), f"#{self.opaque}"]
        if self.is_oneway:
            parts.append("oneway")
        for name, value in self.ext_fields.items():
            parts.append(f"{_shown(name)}={'…' if name in _SECRETS else _shown(value)}")
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
    """Build the response to ``request``, with its opaque number and its serialization.

    A long remark is cut, since it may quote what the peer sent.
    """
    if remark is not None and len(remark) > REMARK_LENGTH_MAX:
        remark = f"{remark[:REMARK_LENGTH_MAX]}…"
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


def _code_name(command: Command) -> str:
    codes: type[IntEnum] = ResponseCode if command.is_response else RequestCode
    try:
        return codes(command.code).name
    except ValueError:
        return f"code {command.code}"


def _shown(value: object) -> str:
    """Return ``value`` on one line: control characters escaped, the middle of a long text left out."""
    text = str(value)
    if len(text) <= _SHOWN_LENGTH:
        return printable(text)
    half = _SHOWN_LENGTH // 2
    return f"{printable(text[:half])}…{printable(text[-half:])}"
