"""The JSON of request headers inside kernels: strict, and -1 for anything unusual."""

from typing import Any, Final

from cometmq.kernels.arrays import Bytes
from cometmq.kernels.compiling.buffers import byte_at, lowest_bit, put_word, word_at
from cometmq.kernels.compiling.jit import inlined, int64, uint8, uint64
from cometmq.kernels.text.utf8 import checked_size

NOT_A_NUMBER: Final = -(2**63)
"""What stands for a number that is none, or has more digits than kernels read."""
_QUOTE: Final = ord('"')
_BACKSLASH: Final = ord("\\")
_BLANK: Final = ord(" ")
_MINUS: Final = ord("-")
_ZERO: Final = ord("0")
_NINE: Final = ord("9")
_CODED: Final = ord("u")
_ONES: Final = uint64(0x0101010101010101)
_HIGHS: Final = uint64(0x8080808080808080)
_QUOTES: Final = _ONES * uint64(_QUOTE)
_BACKSLASHES: Final = _ONES * uint64(_BACKSLASH)
_BLANKS: Final = _ONES * uint64(_BLANK)
_ZEROS: Final = _ONES * uint64(_ZERO)
_TOO_LARGE: Final = _ONES * uint64(0x80 - 10)
"""Added to a byte, it sets the highest bit unless the byte is at most 9."""
_WORD: Final = 8
_DIGITS_MAX: Final = 18


@inlined
def skip_blanks(data: Bytes, position: int, end: int) -> Any:
    """Return the position of the next byte that is not a blank."""
    while position < end and byte_at(data, position) == _BLANK:
        position += 1
    return position


@inlined
def _unplain(word: Any) -> Any:
    """Mark the first of eight bytes that is a quote, a backslash, a control character or not ASCII.

    The lowest bit set in the result is the highest bit of that byte; the result is 0 if all are plain.
    Subtracting 1 from each byte borrows from the highest bit of a zero byte, and subtracting 32 from that of
    a byte below 32; a borrow may spread only to later bytes. (S. E. Anderson, "Bit Twiddling Hacks": haszero,
    hasless.)
    """
    quotes, backslashes = word ^ _QUOTES, word ^ _BACKSLASHES
    borrows = (quotes - _ONES) & ~quotes | (backslashes - _ONES) & ~backslashes | (word - _BLANKS) & ~word
    return (borrows | word) & _HIGHS


@inlined
def _skip_plain(data: Bytes, position: int, end: int) -> Any:
    """Return the position of the next byte that ``_unplain`` marks, or one of the last eight."""
    while position + 8 <= end:
        unplain = _unplain(word_at(data, position))
        if unplain:
            return position + (int64(lowest_bit(unplain)) >> 3)
        position += 8
    return position


@inlined
def plain_end(data: Bytes, position: int, end: int) -> Any:
    """Return where the text at ``position`` ends, at its quote; -1 unless it is ASCII without escapes."""
    position = _skip_plain(data, position, end)
    while position < end:
        byte = byte_at(data, position)
        if byte == _QUOTE:
            return position
        if byte < _BLANK or byte >= 0x80 or byte == _BACKSLASH:
            return -1
        position += 1
    return -1


@inlined
def text_end(data: Bytes, position: int, end: int) -> Any:
    """Return where the text at ``position`` ends, at its quote, whatever it has; -1 if there is none."""
    position = _skip_plain(data, position, end)
    while position < end:
        byte = byte_at(data, position)
        if byte == _QUOTE:
            return position
        position = _skip_plain(data, position + (2 if byte == _BACKSLASH else 1), end)
    return int64(-1)


@inlined
def _digits(data: Bytes, end: int, count: int) -> Any:
    """Read the 1 to 8 digits before ``end``, eight bytes at once; NOT_A_NUMBER if one is not a digit.

    Neighbours are joined three times: to numbers below 100, below 10,000 and below 100,000,000.
    """
    values = (word_at(data, end - 8) ^ _ZEROS) & ~uint64(0) << uint64(64 - 8 * count)
    if (values + _TOO_LARGE | values) & _HIGHS:
        return int64(NOT_A_NUMBER)
    values = values * uint64(10) + (values >> uint64(8)) & uint64(0x00FF00FF00FF00FF)
    values = values * uint64(100) + (values >> uint64(16)) & uint64(0x0000FFFF0000FFFF)
    return int64(values * uint64(10_000) + (values >> uint64(32)) & uint64(0xFFFFFFFF))


