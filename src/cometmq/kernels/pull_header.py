"""Reading a PULL_MESSAGE header inside kernels: both forms, into the places of its fields.

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

NAMES: Final = (
    b"consumerGroup",
    b"topic",
    b"queueId",
    b"queueOffset",
    b"maxMsgNums",
    b"sysFlag",
    b"commitOffset",
    b"suspendTimeoutMillis",
    b"subscription",
    b"subVersion",
    b"expressionType",
    b"maxMsgBytes",
)
(
    GROUP,
    TOPIC,
    QUEUE_ID,
    QUEUE_OFFSET,
    COUNT,
    SYS_FLAG,
    COMMIT_OFFSET,
    SUSPEND_MS,
    SUBSCRIPTION,
    VERSION,
    EXPRESSION_TYPE,
    BYTES,
) = range(len(NAMES))
REQUIRED: Final = SUBSCRIPTION
"""So many fields, the first ones, must be there."""
assert len(NAMES) <= FIELD_COUNT

_QUOTE: Final = ord('"')
_COMMA: Final = ord(",")
_CLOSE: Final = ord("}")
_LONGEST: Final = 20
_SIZES: Final = np.array([len(name) for name in NAMES])
_TEXTS: Final = np.array([list(name.ljust(_LONGEST, b"\0")) for name in NAMES], np.uint8)
assert max(_SIZES) == _LONGEST


def _slot(size: int, first: int) -> int:
    """Where a name is looked up by: its length and its first letter tell it from all others."""
    return size * 3 + first & 63


_FIELDS: Final = np.full(64, -1)
for _field, _name in enumerate(NAMES):
    _FIELDS[_slot(len(_name), _name[0])] = _field
assert np.count_nonzero(_FIELDS >= 0) == len(NAMES)


@inlined
def _field_of(data: Bytes, name: int, name_end: int) -> Any:
    """Give which field a name is of, -1 if of none that matters."""
    size = name_end - name
    if size < 1 or size > _LONGEST:
        return int64(-1)
    field = _FIELDS[size * 3 + int64(byte_at(data, name)) & 63]
    if field < 0 or _SIZES[field] != size:
        return int64(-1)
    for i in range(size):
        if byte_at(data, name + i) != _TEXTS[field, i]:
            return int64(-1)
    return int64(field)


@inlined
def _read_fields(data: Bytes, position: int, end: int, places: Longs, _: Bytes, texts_end: int) -> Any:
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
        if value_end < 0 or not put_place(places, _field_of(data, name, name_end), value, value_end):
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
def read_binary(data: Bytes, position: int, end: int, places: Longs) -> bool:
    """Read a ROCKETMQ header into ``places``; False if it is not as most are."""
    fields = position + BINARY_FIXED_SIZE
    if fields > end or int_at(data, position + REMARK_LENGTH_AT) != 0:
        return False
    places[CODE] = short_at(data, position)
    places[OPAQUE] = int_at(data, position + 5)
    places[FLAG] = int_at(data, position + 9)
    if int_at(data, fields - 4) != end - fields:
        return False
    while fields < end:
        if fields + 2 > end:
            return False
        name = fields + 2
        name_end = name + int64(short_at(data, fields))
        if name_end < name or name_end + 4 > end:
            return False
        value = name_end + 4
        value_end = value + int64(int_at(data, name_end))
        if value_end < value or value_end > end or not is_plain(data, name, value_end):
            return False
        if not put_place(places, _field_of(data, name, name_end), value, value_end):
            return False
        fields = value_end
    return True
