"""Decoding UTF-8 inside kernels, and Java's string hash.

Malformed UTF-8 is decoded as Python does with ``errors="replace"``: each longest beginning of a sequence that
cannot be completed is one U+FFFD.
"""

from typing import Any, Final

from cometmq.kernels.arrays import Bytes
from cometmq.kernels.compiling.buffers import byte_at, word_at
from cometmq.kernels.compiling.jit import inlined, int64, uint32, uint64

REPLACEMENT: Final = 0xFFFD
MALFORMED: Final = -1
_HIGHS: Final = uint64(0x8080808080808080)
"""The highest bit of each of eight bytes, which no ASCII character has set."""
_POWERS: Final = tuple(31**i & 0xFFFFFFFF for i in range(9))


@inlined
def code_point(buffer: Bytes, position: int, end: int) -> Any:
    """Decode one code point; return it and its size in bytes, or -1 and the bytes to skip if malformed."""
    lead = int64(byte_at(buffer, position))
    low, high = 0x80, 0xBF
    if lead < 0x80:
        return lead, 1
    if lead < 0xC2 or lead > 0xF4:
        return MALFORMED, 1
    if lead < 0xE0:
        length = 2
    elif lead < 0xF0:
        length = 3
        if lead == 0xE0:
            low = 0xA0  # below it, a shorter form exists
        elif lead == 0xED:
            high = 0x9F  # above it, surrogates
    else:
        length = 4
        if lead == 0xF0:
            low = 0x90
        elif lead == 0xF4:
            high = 0x8F  # above it, past U+10FFFF
    code = lead & (0x7F >> length)
    for i in range(1, length):
        if position + i >= end:
            return MALFORMED, i
        byte = int64(byte_at(buffer, position + i))
        if byte < low or byte > high:
            return MALFORMED, i
        code = code << 6 | byte & 0x3F
        low, high = 0x80, 0xBF
    return code, length


@inlined
def hash_on(value: Any, unit: int) -> Any:
    """Update a hash (uint32) with one UTF-16 unit."""
    return uint32(value * uint32(31) + uint32(unit))


@inlined
def _hash_word(value: Any, word: Any) -> Any:
    """Update a hash with eight ASCII characters: none of the multiplications waits for another."""
    total = uint64(value) * uint64(_POWERS[8])
    for i in range(8):
        total += (word >> uint64(8 * i) & uint64(0xFF)) * uint64(_POWERS[7 - i])
    return uint32(total)


@inlined
def hash_text(value: Any, buffer: Bytes, position: int, end: int) -> Any:
    """Update a hash (uint32) with the UTF-8 text from ``position`` to ``end``."""
    while position < end:
        if position + 8 <= end:
            word = word_at(buffer, position)
            if not word & _HIGHS:
                value = _hash_word(value, word)
                position += 8
                continue
        byte = byte_at(buffer, position)
        if byte < 0x80:
            value = hash_on(value, byte)
            position += 1
            continue
        code, size = code_point(buffer, position, end)
        if code == MALFORMED:
            value = hash_on(value, REPLACEMENT)
        elif code > 0xFFFF:
            value = hash_on(value, 0xD800 + ((code - 0x10000) >> 10))
            value = hash_on(value, 0xDC00 + (code & 0x3FF))
        else:
            value = hash_on(value, code)
        position += size
    return value


@inlined
def checked_size(data: Bytes, position: int, end: int) -> Any:
    """Return the size in bytes of the code point at ``position``, -1 if it is malformed."""
    code, size = code_point(data, position, end)
    return int64(-1) if code == MALFORMED else int64(size)


@inlined
def is_plain(data: Bytes, position: int, end: int) -> bool:
    """Return whether the bytes from ``position`` to ``end`` are ASCII."""
    while position < end:
        if byte_at(data, position) >= 0x80:
            return False
        position += 1
    return True


@inlined
def is_utf8(texts: Bytes, position: int, end: int) -> bool:
    """Return whether the bytes from ``position`` to ``end`` are UTF-8."""
    while position < end:
        if texts[position] < 0x80:
            position += 1
            continue
        size = checked_size(texts, position, end)
        if size < 0:
            return False
        position += size
    return True