@inlined
def number_between(data: Bytes, position: int, end: int) -> Any:
    """Read a decimal integer of JSON; NOT_A_NUMBER if it is not one, or has more than 18 digits."""
    digits = end - position
    if 1 <= digits <= _WORD and end >= _WORD:
        if digits > 1 and byte_at(data, position) == _ZERO:
            return int64(NOT_A_NUMBER)
        value = _digits(data, end, digits)
        if value >= 0 or byte_at(data, position) != _MINUS:
            return value
    elif _WORD < digits <= 2 * _WORD and byte_at(data, position) > _ZERO:
        high, low = _digits(data, end - _WORD, digits - _WORD), _digits(data, end, _WORD)
        if high > 0 and low >= 0:
            return high * int64(100_000_000) + low
    return _signed_between(data, position, end)


@inlined
def _signed_between(data: Bytes, position: int, end: int) -> Any:
    """Read a number of any sign and length as ``number_between`` does, digit by digit."""
    is_negative = position < end and byte_at(data, position) == _MINUS
    if is_negative:
        position += 1
    digits = end - position
    if digits < 1 or digits > _DIGITS_MAX:
        return int64(NOT_A_NUMBER)
    if byte_at(data, position) == _ZERO and (digits > 1 or is_negative):
        return int64(NOT_A_NUMBER)
    value = int64(0)
    while position < end:
        byte = byte_at(data, position)
        if byte < _ZERO or byte > _NINE:
            return int64(NOT_A_NUMBER)
        value = value * 10 + (byte - _ZERO)
        position += 1
    return -value if is_negative else value


@inlined
def number_end(data: Bytes, position: int, end: int) -> Any:
    """Return where the number at ``position`` ends: at the first byte that is neither digit nor minus."""
    while position < end:
        byte = byte_at(data, position)
        if byte != _MINUS and (byte < _ZERO or byte > _NINE):
            break
        position += 1
    return position


@inlined
def _hex_digit(byte: int) -> Any:
    if _ZERO <= byte <= _NINE:
        return int64(byte) - _ZERO
    letter = int64(byte) | 0x20
    return letter - 87 if 97 <= letter <= 102 else int64(-1)


@inlined
def put_code_point(out: Bytes, at: int, code: int) -> Any:
    """Write a code point below U+10000 as UTF-8; return the position after it."""
    if code < 0x80:
        out[at] = uint8(code)
        return at + 1
    if code < 0x800:
        out[at] = uint8(0xC0 | code >> 6)
        out[at + 1] = uint8(0x80 | code & 0x3F)
        return at + 2
    out[at] = uint8(0xE0 | code >> 12)
    out[at + 1] = uint8(0x80 | code >> 6 & 0x3F)
    out[at + 2] = uint8(0x80 | code & 0x3F)
    return at + 3


@inlined
def _simple_escape(byte: int) -> Any:
    """Return the character that an escape of one letter stands for, -1 if there is no such escape."""
    if byte == _QUOTE or byte == _BACKSLASH or byte == 47:
        return 0 + byte
    if byte == 98:
        return 8
    if byte == 102:
        return 12
    if byte == 110:
        return 10
    if byte == 114:
        return 13
    if byte == 116:
        return 9
    return -1


@inlined
def unescape(data: Bytes, position: int, end: int, out: Bytes, at: int) -> Any:
    """Unescape the text at ``position`` to ``out[at:]``, as UTF-8.

    Returns where the text ends in ``data`` and in ``out``; -1 if it is malformed or holds surrogates.
    """
    while position < end:
        while position + 8 <= end:
            word = word_at(data, position)
            put_word(out, at, word)  # what follows the plain bytes is overwritten later
            unplain = _unplain(word)
            size = int64(lowest_bit(unplain)) >> 3 if unplain else int64(8)
            position += size
            at += size
            if size < 8:
                break
        if position >= end:
            break
        byte = byte_at(data, position)
        if byte == _QUOTE:
            return position, at
        if byte < _BLANK:
            return -1, at
        if byte == _BACKSLASH:
            if position + 1 >= end:
                return -1, at
            kind = byte_at(data, position + 1)
            if kind == _CODED:
                if position + 6 > end:
                    return -1, at
                code = int64(0)
                for i in range(4):
                    digit = _hex_digit(byte_at(data, position + 2 + i))
                    if digit < 0:
                        return -1, at
                    code = code << 4 | digit
                if 0xD800 <= code <= 0xDFFF:
                    return -1, at
                at = put_code_point(out, at, code)
                position += 6
            else:
                code = int64(_simple_escape(kind))
                if code < 0:
                    return -1, at
                out[at] = uint8(code)
                at += 1
                position += 2
        elif byte < 0x80:
            out[at] = byte
            at += 1
            position += 1
        else:
            size = checked_size(data, position, end)
            if size < 0:
                return -1, at
            for i in range(size):
                out[at + i] = byte_at(data, position + i)
            at += size
            position += size
    return -1, at
