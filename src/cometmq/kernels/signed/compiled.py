"""The operation on signed requests compiled by Numba: ``plain`` says in Python what it does."""

from typing import Any, Final

import numpy as np

from cometmq.kernels.compiling.jit import (
    Bytes,
    Longs,
    byte_at,
    bytes_object,
    bytes_out,
    copy_bytes,
    inlined,
    int64,
    int_at,
    kernel,
    long,
    longs_out,
    put_int,
    rows_out,
)
from cometmq.kernels.headers.compiled import (
    HEADER_LENGTH_MASK,
    NO_FIELD,
    PREFIX_SIZE,
    finder,
    frame_end,
    is_name,
    json_reader,
    put_place,
)
from cometmq.kernels.headers.json_text import text_end, unescape
from cometmq.kernels.headers.places import CODE, FLAG, NOT_A_NUMBER, PLACES_SIZE
from cometmq.kernels.signed.rows import (
    BODY_AT,
    CODES,
    FIELD_SIZE,
    FIELDS_MAX,
    FRAME_END,
    KEY_AT,
    KEY_END,
    KEY_FIELD,
    KEY_FIELDS,
    NAME_AT,
    NAME_END,
    NO_TEXT,
    SIGNATURE_AT,
    SIGNED_AT,
    SPARE,
    VALUE_AT,
    VALUE_END,
    SignedRows,
)
from cometmq.wire.acl import ADDED_AFTER_SIGNING, SIGNATURE
from cometmq.wire.frame import RESPONSE_FLAG

__all__ = ["read"]

_KEY_COUNT: Final = len(KEY_FIELDS)
_SIGNATURE: Final = _KEY_COUNT
_CODES: Final = np.array(CODES)
_ADDED: Final = np.frombuffer(ADDED_AFTER_SIGNING.encode(), np.uint8)
_COUNT: Final = PLACES_SIZE
_FIELDS: Final = PLACES_SIZE + 1

_number_of = finder(tuple(name.encode() for name in (*KEY_FIELDS, SIGNATURE)))


@inlined
def _order(data: Bytes, begin: int, end: int, other: int, other_end: int) -> Any:
    """Compare two names: below 0, 0 or above 0 as the first comes before, is, or comes after the other."""
    for i in range(min(end - begin, other_end - other)):
        difference = int64(byte_at(data, begin + i)) - int64(byte_at(data, other + i))
        if difference:
            return difference
    return int64((end - begin) - (other_end - other))


@inlined
def _put_field(data: Bytes, name: int, name_end: int, value: int, value_end: int, places: Longs) -> bool:
    """Insert a field among those before it, in the order of names, or the signature beside them.

    False is returned if there is one with this name, or there are too many.
    """
    number = _number_of(data, name, name_end)
    if number == _SIGNATURE:
        return put_place(places, number, value, value_end)
    count = places[_COUNT]
    if count == FIELDS_MAX:
        return False
    at = _FIELDS + count * FIELD_SIZE
    while at > _FIELDS:
        before = at - FIELD_SIZE
        order = _order(data, name, name_end, places[before + NAME_AT], places[before + NAME_END])
        if order == 0:
            return False
        if order > 0:
            break
        for column in range(FIELD_SIZE):
            places[at + column] = places[before + column]
        at = before
    places[at + NAME_AT], places[at + NAME_END] = name, name_end
    places[at + VALUE_AT], places[at + VALUE_END] = value, value_end
    places[at + KEY_FIELD] = number
    places[_COUNT] = count + 1
    return True


@inlined
def _read_field(data: Bytes, name: int, name_end: int, value: int, end: int, places: Longs, _: Bytes) -> Any:
    """Find where a field's value ends, and keep its place: see ``headers.compiled.json_reader``."""
    if is_name(data, name, name_end, _ADDED):
        return int64(-1)
    value_end = text_end(data, value, end)
    is_put = value_end >= 0 and _put_field(data, name, name_end, value, value_end, places)
    return value_end if is_put else int64(-1)


