"""Reading frames, compiled by Numba: ``plain`` says in Python what it does."""

from itertools import product
from typing import Any, Final

import numpy as np

from cometmq.kernels.arrays import Bytes, Longs
from cometmq.kernels.compiling.buffers import (
    array_of,
    byte_at,
    bytes_of,
    copy_bytes,
    int_at,
    longs_of,
    put_int,
    short_at,
    word_at,
)
from cometmq.kernels.compiling.jit import inlined, int64, kernel, uint64
from cometmq.kernels.compiling.signatures import bytes_object, long, longs_in, record_of, types
from cometmq.kernels.frames import rows as r
from cometmq.kernels.frames.fields import ABSENT, FIELD_COUNT, KINDS, NAMES, FrameKind, columns
from cometmq.kernels.frames.rows import Frames
from cometmq.kernels.text.json_text import (
    NOT_A_NUMBER,
    number_between,
    number_end,
    plain_end,
    skip_blanks,
    text_end,
    unescape,
)
from cometmq.kernels.text.utf8 import is_plain, is_utf8
from cometmq.wire import frame
from cometmq.wire.acl import SIGNATURE

__all__ = ["int_field", "long_field", "places_of", "read", "rows_of", "runs_of"]

PREFIX_SIZE: Final = frame.PREFIX_SIZE
HEADER_LENGTH_MASK: Final = frame.HEADER_LENGTH_MASK

_FRAME_LENGTH_MAX: Final = frame.FRAME_LENGTH_MAX
_HEADER_LENGTH_MAX: Final = frame.HEADER_LENGTH_MAX
_SERIALIZE_TYPE_MAX: Final = int(max(frame.SerializeType))
_ONEWAY_FLAG: Final = frame.ONEWAY_FLAG
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

_CODES: Final = np.array(list(KINDS))
_KINDS: Final = np.array([int(kind) for kind, _ in KINDS.values()])
_COMMAND: Final = int(FrameKind.COMMAND)
_SEND: Final = int(FrameKind.SEND)
_PROPERTIES, _SIGNATURE, _UNSIGNED = columns("i", SIGNATURE, r.UNSIGNED)
"""The properties of sends, which may have escapes and characters outside ASCII, and fields of signatures."""
_KEY_COLUMNS: Final = np.array(columns(*r.KEY_FIELDS))

_MEMBERS: Final = [
    np.frombuffer(name, np.uint8) for name in (b"extFields", b"code", b"flag", b"opaque", b"version")
]
_EXT_FIELDS, _CODE_NAME, _FLAG_NAME, _OPAQUE_NAME, _VERSION_NAME = _MEMBERS
_IS_FIELDS, _IS_CODE, _IS_FLAG, _IS_OPAQUE, _IS_VERSION, _IS_OTHER = range(6)

# What is found out about a header: the numbers of the array ABOUT.
(
    _CODE,  # NOT_A_NUMBER if it is missing, as are the next two
    _FLAG,
    _OPAQUE,
    _OTHERS,  # how many fields have no column
    _HAS_PROPERTIES,  # whether there are any, which may have escapes and characters outside ASCII
) = range(r.ABOUT_SIZE)

_NO_FIELD: Final = -1
_LETTERS: Final = np.full(256, _NO_FIELD)
"""The columns of the fields whose names are one letter."""
for _column, _name in enumerate(NAMES):
    if len(_name) == 1:
        _LETTERS[ord(_name)] = _column
