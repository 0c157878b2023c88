"""Decoding properties strings inside kernels, as ``format.properties`` does, into positions in the buffer."""

from typing import Any, Final

import numpy as np

from cometmq.format import properties
from cometmq.kernels.arrays import Bytes, Ints, Longs
from cometmq.kernels.compiling.buffers import byte_at, lowest_bit, word_at
from cometmq.kernels.compiling.jit import inlined, int64, kernel, uint32, uint64
from cometmq.kernels.compiling.signatures import bytes_in, ints_in, ints_out, longs_in, longs_out, none, types
from cometmq.kernels.text.utf8 import MALFORMED, REPLACEMENT, code_point, hash_text

_NAME_END: Final = ord(properties.NAME_END)
_VALUE_END: Final = ord(properties.VALUE_END)
_BLANK: Final = ord(properties.KEY_SEPARATOR)
_ONES: Final = uint64(0x0101010101010101)
_HIGHS: Final = uint64(0x8080808080808080)
_VALUE_ENDS: Final = _ONES * uint64(_VALUE_END)
_CODED_MAX: Final = 8
_PIECE_MIN: Final = 3
"""The bytes of the shortest property without its end: name, separator, value."""


def _code(name: str) -> int:
    """Return the number that stands in kernels for a name of at most 8 characters."""
    assert len(name) <= _CODED_MAX and name.isascii()
    return int.from_bytes(f"\1{name}".encode()[-_CODED_MAX:], "big")


_TAGS: Final = _code(properties.TAGS)
_KEYS: Final = _code(properties.KEYS)
_UNIQ_KEY: Final = _code(properties.UNIQ_KEY)
_DELAY: Final = _code(properties.DELAY)
_LIGHT: Final = properties.INNER_MULTI_QUEUE_OFFSET.encode()
_LIGHT_SIZE: Final = len(_LIGHT)
_LIGHT_WORDS: Final = tuple(uint64(int.from_bytes(_LIGHT[at : at + 8], "little")) for at in (0, 8, 16))
assert _LIGHT_SIZE == 8 * len(_LIGHT_WORDS)


@inlined
def _next_value_end(buffer: Bytes, position: int, end: int) -> Any:
    """Return the position of the next byte that ends a value, or ``end``, looking at eight bytes at a time.

    (S. E. Anderson, "Bit Twiddling Hacks": haszero. A borrow may mark bytes after the first, never before.)
    """
    while position + 8 <= end:
        others = word_at(buffer, position) ^ _VALUE_ENDS
        found = (others - _ONES) & ~others & _HIGHS
        if found:
            return position + (int64(lowest_bit(found)) >> 3)
        position += 8
    while position < end and byte_at(buffer, position) != _VALUE_END:
        position += 1
    return position


@inlined
def next_property(buffer: Bytes, position: int, end: int) -> Any:
    """Read the property at ``position``: return its name's code, where the name ends, where the value ends.

    The property counts only if ``position < name_end < value_end - 1``. A name of more than 8 bytes has
    code -1.
    """
    name_end = position
    code = int64(1)  # makes names that begin with zeros differ; the eighth byte shifts it out
    byte = 0
    while name_end < end:
        byte = byte_at(buffer, name_end)
        if byte <= _VALUE_END and byte >= _NAME_END:
            break
        code = code << 8 | byte
        name_end += 1
    value_end = _next_value_end(buffer, name_end, end)
    return code if name_end - position <= _CODED_MAX else int64(-1), name_end, value_end


@inlined
def known_properties(buffer: Bytes, position: int, end: int) -> Any:
    """Return where the values of UNIQ_KEY, TAGS, KEYS and DELAY begin and end; a missing one is empty.

    The last item is whether there is an INNER_MULTI_QUEUE_OFFSET.
    """
    is_light = False
    unique_key = unique_key_end = tags = tags_end = keys = keys_end = delay = delay_end = position
    while position < end:
        code, name_end, value_end = next_property(buffer, position, end)
        if position < name_end < value_end - 1:
            value = name_end + 1
            if code == _UNIQ_KEY:
                unique_key, unique_key_end = value, value_end
            elif code == _TAGS:
                tags, tags_end = value, value_end
            elif code == _KEYS:
                keys, keys_end = value, value_end
            elif code == _DELAY:
                delay, delay_end = value, value_end
            elif name_end - position == _LIGHT_SIZE:
                is_light = is_light or _is_light(buffer, position)
        position = value_end + 1
    return unique_key, unique_key_end, tags, tags_end, keys, keys_end, delay, delay_end, is_light


@inlined
def _is_light(buffer: Bytes, position: int) -> bool:
    """Return whether a name of _LIGHT_SIZE bytes is INNER_MULTI_QUEUE_OFFSET."""
    for i in range(len(_LIGHT_WORDS)):
        if word_at(buffer, position + 8 * i) != _LIGHT_WORDS[i]:
            return False
    return True


