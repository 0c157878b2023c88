"""Parsing a SEND_MESSAGE_V2 header inside kernels, from JSON and ROCKETMQ form.

The fields of the header are the letters ``a`` to ``n``. The result, ``places``, is int64[PLACES_SIZE]: the
positions where each field's value begins and ends, then the header's code, flag and opaque number;
NOT_A_NUMBER stands for what is missing. Kernels do not read a header with anything unusual: a field twice, an
escape or a character outside ASCII in a text other than the properties, or a number in place of a text.
"""

from typing import Any, Final

import numpy as np

from cometmq.kernels.compiling.jit import (
    Bytes,
    Longs,
    byte_at,
    inlined,
    int64,
    int_at,
    short_at,
    uint64,
    word_at,
)
from cometmq.kernels.headers.json_text import (
    NOT_A_NUMBER,
    is_plain,
    number_between,
    number_end,
    plain_end,
    skip_blanks,
    unescape,
)
from cometmq.kernels.sends.rows import FIELD_COUNT, PLACES_SIZE

FIRST_FIELD: Final = ord("a")
PROPERTIES: Final = ord("i") - FIRST_FIELD
"""The field that is unescaped when it is parsed: its positions are in ``texts``."""

# The positions in ``places`` of a header's own numbers.
CODE: Final = 2 * FIELD_COUNT
FLAG: Final = CODE + 1
OPAQUE: Final = CODE + 2
assert CODE + 3 == PLACES_SIZE

_INT_MIN: Final = -(2**31)
_INT_MAX: Final = 2**31 - 1
_QUOTE: Final = ord('"')
_COLON: Final = ord(":")
_COMMA: Final = ord(",")
_OPEN: Final = ord("{")
_CLOSE: Final = ord("}")
BINARY_FIXED_SIZE: Final = 21  # bytes before the fields, with an empty remark
REMARK_LENGTH_AT: Final = 13
_FIELD: Final = b'"?":"'
"""The usual beginning of a field; ``?`` stands for its name."""
_FIELD_SIZE: Final = len(_FIELD)
_FIELD_MASK: Final = uint64(int.from_bytes(b"\xff\0\xff\xff\xff", "little"))
_FIELD_PATTERN: Final = uint64(int.from_bytes(_FIELD, "little")) & _FIELD_MASK
_NAMES: Final = [
    np.frombuffer(name, np.uint8) for name in (b"extFields", b"code", b"flag", b"opaque", b"version")
]
_EXT_FIELDS, _CODE_NAME, _FLAG_NAME, _OPAQUE_NAME, _VERSION_NAME = _NAMES


def json_reader(read_fields: Any) -> Any:
    """Build a parser of JSON headers; ``read_fields`` parses ``extFields`` after its brace."""

    @inlined
    def read(data: Bytes, position: int, end: int, places: Longs, texts: Bytes, texts_end: int) -> Any:
        """Parse a JSON header into ``places``; return the new end of ``texts``, -1 if it is unusual."""
        if position >= end or byte_at(data, position) != _OPEN:
            return -1
        position = skip_blanks(data, position + 1, end)
        while position < end and byte_at(data, position) == _QUOTE:
            name = position + 1
            name_end = plain_end(data, name, end)
            position = value_at(data, name_end, end)
            if position < 0:
                return -1
            if byte_at(data, position) == _OPEN:
                if not _is_name(data, name, name_end, _EXT_FIELDS):
                    return -1
                position, texts_end = read_fields(data, position + 1, end, places, texts, texts_end)
                if position < 0:
                    return -1
            elif byte_at(data, position) == _QUOTE:
                if _number_place(data, name, name_end) != 0:
                    return -1  # a number or ``extFields``, written as a text
                position = plain_end(data, position + 1, end) + 1
                if position == 0:
                    return -1
            else:
                place = _number_place(data, name, name_end)
                value_end = number_end(data, position, end)
                value = number_between(data, position, value_end)
                if place <= 0 or value < _INT_MIN or value > _INT_MAX:
                    return -1
                if place < PLACES_SIZE:
                    if places[place] != NOT_A_NUMBER:
                        return -1
                    places[place] = value
                position = value_end
            position = _next_member(data, position, end)
            if position == end:
                return texts_end
        return -1

    return read


@inlined
def value_at(data: Bytes, name_end: int, end: int) -> Any:
    """Return where the value of the name that ends at ``name_end`` begins, -1 if there is none."""
    if name_end < 0:
        return -1
    position = skip_blanks(data, name_end + 1, end)
    if position >= end or byte_at(data, position) != _COLON:
        return -1
    position = skip_blanks(data, position + 1, end)
    return position if position < end else -1


@inlined
def _next_member(data: Bytes, position: int, end: int) -> Any:
    """Return where the outer object's next member begins, ``end`` after its last one, -1 if malformed."""
    position = skip_blanks(data, position, end)
    if position >= end:
        return -1
    byte = byte_at(data, position)
    if byte == _COMMA:
        position = skip_blanks(data, position + 1, end)
        return position if position < end else -1
    return end if byte == _CLOSE and position + 1 == end else -1


@inlined
def _is_name(data: Bytes, position: int, end: int, name: Bytes) -> bool:
    if end - position != len(name):
        return False
    for i in range(len(name)):
        if byte_at(data, position + i) != name[i]:
            return False
    return True


