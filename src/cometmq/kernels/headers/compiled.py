"""Parsing frames and their headers inside kernels, in JSON and ROCKETMQ form: the fields of given names.

Kernels do not read a header with anything unusual: a field twice, an escape or a character outside ASCII in a
text (except in one that they unescape), or a number in place of a text.
"""

from typing import Any, Final

import numpy as np

from cometmq.kernels.compiling.jit import (
    Bytes,
    Longs,
    byte_at,
    copy_bytes,
    inlined,
    int64,
    int_at,
    short_at,
    uint64,
    word_at,
)
from cometmq.kernels.headers.json_text import (
    is_plain,
    number_between,
    number_end,
    plain_end,
    skip_blanks,
    unescape,
)
from cometmq.kernels.headers.places import CODE, FIELD_COUNT, FLAG, NOT_A_NUMBER, OPAQUE, PLACES_SIZE
from cometmq.wire import frame

PREFIX_SIZE: Final = frame.PREFIX_SIZE
HEADER_LENGTH_MASK: Final = frame.HEADER_LENGTH_MASK
NO_FIELD: Final = -1

_FRAME_LENGTH_MAX: Final = frame.FRAME_LENGTH_MAX
_HEADER_LENGTH_MAX: Final = frame.HEADER_LENGTH_MAX
_SERIALIZE_TYPE_MAX: Final = int(max(frame.SerializeType))
_INT_MIN: Final = -(2**31)
_INT_MAX: Final = 2**31 - 1
_QUOTE: Final = ord('"')
_COLON: Final = ord(":")
_COMMA: Final = ord(",")
_OPEN: Final = ord("{")
_CLOSE: Final = ord("}")
_BINARY_FIXED_SIZE: Final = 21  # bytes before the fields, with an empty remark
_REMARK_LENGTH_AT: Final = 13
_LETTER_FIELD: Final = b'"?":"'
"""The usual beginning of a field whose name is one letter; ``?`` stands for it."""
_LETTER_SIZE: Final = len(_LETTER_FIELD)
_LETTER_MASK: Final = uint64(int.from_bytes(b"\xff\0\xff\xff\xff", "little"))
_LETTER_PATTERN: Final = uint64(int.from_bytes(_LETTER_FIELD, "little")) & _LETTER_MASK
_NAMES: Final = [
    np.frombuffer(name, np.uint8) for name in (b"extFields", b"code", b"flag", b"opaque", b"version")
]
_EXT_FIELDS, _CODE_NAME, _FLAG_NAME, _OPAQUE_NAME, _VERSION_NAME = _NAMES


@inlined
def frame_end(data: Bytes, position: int) -> Any:
    """Return where the frame at ``position`` ends, -1 if it is cut off or malformed."""
    if position + PREFIX_SIZE > len(data):
        return -1
    length = int64(int_at(data, position))
    if length < 4 or length > _FRAME_LENGTH_MAX or position + 4 + length > len(data):
        return -1
    word = int64(int_at(data, position + 4))
    header_length = word & HEADER_LENGTH_MASK
    if word < 0 or word >> 24 > _SERIALIZE_TYPE_MAX:
        return -1
    if header_length > length - 4 or header_length > _HEADER_LENGTH_MAX:
        return -1
    return position + 4 + length


def readers_of(names: tuple[bytes, ...], unescaped: int = NO_FIELD) -> tuple[Any, Any]:
    """Build parsers of JSON and of ROCKETMQ headers for the fields of these names; others are ignored.

    Both take ``data``, a header's ``position`` and ``end``, the int64[] ``places`` that the positions of its
    fields are written to, and the uint8[] ``texts``, which gets the text of the field that is unescaped; the
    positions of that field are those in ``texts``. They return False for an unusual header.

    Args:
        unescaped: the number of the field that is unescaped, NO_FIELD for none.
    """
    assert len(names) <= FIELD_COUNT
    are_letters = names == tuple(bytes((names[0][0] + number,)) for number in range(len(names)))
    field_of = _letter_finder(names[0][0], len(names)) if are_letters else finder(names)
    read_text, copy_text = _text_readers(unescaped)

    @inlined
    def read_field(
        data: Bytes, name: int, name_end: int, value: int, end: int, places: Longs, texts: Bytes
    ) -> Any:
        """Read the value of a field of JSON; return where it ends, or -1."""
        return read_text(data, field_of(data, name, name_end), value, end, places, texts)

    return json_reader(read_field, are_letters=are_letters), _binary_reader(field_of, copy_text)


