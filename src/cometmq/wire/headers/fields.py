"""Convert between the strings of a command's ``ext_fields`` and a typed header."""

from functools import cache
from operator import attrgetter
from typing import Annotated, Any, Final, TypeVar

import msgspec

from cometmq.errors import HeaderError

Int = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
"""Java's ``int``."""

Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""Java's ``long``."""


class Header(msgspec.Struct, rename="camel"):
    """The base of all headers: attributes by our names, encoded under RocketMQ's names.

    A field without a default is required. Unknown fields are ignored.
    """


class NoFields(Header):
    """The header of a command without header fields."""


HeaderType = TypeVar("HeaderType", bound=Header)


def parse(header_type: type[HeaderType], ext_fields: dict[str, str]) -> HeaderType:
    """Convert ``ext_fields`` to a ``header_type``: strings become numbers and booleans.

    Raises:
        HeaderError: a field is missing or ill-typed; the text names it, its value and the expected type.
    """
    try:
        return msgspec.convert(ext_fields, header_type, strict=False)
    except (msgspec.ValidationError, UnicodeError) as error:
        raise _explain(header_type, ext_fields, str(error)) from None


def fields(header: Header) -> dict[str, str]:
    """Convert a header to ``ext_fields``; None is left out."""
    names, values = _accessors(type(header))
    return {
        name: value if type(value) is str else str(value) if type(value) is int else _text(value)
        for name, value in zip(names, values(header), strict=True)
        if value is not None
    }


_SHOWN_LENGTH: Final = 60
"""Longest value in an error's text, in characters; longer ones are cut."""


def _no_values(_header: Header) -> tuple[()]:
    return ()


@cache
def _accessors(header_type: type[Header]) -> tuple[tuple[str, ...], Any]:
    """Return the wire names of a header type, and a function that returns its values in the same order."""
    attributes = header_type.__struct_fields__
    names = header_type.__struct_encode_fields__
    if not attributes:
        return names, _no_values
    if len(attributes) == 1:
        fetch = attrgetter(attributes[0])
        return names, lambda header: (fetch(header),)
    return names, attrgetter(*attributes)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _explain(header_type: type[Header], ext_fields: dict[str, str], reason: str) -> HeaderError:
    """Build the error for the first field that cannot be converted: slow, so only after a failure."""
    for known in msgspec.structs.fields(header_type):
        value = ext_fields.get(known.encode_name)
        if value is None:
            if known.required:
                return HeaderError(known.encode_name, f"missing, expected {type_name(known.type)}")
            continue
        try:
            msgspec.convert(value, known.type, strict=False)
        except (msgspec.ValidationError, UnicodeError):
            shown = value if len(value) <= _SHOWN_LENGTH else f"{value[:_SHOWN_LENGTH]}…"
            return HeaderError(known.encode_name, f"{shown!r} is not {type_name(known.type)}")
    return HeaderError("?", reason)


def type_name(field_type: object) -> str:
    """Return the expected type of a field in words, for an error."""
    text = str(field_type)
    for mark, name in (
        ("bool", "a boolean"),
        (str(2**63 - 1), "a 64-bit integer"),
        ("int", "a 32-bit integer"),
    ):
        if mark in text:
            return name
    return "a text"