_read_json = json_reader(_read_field)


@inlined
def _is_taken(places: Longs) -> bool:
    """Return whether a header is that of a request which is read; a missing flag becomes 0."""
    if places[FLAG] == NOT_A_NUMBER:
        places[FLAG] = 0
    if places[FLAG] & RESPONSE_FLAG or places[_COUNT] == 0:
        return False
    for i in range(len(_CODES)):
        if places[CODE] == _CODES[i]:
            return True
    return False


@inlined
def _put_values(data: Bytes, places: Longs, texts: Bytes, at: int) -> Any:
    """Write what is signed to ``texts[at:]``: the values of all fields but the signature, joined.

    Where the key's values are is written to their places. Returns where it ends, -1 if one is no text.
    """
    for i in range(places[_COUNT]):
        field = _FIELDS + i * FIELD_SIZE
        value_end, number = places[field + VALUE_END], places[field + KEY_FIELD]
        read_end, text = unescape(data, places[field + VALUE_AT], value_end + 1, texts, at)
        if read_end != value_end:
            return int64(-1)
        if number != NO_FIELD:
            places[2 * number], places[2 * number + 1] = at, text
        at = text
    return at


@inlined
def _put_signature(data: Bytes, places: Longs, texts: Bytes, at: int) -> Any:
    """Write the signature, if there is one, to ``texts[at:]``; return where it ends, -1 if it is no text."""
    value, value_end = places[2 * _SIGNATURE], places[2 * _SIGNATURE + 1]
    if value == NOT_A_NUMBER:
        return at
    read_end, text = unescape(data, value, value_end + 1, texts, at)
    return text if read_end == value_end else int64(-1)


@inlined
def _put_key(places: Longs, texts: Bytes, at: int) -> Any:
    """Write a request's key to ``texts[at:]``; return where it ends."""
    put_int(texts, at, places[CODE])
    put_int(texts, at + 4, places[FLAG])
    at += 8
    for number in range(_KEY_COUNT):
        begin, end = places[2 * number], places[2 * number + 1]
        if begin == NOT_A_NUMBER:
            put_int(texts, at, NO_TEXT)
            at += 4
        else:
            put_int(texts, at, end - begin)
            at = copy_bytes(texts, begin, end, texts, at + 4)
    return at


@kernel(long(bytes_object, long, rows_out, bytes_out, longs_out))
def read_signed(data: Bytes, start: int, rows: Any, texts: Bytes, places: Longs) -> Any:
    """Read the signed requests of a socket read: see ``rows.SignedOps.read``."""
    position, texts_end = int64(start), int64(0)
    for count in range(len(rows)):
        end = frame_end(data, position)
        if end < 0:
            return int64(count)
        word = int64(int_at(data, position + 4))
        header = position + PREFIX_SIZE
        body = header + (word & HEADER_LENGTH_MASK)
        if word >> 24 or len(texts) - texts_end < 2 * (body - header) + SPARE:
            return int64(count)
        places[:PLACES_SIZE] = NOT_A_NUMBER
        places[_COUNT] = 0
        if not _read_json(data, header, body, places, texts) or not _is_taken(places):
            return int64(count)
        signature = _put_values(data, places, texts, texts_end)
        key = int64(-1) if signature < 0 else _put_signature(data, places, texts, signature)
        if key < 0:
            return int64(count)
        row = rows[count]
        row[FRAME_END], row[BODY_AT] = end, body
        row[SIGNED_AT], row[SIGNATURE_AT], row[KEY_AT] = texts_end, signature, key
        texts_end = _put_key(places, texts, key)
        row[KEY_END] = texts_end
        position = end
    return int64(len(rows))


def read(data: bytes, begin: int, into: SignedRows, /) -> int:
    """Read signed requests: see ``rows.SignedOps.read``."""
    count: int = _read(data, begin, into.rows, into.texts, into.places)
    return count


_read: Any = read_signed  # to Numba the bytes that sockets give are no array
