"""Reading headers inside kernels whose fields have names: both forms, into the places of the fields.

The places are those of ``send_header``, and as there anything unusual makes the whole header one that kernels
do not read: a field twice, an escape or a character outside ASCII, a number where a text belongs.
"""

from typing import Any, Final

import numpy as np

from cometmq.kernels.jit import Bytes, Longs, byte_at, inlined, int64, int_at, short_at
from cometmq.kernels.json_text import is_plain, plain_end, skip_blanks
from cometmq.kernels.send_header import (
    BINARY_FIXED_SIZE,
    CODE,
    FLAG,
    OPAQUE,
    REMARK_LENGTH_AT,
    json_reader,
    put_place,
    value_at,
)
from cometmq.kernels.sends import FIELD_COUNT

_QUOTE: Final = ord('"')
_COMMA: Final = ord(",")
_CLOSE: Final = ord("}")


def readers_of(names: tuple[bytes, ...]) -> tuple[Any, Any]:
    """Make readers of JSON and of ROCKETMQ headers for the fields of these names; all others mean nothing.

    Both get ``data``, a header's ``position`` and ``end``, and the ``places`` that its fields are noted in.
    The first also gets a buffer and a position in it, which it does nothing with, and gives -1 for a header
    that is not as most are; the second gives False.
    """
    assert len(names) <= FIELD_COUNT
    field_of = _finder(names)
    return json_reader(_fields_reader(field_of)), _binary_reader(field_of)


def _finder(names: tuple[bytes, ...]) -> Any:
    """Make what tells which field a name is of; its length and its first letter tell it from all others."""
    longest = max(map(len, names))
    sizes = np.array([len(name) for name in names])
    texts = np.array([list(name.ljust(longest, b"\0")) for name in names], np.uint8)
    fields = np.full(64, -1)
    for number, known in enumerate(names):
        fields[_slot(len(known), known[0])] = number
    assert np.count_nonzero(fields >= 0) == len(names)

    @inlined
    def field_of(data: Bytes, name: int, name_end: int) -> Any:
        """Give which field a name is of, -1 if of none that matters."""
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
    """Where a name is looked up by."""
    return size * 3 + first & 63


def _fields_reader(field_of: Any) -> Any:
    """Make what reads the fields of a JSON header."""

    @inlined
    def read_fields(data: Bytes, position: int, end: int, places: Longs, _: Bytes, texts_end: int) -> Any:
        """Read ``extFields`` behind its brace: gives where it ends, or -1; there are no texts to unescape."""
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
    """Make what reads ROCKETMQ headers."""

    @inlined
    def read_binary(data: Bytes, position: int, end: int, places: Longs) -> bool:
        """Read a ROCKETMQ header into ``places``; False if it is not as most are."""
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
