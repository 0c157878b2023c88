"""The index keys of records inside kernels, and a kernel that hashes those of sound records.

The index follows the log by that kernel. ``dispatch`` reads the keys of scanned records, together with what
consume queues need.
"""

from typing import Any, Final

import numpy as np

from cometmq.format.index import TAGS_KEY_PREFIX
from cometmq.format.java.java_numbers import INTEGER_MAX
from cometmq.format.properties import KEY_SEPARATOR
from cometmq.format.record import STORE_TIME_AT, SYS_FLAG_AT
from cometmq.format.sys_flag import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from cometmq.kernels.arrays import Bytes, Ints, Longs
from cometmq.kernels.compiling.buffers import byte_at, int_at, long_at
from cometmq.kernels.compiling.jit import inlined, int32, int64, kernel, uint32
from cometmq.kernels.compiling.signatures import bytes_in, ints_out, long, longs_out, types
from cometmq.kernels.ops import IndexKeys
from cometmq.kernels.records.walk import GOOD, NO_CRC, walk
from cometmq.kernels.text.properties import known_properties
from cometmq.kernels.text.utf8 import hash_on, hash_text, is_plain
from cometmq.message import Buffer

_TAGS_PREFIX: Final = tuple(TAGS_KEY_PREFIX.encode())
_TOPIC_END: Final = ord("#")
"""The separator of topic and key in the text that is hashed."""
_BLANK: Final = ord(KEY_SEPARATOR)
_BYTES_PER_KEY: Final = 48
"""``read_keys`` has room for one key in so many bytes of log; a record with more is left to ``dispatch``."""
_ROOM_MIN: Final = 64


def read_keys(buffer: Buffer | Bytes, *, base_offset: int, start: int, end: int) -> IndexKeys:
    """Hash the index keys of records: see ``ops.Ops.read_keys``."""
    data = np.frombuffer(buffer, np.uint8)
    room = max(end - start, 0) // _BYTES_PER_KEY + _ROOM_MIN
    hashes, offsets, times = np.empty(room, np.int32), np.empty(room, np.int64), np.empty(room, np.int64)
    count, position = _read(data, start, min(end, len(data)), base_offset, hashes, offsets, times)
    return IndexKeys(hashes[:count], offsets[:count], times[:count], position)


@inlined
def topic_seed(buffer: Bytes, position: int, end: int) -> Any:
    """Return the hash of ``topic#``, from which the hashes of the topic's keys go on."""
    return hash_on(hash_text(uint32(0), buffer, position, end), _TOPIC_END)


@inlined
def keys_max(keys: int, keys_end: int) -> Any:
    """Return the most keys that a record can have whose KEYS value is from ``keys`` to ``keys_end``."""
    return 3 + (keys_end - keys) // 2


@inlined
def put_key_hashes(
    buffer: Bytes,
    seed: Any,
    unique_key: int,
    unique_key_end: int,
    tags: int,
    tags_end: int,
    keys: int,
    keys_end: int,
    out: Ints,
    count: int,
) -> Any:
    """Append the hashes of a record's keys, in the index's order, to ``out``; return the new count.

    Args:
        seed: from ``topic_seed``.
        unique_key, unique_key_end, tags, tags_end, keys, keys_end: from ``known_properties``.
        out: int32, of which ``count`` hashes are in use.
    """
    if unique_key < unique_key_end:
        out[count] = _key_hash(seed, buffer, unique_key, unique_key_end)
        count += 1
    while keys < keys_end:
        key_end = keys
        while key_end < keys_end and byte_at(buffer, key_end) != _BLANK:
            key_end += 1
        if keys < key_end:
            out[count] = _key_hash(seed, buffer, keys, key_end)
            count += 1
        keys = key_end + 1
    if tags < tags_end:
        out[count] = _key_hash(_tags_seed(seed), buffer, tags, tags_end)
        count += 1
    return count


@inlined
def _key_hash(seed: Any, buffer: Bytes, position: int, end: int) -> Any:
    """Return the index's hash of a key: 0 for the least int32, whose absolute value is negative in Java."""
    value = abs(int64(int32(hash_text(seed, buffer, position, end))))
    return value if value <= INTEGER_MAX else 0


@inlined
def _tags_seed(value: Any) -> Any:
    for i in range(len(_TAGS_PREFIX)):
        value = hash_on(value, _TAGS_PREFIX[i])
    return value


@kernel(types.UniTuple(long, 2)(bytes_in, long, long, long, ints_out, longs_out, longs_out))
def _read(
    buffer: Bytes, position: int, end: int, base_offset: int, hashes: Ints, offsets: Longs, times: Longs
) -> Any:
    """Hash keys up to the first unusual record; return how many keys there are, and where it begins."""
    count = int64(0)
    while True:
        parts = walk(buffer, position, end, base_offset + position, NO_CRC)
        topic_end = parts.topic_position + parts.topic_length
        if parts.stop != GOOD or not is_plain(buffer, parts.topic_position, topic_end):
            return count, int64(position)
        if int_at(buffer, position + SYS_FLAG_AT) & TRANSACTION_MASK != TRANSACTION_ROLLBACK:
            unique_key, unique_key_end, tags, tags_end, keys, keys_end, _, _, _ = known_properties(
                buffer, parts.properties_position, parts.properties_position + parts.properties_length
            )
            if count + keys_max(keys, keys_end) > len(hashes):
                return count, int64(position)
            last = put_key_hashes(
                buffer,
                topic_seed(buffer, parts.topic_position, topic_end),
                unique_key,
                unique_key_end,
                tags,
                tags_end,
                keys,
                keys_end,
                hashes,
                count,
            )
            offsets[count:last] = base_offset + position
            times[count:last] = long_at(buffer, parts.behind_born_host + STORE_TIME_AT)
            count = last
        position += parts.size