@kernel(none(bytes_in, longs_in, ints_in, longs_out, longs_out, longs_out, longs_out, longs_out, longs_out))
def find_known(
    buffer: Bytes,
    properties_position: Longs,
    properties_length: Ints,
    unique_id: Longs,
    unique_id_end: Longs,
    tags: Longs,
    tags_end: Longs,
    keys: Longs,
    keys_end: Longs,
) -> None:
    """Find the values of UNIQ_KEY, TAGS and KEYS in many properties strings; a missing one is empty.

    Args:
        properties_position, properties_length: int64[records] and int32[records].
        unique_id, unique_id_end, tags, tags_end, keys, keys_end: int64[records], written: where each value
            begins and ends in the buffer.
    """
    for i in range(len(properties_position)):
        end = properties_position[i] + properties_length[i]
        found = known_properties(buffer, properties_position[i], end)
        unique_id[i], unique_id_end[i], tags[i], tags_end[i], keys[i], keys_end[i] = found[:6]


@kernel(types.UniTuple(longs_out, 2)(bytes_in, longs_in, longs_in, ints_out), makes_arrays=True)
def split_keys(buffer: Bytes, keys: Longs, keys_end: Longs, offsets: Ints) -> tuple[Longs, Longs]:
    """Split KEYS values into keys; return where each key begins and ends in the buffer, int64[keys].

    Args:
        keys, keys_end: int64[records], where the values begin and end.
        offsets: int32[records + 1], written: the index of each record's first key, and the number of keys.
    """
    total = 0
    for i in range(len(keys)):
        total += (keys_end[i] - keys[i] + 1) // 2
    begins, ends = np.empty(total, np.int64), np.empty(total, np.int64)
    count = 0
    for i in range(len(keys)):
        offsets[i] = count
        begin = keys[i]
        while begin < keys_end[i]:
            end = begin
            while end < keys_end[i] and byte_at(buffer, end) != _BLANK:
                end += 1
            if begin < end:
                begins[count], ends[count] = begin, end
                count += 1
            begin = end + 1
    offsets[len(keys)] = count
    return begins[:count], ends[:count]


@inlined
def _same_text(buffer: Bytes, a: int, a_end: int, b: int, b_end: int) -> bool:
    """Return whether two texts are equal once their malformed UTF-8 is replaced by U+FFFD."""
    while a < a_end and b < b_end:
        a_code, a_size = code_point(buffer, a, a_end)
        b_code, b_size = code_point(buffer, b, b_end)
        if a_code != b_code and (max(a_code, b_code) != REPLACEMENT or min(a_code, b_code) != MALFORMED):
            return False
        a, b = a + a_size, b + b_size
    return a == a_end and b == b_end


@kernel(types.UniTuple(longs_out, 4)(bytes_in, longs_in, ints_in, ints_out), makes_arrays=True)
def split_properties(
    buffer: Bytes, properties_position: Longs, properties_length: Ints, offsets: Ints
) -> tuple[Longs, Longs, Longs, Longs]:
    """Split properties strings; return where names begin and end, and where values do, int64[properties].

    A name that occurs again replaces its first value. It is found in a hash table that is large enough for
    any record; a place of the table is in use if its stamp is the record's number.

    Args:
        properties_position, properties_length: int64[records] and int32[records].
        offsets: int32[records + 1], written: the index of each record's first property, and their number.
    """
    total, most = 0, 0
    for i in range(len(properties_position)):
        pieces = (properties_length[i] + 1) // (_PIECE_MIN + 1)
        total += pieces
        most = max(most, pieces)
    names, names_end = np.empty(total, np.int64), np.empty(total, np.int64)
    values, values_end = np.empty(total, np.int64), np.empty(total, np.int64)
    places = 16
    while places < 2 * most:
        places *= 2
    table, stamps = np.empty(places, np.int64), np.full(places, -1, np.int64)
    count = 0
    for i in range(len(properties_position)):
        offsets[i] = count
        position = properties_position[i]
        end = position + properties_length[i]
        while position < end:
            _, name_end, value_end = next_property(buffer, position, end)
            if position < name_end < value_end - 1:
                place = hash_text(uint32(0), buffer, position, name_end) & (places - 1)
                while stamps[place] == i and not _same_text(
                    buffer, names[table[place]], names_end[table[place]], position, name_end
                ):
                    place = (place + 1) & (places - 1)
                if stamps[place] != i:
                    stamps[place], table[place] = i, count
                    names[count], names_end[count] = position, name_end
                    count += 1
                values[table[place]], values_end[table[place]] = name_end + 1, value_end
            position = value_end + 1
    offsets[len(properties_position)] = count
    return names[:count], names_end[:count], values[:count], values_end[:count]