def _letter_finder(first: int, count: int) -> Any:
    """Build a look-up of field numbers whose names are ``count`` letters in the alphabet's order."""

    @inlined
    def field_of(data: Bytes, name: int, name_end: int) -> Any:
        """Return the number of the field with this name, NO_FIELD if there is none."""
        field = int64(byte_at(data, name)) - first
        return field if name_end == name + 1 and 0 <= field < count else int64(NO_FIELD)

    return field_of


def finder(names: tuple[bytes, ...]) -> Any:
    """Build a look-up of field numbers by name, whose length and first letter are unique among ``names``."""
    longest = max(map(len, names))
    sizes = np.array([len(name) for name in names])
    texts = np.array([list(name.ljust(longest, b"\0")) for name in names], np.uint8)
    fields = np.full(64, NO_FIELD)
    for number, known in enumerate(names):
        fields[_slot(len(known), known[0])] = number
    assert np.count_nonzero(fields >= 0) == len(names)

    @inlined
    def field_of(data: Bytes, name: int, name_end: int) -> Any:
        """Return the number of the field with this name, NO_FIELD if there is none."""
        size = name_end - name
        if size < 1 or size > longest:
            return int64(NO_FIELD)
        field = fields[size * 3 + int64(byte_at(data, name)) & 63]
        if field < 0 or sizes[field] != size:
            return int64(NO_FIELD)
        for i in range(size):
            if byte_at(data, name + i) != texts[field, i]:
                return int64(NO_FIELD)
        return int64(field)

    return field_of


def _slot(size: int, first: int) -> int:
    """Return the slot of a name in the look-up table, by its size and its first byte."""
    return size * 3 + first & 63


def _text_readers(unescaped: int) -> tuple[Any, Any]:
    """Build what stores the places of a field's text: one for JSON, one for ROCKETMQ headers."""

    @inlined
    def read_plain(data: Bytes, field: int, begin: int, end: int, places: Longs, _: Bytes) -> Any:
        """Return where a text in JSON ends, at its quote; -1 if it is unusual."""
        text_end = plain_end(data, begin, end)
        return text_end if text_end >= 0 and put_place(places, field, begin, text_end) else int64(-1)

    @inlined
    def check_plain(data: Bytes, field: int, begin: int, end: int, places: Longs, _: Bytes) -> bool:
        """Check a text between two positions; return False if it is unusual."""
        return is_plain(data, begin, end) and put_place(places, field, begin, end)

    @inlined
    def read_text(data: Bytes, field: int, begin: int, end: int, places: Longs, texts: Bytes) -> Any:
        """Return the same as ``read_plain``; unescape one field."""
        if field != unescaped:
            return read_plain(data, field, begin, end, places, texts)
        text_end, unescaped_end = unescape(data, begin, end, texts, 0)
        return text_end if text_end >= 0 and put_place(places, field, 0, unescaped_end) else int64(-1)

    @inlined
    def copy_text(data: Bytes, field: int, begin: int, end: int, places: Longs, texts: Bytes) -> bool:
        """Return the same as ``check_plain``; copy one field, of any bytes."""
        if field != unescaped:
            return check_plain(data, field, begin, end, places, texts)
        return put_place(places, field, 0, copy_bytes(data, begin, end, texts, 0))

    return (read_plain, check_plain) if unescaped == NO_FIELD else (read_text, copy_text)


def json_reader(read_field: Any, *, are_letters: bool = False) -> Any:
    """Build a parser of JSON headers.

    Args:
        read_field: takes ``data``, where a field's name begins and ends, where its value begins, the end of
            the header, ``places`` and ``texts``; returns where the value ends, or -1 if it is unusual.
        are_letters: whether the names are letters, which then are looked for first.
    """
    read_fields = _fields_reader(read_field, are_letters=are_letters)

    @inlined
    def read_json(data: Bytes, position: int, end: int, places: Longs, texts: Bytes) -> bool:
        """Parse a JSON header into ``places``; return False if it is unusual."""
        if position >= end or byte_at(data, position) != _OPEN:
            return False
        position = skip_blanks(data, position + 1, end)
        has_fields = False
        while position < end and byte_at(data, position) == _QUOTE:
            name = position + 1
            name_end = plain_end(data, name, end)
            position = _value_at(data, name_end, end)
            if position < 0:
                return False
            if byte_at(data, position) == _OPEN:
                if has_fields or not is_name(data, name, name_end, _EXT_FIELDS):
                    return False
                has_fields = True
                position = read_fields(data, position + 1, end, places, texts)
                if position < 0:
                    return False
            elif byte_at(data, position) == _QUOTE:
                if _number_place(data, name, name_end) != 0:
                    return False  # a number or ``extFields``, written as a text
                position = plain_end(data, position + 1, end) + 1
                if position == 0:
                    return False
            else:
                place = _number_place(data, name, name_end)
                value_end = number_end(data, position, end)
                value = number_between(data, position, value_end)
                if place <= 0 or value < _INT_MIN or value > _INT_MAX:
                    return False
                if place < PLACES_SIZE:
                    if places[place] != NOT_A_NUMBER:
                        return False
                    places[place] = value
                position = value_end
            position = _next_member(data, position, end)
            if position == end:
                return True
        return False

    return read_json