@inlined
def _number_place(data: Bytes, name: int, name_end: int) -> Any:
    """Return the position in ``places`` of a header's number; -1 for ``extFields``, 0 for any other name."""
    if _is_name(data, name, name_end, _CODE_NAME):
        return CODE
    if _is_name(data, name, name_end, _FLAG_NAME):
        return FLAG
    if _is_name(data, name, name_end, _OPAQUE_NAME):
        return OPAQUE
    if _is_name(data, name, name_end, _VERSION_NAME):
        return PLACES_SIZE  # outside the array: it is ignored
    return -1 if _is_name(data, name, name_end, _EXT_FIELDS) else 0


@inlined
def _read_fields(data: Bytes, position: int, end: int, places: Longs, texts: Bytes, texts_end: int) -> Any:
    """Parse ``extFields`` after its brace; return where it ends, or -1, and the new end of ``texts``."""
    while True:
        value = _short_value(data, position, end)
        if value > 0:
            field = int64(byte_at(data, position + 1)) - FIRST_FIELD
        else:
            position = skip_blanks(data, position, end)
            if position >= end or byte_at(data, position) != _QUOTE:
                return -1, texts_end
            name = position + 1
            name_end = plain_end(data, name, end)
            position = value_at(data, name_end, end)
            if position < 0 or byte_at(data, position) != _QUOTE:
                return -1, texts_end
            value = position + 1
            field = int64(byte_at(data, name)) - FIRST_FIELD if name_end == name + 1 else int64(-1)
        if field == PROPERTIES:
            value_end, properties_end = unescape(data, value, end, texts, texts_end)
            if value_end < 0 or not put_place(places, field, texts_end, properties_end):
                return -1, texts_end
            texts_end = properties_end
        else:
            value_end = plain_end(data, value, end)
            if value_end < 0 or not put_place(places, field, value, value_end):
                return -1, texts_end
        position = skip_blanks(data, value_end + 1, end)
        if position >= end:
            return -1, texts_end
        byte = byte_at(data, position)
        if byte == _CLOSE:
            return position + 1, texts_end
        if byte != _COMMA:
            return -1, texts_end
        position += 1


read_json: Final = json_reader(_read_fields)


@inlined
def _short_value(data: Bytes, position: int, end: int) -> Any:
    """Return where the value begins if there is a field in its usual form at ``position``, or -1."""
    if position + 8 > end or word_at(data, position) & _FIELD_MASK != _FIELD_PATTERN:
        return -1
    name = byte_at(data, position + 1)
    return position + _FIELD_SIZE if FIRST_FIELD <= name < FIRST_FIELD + FIELD_COUNT else -1


@inlined
def put_place(places: Longs, field: int, begin: int, end: int) -> bool:
    """Store a field's positions; return False if the field occurred before. Other fields are ignored."""
    if field < 0 or field >= FIELD_COUNT:
        return True
    if places[2 * field] != NOT_A_NUMBER:
        return False
    places[2 * field] = begin
    places[2 * field + 1] = end
    return True


@inlined
def read_binary(data: Bytes, position: int, end: int, places: Longs, texts: Bytes, texts_end: int) -> Any:
    """Parse a ROCKETMQ header into ``places``; return the new end of ``texts``, -1 if it is unusual."""
    fields = position + BINARY_FIXED_SIZE
    if fields > end or int_at(data, position + REMARK_LENGTH_AT) != 0:
        return -1
    places[CODE] = short_at(data, position)
    places[OPAQUE] = int_at(data, position + 5)
    places[FLAG] = int_at(data, position + 9)
    if int_at(data, fields - 4) != end - fields:
        return -1
    while fields < end:
        if fields + 2 > end:
            return -1
        name = fields + 2
        name_end = name + int64(short_at(data, fields))
        if name_end < name or name_end + 4 > end:
            return -1
        value = name_end + 4
        value_end = value + int64(int_at(data, name_end))
        if value_end < value or value_end > end or not is_plain(data, name, name_end):
            return -1
        field = int64(byte_at(data, name)) - FIRST_FIELD if name_end == name + 1 else int64(-1)
        if field == PROPERTIES:
            properties_end = _copy(data, value, value_end, texts, texts_end)
            if not put_place(places, field, texts_end, properties_end):
                return -1
            texts_end = properties_end
        elif not is_plain(data, value, value_end) or not put_place(places, field, value, value_end):
            return -1
        fields = value_end
    return texts_end


@inlined
def _copy(data: Bytes, position: int, end: int, out: Bytes, at: int) -> Any:
    while position < end:
        out[at] = byte_at(data, position)
        at += 1
        position += 1
    return at


@inlined
def int_field(data: Bytes, places: Longs, field: int, default: int) -> Any:
    """Read a field that is a Java ``int``; NOT_A_NUMBER if it is not one."""
    value = long_field(data, places, field, default)
    return value if _INT_MIN <= value <= _INT_MAX else int64(NOT_A_NUMBER)


@inlined
def long_field(data: Bytes, places: Longs, field: int, default: int) -> Any:
    """Read a field that is a Java ``long`` of at most 18 digits; NOT_A_NUMBER if it is not one."""
    if places[2 * field] == NOT_A_NUMBER:
        return int64(default)
    return number_between(data, places[2 * field], places[2 * field + 1])