_LONGEST: Final = max(map(len, NAMES))
_SIZES: Final = np.array(list(map(len, NAMES)))
_WORD: Final = 8
_TEXTS: Final = np.array(
    [np.frombuffer(name.encode().ljust(-(-_LONGEST // _WORD) * _WORD, b"\0"), "<u8") for name in NAMES]
)
"""The names as words, filled up with zeros; and the last word of each, or all of it if it is shorter."""
_LAST_WORDS: Final = np.array([int.from_bytes(name.encode()[-_WORD:], "little") for name in NAMES], np.uint64)
_SLOT_COUNT: Final = 256


def _slots() -> tuple[int, int, Longs]:
    """Return a hash of names without collisions: two factors, and the column in each slot."""
    names = [(column, name.encode()) for column, name in enumerate(NAMES) if len(name) > 1]
    for first, last in product(range(1, 64), repeat=2):
        slots = np.full(_SLOT_COUNT, _NO_FIELD)
        for column, name in names:
            slots[len(name) + name[0] * first + name[-1] * last & _SLOT_COUNT - 1] = column
        if np.count_nonzero(slots >= 0) == len(names):
            return first, last, slots
    raise AssertionError("no factors found: give it more slots")


_FIRST, _LAST, _SLOTS = _slots()


@inlined
def _column_of(data: Bytes, name: int, name_end: int) -> Any:
    """Return the column of the field with this name, NO_FIELD if there is none."""
    size = name_end - name
    if size == 1:
        return int64(_LETTERS[byte_at(data, name)])
    if size < 1 or size > _LONGEST:
        return int64(_NO_FIELD)
    first, last = int64(byte_at(data, name)), int64(byte_at(data, name_end - 1))
    column = int64(_SLOTS[size + first * _FIRST + last * _LAST & _SLOT_COUNT - 1])
    if column < 0 or _SIZES[column] != size:
        return int64(_NO_FIELD)
    for i in range((size - 1) // _WORD):
        if word_at(data, name + i * _WORD) != _TEXTS[column, i]:
            return int64(_NO_FIELD)
    last = word_at(data, name_end - _WORD)  # a header has a prefix before it
    if size < _WORD:
        last >>= uint64(8 * (_WORD - size))
    return column if last == _LAST_WORDS[column] else int64(_NO_FIELD)


@inlined
def long_field(data: Bytes, places: Any, column: int, default: int) -> Any:
    """Read a field that is a Java ``long`` of at most 18 digits; NOT_A_NUMBER if it is not one."""
    if places[2 * column] == ABSENT:
        return int64(default)
    return number_between(data, int64(places[2 * column]), int64(places[2 * column + 1]))


@inlined
def int_field(data: Bytes, places: Any, column: int, default: int) -> Any:
    """Read a field that is a Java ``int``; NOT_A_NUMBER if it is not one."""
    value = long_field(data, places, column, default)
    return value if _INT_MIN <= value <= _INT_MAX else int64(NOT_A_NUMBER)


@inlined
def _frame_end(data: Bytes, position: int, read_end: int) -> Any:
    """Return where the frame at ``position`` ends, -1 if it is cut off or malformed."""
    if position + PREFIX_SIZE > read_end:
        return -1
    length = int64(int_at(data, position))
    if length < 4 or length > _FRAME_LENGTH_MAX or position + 4 + length > read_end:
        return -1
    word = int64(int_at(data, position + 4))
    header_length = word & HEADER_LENGTH_MASK
    if word < 0 or word >> 24 > _SERIALIZE_TYPE_MAX:
        return -1
    if header_length > length - 4 or header_length > _HEADER_LENGTH_MAX:
        return -1
    return position + 4 + length


@inlined
def _kind_of(code: int) -> Any:
    for i in range(len(_CODES)):
        if _CODES[i] == code:
            return int64(_KINDS[i])
    return int64(_COMMAND)


@inlined
def _put_place(places: Any, column: int, begin: int, end: int, about: Any) -> bool:
    """Store where a field's value lies; return False if the field occurred before."""
    if column == _NO_FIELD:
        about[_OTHERS] += 1
        return True
    if places[2 * column] != ABSENT:
        return False
    places[2 * column], places[2 * column + 1] = begin, end
    return True


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
def _member_of(data: Bytes, name: int, name_end: int) -> Any:
    """Return which member of a header has this name."""
    if is_name(data, name, name_end, _EXT_FIELDS):
        return _IS_FIELDS
    if is_name(data, name, name_end, _CODE_NAME):
        return _IS_CODE
    if is_name(data, name, name_end, _FLAG_NAME):
        return _IS_FLAG
    if is_name(data, name, name_end, _OPAQUE_NAME):
        return _IS_OPAQUE
    return _IS_VERSION if is_name(data, name, name_end, _VERSION_NAME) else _IS_OTHER


@inlined
def _is_letter_field(data: Bytes, position: int, end: int) -> bool:
    """Check whether a field with a name of one character begins at ``position``, in its usual form."""
    return position + 8 <= end and word_at(data, position) & _LETTER_MASK == _LETTER_PATTERN


@inlined
def _read_fields(data: Bytes, position: int, end: int, places: Any, about: Longs) -> Any:
    """Parse ``extFields`` after its brace; return where it ends, or -1."""
    while True:
        column = int64(_NO_FIELD)
        if _is_letter_field(data, position, end):
            value, column = position + _LETTER_SIZE, int64(_LETTERS[byte_at(data, position + 1)])
        if column == _NO_FIELD:  # the letter may be a quote, or escape one
            position = skip_blanks(data, position, end)
            if position >= end or byte_at(data, position) != _QUOTE:
                return int64(-1)
            name = position + 1
            name_end = plain_end(data, name, end)
            position = _value_at(data, name_end, end)
            if position < 0 or byte_at(data, position) != _QUOTE:
                return int64(-1)
            value, column = position + 1, _column_of(data, name, name_end)
        if column == _PROPERTIES:
            value_end = text_end(data, value, end)
            about[_HAS_PROPERTIES] = 1
        else:
            value_end = plain_end(data, value, end)
        if value_end < 0 or not _put_place(places, column, value, value_end, about):
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


@inlined
def _read_json(data: Bytes, position: int, end: int, places: Any, about: Longs) -> bool:
    """Parse a JSON header; return False if it is unusual, or that of another request."""
    if position >= end or byte_at(data, position) != _OPEN:
        return False
    position = skip_blanks(data, position + 1, end)
    has_fields = False
    while 0 <= position < end and byte_at(data, position) == _QUOTE:
        name = position + 1
        name_end = plain_end(data, name, end)
        position = _value_at(data, name_end, end)
        if position < 0:
            return False
        member = _member_of(data, name, name_end)
        if byte_at(data, position) == _OPEN:
            if has_fields or member != _IS_FIELDS:
                return False
            has_fields = True
            position = _read_fields(data, position + 1, end, places, about)
            if position < 0:
                return False
        elif byte_at(data, position) == _QUOTE:
            if member != _IS_OTHER:
                return False  # a number or ``extFields``, written as a text
            position = plain_end(data, position + 1, end) + 1
            if position == 0:
                return False
        else:
            value_end = number_end(data, position, end)
            value = number_between(data, position, value_end)
            if member == _IS_FIELDS or member == _IS_OTHER or value < _INT_MIN or value > _INT_MAX:
                return False
            if member != _IS_VERSION:
                place = member - _IS_CODE
                if about[place] != NOT_A_NUMBER:
                    return False
                about[place] = value
                if member == _IS_CODE and _kind_of(value) == _COMMAND:
                    return False
            position = value_end
        position = _next_member(data, position, end)
        if position == end:
            return True
    return False


@inlined
def _read_binary(data: Bytes, position: int, end: int, places: Any, about: Longs) -> bool:
    """Parse a ROCKETMQ header; return False if it is unusual, or that of another request."""
    at = position + _BINARY_FIXED_SIZE
    if at > end or int_at(data, position + _REMARK_LENGTH_AT) != 0:
        return False
    about[_CODE] = short_at(data, position)
    about[_OPAQUE] = int_at(data, position + 5)
    about[_FLAG] = int_at(data, position + 9)
    if int_at(data, at - 4) != end - at or _kind_of(about[_CODE]) == _COMMAND:
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
        column = _column_of(data, name, name_end)
        if column == _PROPERTIES:
            about[_HAS_PROPERTIES] = 1
        elif not is_plain(data, value, value_end):
            return False
        if not _put_place(places, column, value, value_end, about):
            return False
        at = value_end
    return True


@inlined
def _read_frame(data: Bytes, position: int, end: int, row: Any, places: Any, about: Longs) -> None:
    """Read the frame from ``position`` to ``end`` into a row."""
    word = int64(int_at(data, position + 4))
    header = position + PREFIX_SIZE
    body = header + (word & HEADER_LENGTH_MASK)
    row.begin, row.end, row.body_at, row.is_binary = position, end, body, word >> 24
    row.kind = _COMMAND
    places[:] = ABSENT
    about[_CODE] = about[_FLAG] = about[_OPAQUE] = NOT_A_NUMBER
    about[_OTHERS] = about[_HAS_PROPERTIES] = 0
    if word >> 24:
        is_read = _read_binary(data, header, body, places, about)
    else:
        is_read = _read_json(data, header, body, places, about)
    kind = _kind_of(about[_CODE])
    if not is_read or kind == _COMMAND:
        return
    row.code = about[_CODE]
    row.flag = int64(0) if about[_FLAG] == NOT_A_NUMBER else about[_FLAG]
    row.opaque = int64(0) if about[_OPAQUE] == NOT_A_NUMBER else about[_OPAQUE]
    if kind == _SEND:
        if body < end and not row.flag & ~_ONEWAY_FLAG:
            row.kind = kind
    elif body == end and not row.flag and not about[_HAS_PROPERTIES]:
        row.kind = kind


@inlined
def _put_signed(data: Bytes, row: Any, places: Any, texts: Bytes, at: int) -> Any:
    """Write the values of all fields but the signature to ``texts[at:]``; return where they end, or -1."""
    begin = at
    for column in range(FIELD_COUNT):
        value, value_end = int64(places[2 * column]), int64(places[2 * column + 1])
        if value == ABSENT or column == _SIGNATURE:
            continue
        if column == _PROPERTIES and not row.is_binary:
            read_end, at = unescape(data, value, value_end + 1, texts, at)
            if read_end != value_end:
                return int64(-1)
        elif column == _PROPERTIES and not is_utf8(data, value, value_end):
            return int64(-1)
        else:
            at = copy_bytes(data, value, value_end, texts, at)
        begin = -1
    return int64(at) if begin < 0 else int64(-1)


@inlined
def _put_key(data: Bytes, row: Any, places: Any, texts: Bytes, at: int) -> Any:
    """Write a request's key to ``texts[at:]``; return where it ends."""
    put_int(texts, at, row.code)
    put_int(texts, at + 4, row.flag)
    at += 8
    for i in range(len(_KEY_COLUMNS)):
        column = _KEY_COLUMNS[i]
        begin, end = int64(places[2 * column]), int64(places[2 * column + 1])
        if begin == ABSENT:
            put_int(texts, at, r.NO_TEXT)
            at += 4
        else:
            put_int(texts, at, end - begin)
            at = copy_bytes(data, begin, end, texts, at + 4)
    return at


@inlined
def _put_texts(data: Bytes, row: Any, places: Any, signed: Any, texts: Bytes, at: int) -> Any:
    """Write the texts of a signed request to ``texts[at:]``; return where they end, -1 if it is unusual."""
    if places[2 * _UNSIGNED] != ABSENT or row.code == r.NEEDS_RECORD_CODE:
        return int64(-1)
    signature_at = _put_signed(data, row, places, texts, at)
    if signature_at < 0:
        return int64(-1)
    signed.body_at, signed.end = row.body_at, row.end
    signed.signed_at, signed.signature_at, signed.key_at = at, signature_at, signature_at
    begin, end = int64(places[2 * _SIGNATURE]), int64(places[2 * _SIGNATURE + 1])
    if begin != ABSENT:
        signed.key_at = copy_bytes(data, begin, end, texts, signature_at)
    signed.key_end = _put_key(data, row, places, texts, signed.key_at)
    return int64(signed.key_end)


@inlined
def _link(rows: Any, first: int, last: int) -> None:
    """Set where the rows of the same kind end, from each row of a read on."""
    end = last
    for i in range(last - first):
        number = last - 1 - i
        if i and rows[number].kind != rows[number + 1].kind:
            end = number + 1
        rows[number].next = end


runs_of = array_of(record_of(r.RUN))
_signed_of = array_of(record_of(r.SIGNED))
rows_of = array_of(record_of(r.FRAME))
places_of = array_of(types.int32, 2 * FIELD_COUNT)


@inlined
def _begin_run(run: Any, rows: Any, first: int) -> Any:
    """Begin with a read's first run, see ``rows.Frames.begin_run``; return its kind."""
    run.first, run.done, run.commands_end, run.last, run.checked = first, first, first, first, first
    run.kind = _COMMAND
    if first < run.end_row:
        run.kind, run.last = rows[first].kind, rows[first].next
        if run.kind == _COMMAND:
            run.commands_end = run.last
    return run.kind


@kernel(long(bytes_object, long, longs_in, types.boolean))
def read_frames(data: Bytes, read_count: int, table: Longs, are_signed: bool) -> Any:
    """Read the frames of all reads: see ``rows.FrameOps.read``."""
    runs, rows, places = runs_of(table, r.RUNS), rows_of(table, r.ROWS), places_of(table, r.PLACES)
    signed, texts = _signed_of(table, r.SIGNED_PLACES), bytes_of(table, r.TEXTS)
    about = longs_of(table, r.ABOUT)
    count, texts_end, kinds = int64(0), int64(0), int64(0)
    for i in range(read_count):
        run = runs[i]
        first, position = count, run.begin
        run.has_rest = 0
        while count < len(rows):
            end = _frame_end(data, position, run.end)
            if end < 0:
                run.has_rest = position < run.end
                break
            row = rows[count]
            _read_frame(data, position, end, row, places[count], about)
            if are_signed and row.kind != _COMMAND:
                size = 2 * (row.body_at - position) + r.SPARE
                if about[_OTHERS] or len(texts) < size:
                    row.kind = _COMMAND
                elif texts_end and len(texts) - texts_end < size:
                    break
                else:
                    put_end = _put_texts(data, row, places[count], signed[count], texts, texts_end)
                    if put_end < 0:
                        row.kind = _COMMAND
                    else:
                        texts_end = put_end
            count += 1
            position = end
        run.end_row, run.frames_end, run.is_whole = count, position, position == run.end
        _link(rows, first, count)
        kinds |= int64(1) << _begin_run(run, rows, first)
    return kinds


def read(frames: Frames, /) -> int:
    """Read the frames of all reads: see ``rows.FrameOps.read``."""
    kinds: int = _read(frames.data, frames.read_count, frames.table.numbers, frames.are_signed)
    return kinds


_read: Any = read_frames  # to Numba the bytes that sockets give are no array