@inlined
def _value_at(data: Bytes, name_end: int, end: int) -> Any:
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
def is_name(data: Bytes, position: int, end: int, name: Bytes) -> bool:
    """Return whether the bytes from ``position`` to ``end`` are a name."""
    if end - position != len(name):
        return False
    for i in range(len(name)):
        if byte_at(data, position + i) != name[i]:
            return False
    return True


@inlined
def _number_place(data: Bytes, name: int, name_end: int) -> Any:
    """Return the position in ``places`` of a header's number; -1 for ``extFields``, 0 for any other name."""
    if is_name(data, name, name_end, _CODE_NAME):
        return CODE
    if is_name(data, name, name_end, _FLAG_NAME):
        return FLAG
    if is_name(data, name, name_end, _OPAQUE_NAME):
        return OPAQUE
    if is_name(data, name, name_end, _VERSION_NAME):
        return PLACES_SIZE  # outside the array: it is ignored
    return -1 if is_name(data, name, name_end, _EXT_FIELDS) else 0


def _fields_reader(read_field: Any, *, are_letters: bool) -> Any:
    """Build the parser of ``extFields`` in a JSON header."""

    @inlined
    def read_fields(data: Bytes, position: int, end: int, places: Longs, texts: Bytes) -> Any:
        """Parse ``extFields`` after its brace; return where it ends, or -1."""
        while True:
            if are_letters and _is_letter_field(data, position, end):
                name, name_end, value = position + 1, position + 2, position + _LETTER_SIZE
            else:
                position = skip_blanks(data, position, end)
                if position >= end or byte_at(data, position) != _QUOTE:
                    return int64(-1)
                name = position + 1
                name_end = plain_end(data, name, end)
                position = _value_at(data, name_end, end)
                if position < 0 or byte_at(data, position) != _QUOTE:
                    return int64(-1)
                value = position + 1
            value_end = read_field(data, name, name_end, value, end, places, texts)
            if value_end < 0:
                return int64(-1)
            position = skip_blanks(data, value_end + 1, end)
            if position >= end:
                return int64(-1)
            byte = byte_at(data, position)
            if byte == _CLOSE:
                return position + 1
            if byte != _COMMA:
                return int64(-1)
            position += 1

    return read_fields


@inlined
def _is_letter_field(data: Bytes, position: int, end: int) -> bool:
    """Check whether a field with a name of one character begins at ``position``, in its usual form."""
    return position + 8 <= end and word_at(data, position) & _LETTER_MASK == _LETTER_PATTERN


@inlined
def put_place(places: Longs, field: int, begin: int, end: int) -> bool:
    """Store a field's positions; return False if the field occurred before. Other fields are ignored."""
    if field == NO_FIELD:
        return True
    if places[2 * field] != NOT_A_NUMBER:
        return False
    places[2 * field] = begin
    places[2 * field + 1] = end
    return True


def _binary_reader(field_of: Any, copy_text: Any) -> Any:
    """Build the parser of ROCKETMQ headers."""

    @inlined
    def read_binary(data: Bytes, position: int, end: int, places: Longs, texts: Bytes) -> bool:
        """Parse a ROCKETMQ header into ``places``; return False if it is unusual."""
        at = position + _BINARY_FIXED_SIZE
        if at > end or int_at(data, position + _REMARK_LENGTH_AT) != 0:
            return False
        places[CODE] = short_at(data, position)
        places[OPAQUE] = int_at(data, position + 5)
        places[FLAG] = int_at(data, position + 9)
        if int_at(data, at - 4) != end - at:
            return False
        while at < end:
            if at + 2 > end:
                return False
            name = at + 2
            name_end = name + int64(short_at(data, at))
            if name_end < name or name_end + 4 > end:
                return False
            value = name_end + 4
            value_end = value + int64(int_at(data, name_end))
            if value_end < value or value_end > end or not is_plain(data, name, name_end):
                return False
            if not copy_text(data, field_of(data, name, name_end), value, value_end, places, texts):
                return False
            at = value_end
        return True

    return read_binary


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
