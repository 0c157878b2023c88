"""The kernels that find the parts of properties strings, for columns: where each begins and ends."""

from typing import Final

import numpy as np

from cometmq.format.properties import KEY_SEPARATOR
from cometmq.kernels.jit import (
    Bytes,
    Ints,
    Longs,
    byte_at,
    bytes_in,
    inlined,
    ints_in,
    ints_out,
    kernel,
    longs_in,
    longs_out,
    none,
    types,
    uint32,
)
from cometmq.kernels.property import known_properties, next_property
from cometmq.kernels.text import code_point, hash_text

_BLANK: Final = ord(KEY_SEPARATOR)
_PIECE_MIN: Final = 3
"""Bytes of the shortest property but for its end: name, separator, value."""


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
    """Find the values of UNIQ_KEY, TAGS and KEYS; one that is not there is empty."""
    for i in range(len(properties_position)):
        end = properties_position[i] + properties_length[i]
        found = known_properties(buffer, properties_position[i], end)
        unique_id[i], unique_id_end[i], tags[i], tags_end[i], keys[i], keys_end[i] = found[:6]


@kernel(types.UniTuple(longs_out, 2)(bytes_in, longs_in, longs_in, ints_out))
def split_keys(buffer: Bytes, keys: Longs, keys_end: Longs, offsets: Ints) -> tuple[Longs, Longs]:
    """Split KEYS values into keys: ``offsets`` tells which are whose; gives where they begin and end."""
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
    """Tell whether two texts read the same."""
    while a < a_end and b < b_end:
        a_code, a_size = code_point(buffer, a, a_end)
        b_code, b_size = code_point(buffer, b, b_end)
        if a_code != b_code:
            return False
        a, b = a + a_size, b + b_size
    return a == a_end and b == b_end


@kernel(types.UniTuple(longs_out, 4)(bytes_in, longs_in, ints_in, ints_out))
def split_properties(
    buffer: Bytes, properties_position: Longs, properties_length: Ints, offsets: Ints
) -> tuple[Longs, Longs, Longs, Longs]:
    """Split properties strings: ``offsets`` tells which are whose; gives where names and values are.

    A name that comes again puts its value in the place of the first. For finding it there is a hash
    table, large enough for any record; a place of it is taken if it is stamped with the record's number.
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
