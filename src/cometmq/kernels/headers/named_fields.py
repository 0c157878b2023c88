"""Parsing JSON and ROCKETMQ headers with given field names inside kernels.

The result has the layout of ``send_header``. As there, kernels do not read a header with anything unusual:
a field twice, an escape, a character outside ASCII, or a number in place of a text.
"""

from typing import Any, Final

import numpy as np

from cometmq.kernels.compiling.jit import Bytes, Longs, byte_at, inlined, int64, int_at, short_at
from cometmq.kernels.headers.json_text import is_plain, plain_end, skip_blanks
from cometmq.kernels.sends.header import (
    BINARY_FIXED_SIZE,
    CODE,
    FLAG,
    OPAQUE,
    REMARK_LENGTH_AT,
    json_reader,
    put_place,
    value_at,
)
from cometmq.kernels.sends.rows import FIELD_COUNT

_QUOTE: Final = ord('"')
_COMMA: Final = ord(",")
_CLOSE: Final = ord("}")


def readers_of(names: tuple[bytes, ...]) -> tuple[Any, Any]:
    """Build parsers of JSON and of ROCKETMQ headers for the fields of these names; others are ignored.

    Both take ``data``, a header's ``position`` and ``end``, and the int64[] ``places`` that the positions of
    its fields are written to. The JSON parser also takes a buffer and a position in it, which it leaves
    unused. For an unusual header the JSON parser returns -1, and the ROCKETMQ parser False.
    """
    assert len(names) <= FIELD_COUNT
    field_of = _finder(names)
    return json_reader(_fields_reader(field_of)), _binary_reader(field_of)


def _finder(names: tuple[bytes, ...]) -> Any:
    """Build a look-up of field numbers by name, whose length and first letter are unique among ``names``."""
    longest = max(map(len, names))
    sizes = np.array([len(name) for name in names])
    texts = np.array([list(name.ljust(longest, b"\0")) for name in names], np.uint8)
    fields = np.full(64, -1)
    for number, known in enumerate(names):
        fields[_slot(len(known), known[0])] = number
    assert np.count_nonzero(fields >= 0) == len(names)

    @inlined
    def field_of(data: Bytes, name: int, name_end: int) -> Any:
        """Return the number of the field with this name, -1 if there is none."""
        size = name_end - name
        if size < 1 or size > longest:
            return int64(-1)
        field = fields[size * 3 + int64(byte_at(data, name)) & 63]
        if field < 0 or sizes[field] != size:
            return int64(-1)
        for i in range(size):
            if byte_at(data, name + i) != texts[field, i]:
                return int64(-1)
        return int64(field)

    return field_of


def _slot(size: int, first: int) -> int:
    """Return the slot of a name in the look-up table, by its size and its first byte."""
    return size * 3 + first & 63


def _fields_reader(field_of: Any) -> Any:
    """Build the parser of ``extFields`` in a JSON header."""

    @inlined
    def read_fields(data: Bytes, position: int, end: int, places: Longs, _: Bytes, texts_end: int) -> Any:
        """Parse ``extFields`` after its brace; return where it ends, or -1, and ``texts_end`` unchanged."""
        while True:
            position = skip_blanks(data, position, end)
            if position >= end or byte_at(data, position) != _QUOTE:
                return -1, texts_end
            name = position + 1
            name_end = plain_end(data, name, end)
            position = value_at(data, name_end, end)
            if position < 0 or byte_at(data, position) != _QUOTE:
                return -1, texts_end
            value = position + 1
            value_end = plain_end(data, value, end)
            if value_end < 0 or not put_place(places, field_of(data, name, name_end), value, value_end):
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

    return read_fields


def _binary_reader(field_of: Any) -> Any:
    """Build the parser of ROCKETMQ headers."""

    @inlined
    def read_binary(data: Bytes, position: int, end: int, places: Longs) -> bool:
        """Parse a ROCKETMQ header into ``places``; return False if it is unusual."""
        at = position + BINARY_FIXED_SIZE
        if at > end or int_at(data, position + REMARK_LENGTH_AT) != 0:
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
            if value_end < value or value_end > end or not is_plain(data, name, value_end):
                return False
            if not put_place(places, field_of(data, name, name_end), value, value_end):
                return False
            at = value_end
        return True

    return read_binary
