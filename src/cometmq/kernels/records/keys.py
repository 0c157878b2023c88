"""The index keys of records inside kernels, and a kernel that hashes those of sound records.

The index follows the log by that kernel. ``dispatch`` reads the keys of scanned records, together with what
consume queues need.
"""

from typing import Any, Final

import numpy as np

from cometmq.format.index import TAGS_KEY_PREFIX
from cometmq.format.properties import KEY_SEPARATOR
from cometmq.format.record import (
    BODY_AT,
    HOST_GROWTH,
    MAGIC_AT,
    MAGIC_V1,
    MIN_SIZE,
    PHYSICAL_OFFSET_AT,
    STORE_TIME_AT,
    SYS_FLAG_AT,
)
from cometmq.format.sys_flag import (
    BORN_HOST_V6,
    STORE_HOST_V6,
    TRANSACTION_MASK,
    TRANSACTION_ROLLBACK,
)
from cometmq.kernels.compiling.jit import (
    Bytes,
    Ints,
    Longs,
    byte_at,
    bytes_in,
    inlined,
    int32,
    int64,
    int_at,
    ints_out,
    kernel,
    long,
    long_at,
    longs_out,
    short_at,
    types,
    uint32,
)
from cometmq.kernels.headers.json_text import is_plain
from cometmq.kernels.ops import IndexKeys
from cometmq.kernels.records.properties import known_properties
from cometmq.kernels.records.text import hash_on, hash_text
from cometmq.message import Buffer

_TAGS_PREFIX: Final = tuple(TAGS_KEY_PREFIX.encode())
_TOPIC_END: Final = ord("#")
"""The separator of topic and key in the text that is hashed."""
_BLANK: Final = ord(KEY_SEPARATOR)
_INT_MAX: Final = 0x7FFF_FFFF
_V1: Final = MAGIC_V1
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
    return value if value <= _INT_MAX else 0


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
    while end - position >= MIN_SIZE:
        size = int64(int_at(buffer, position))
        if size < MIN_SIZE or size > end - position or uint32(int_at(buffer, position + MAGIC_AT)) != _V1:
            break
        if long_at(buffer, position + PHYSICAL_OFFSET_AT) != base_offset + position:
            break
        sys_flag = int_at(buffer, position + SYS_FLAG_AT)
        time = position + STORE_TIME_AT + (HOST_GROWTH if sys_flag & BORN_HOST_V6 else 0)
        body = time - STORE_TIME_AT + BODY_AT + (HOST_GROWTH if sys_flag & STORE_HOST_V6 else 0)
        if body + 3 > position + size:
            break
        topic = body + int64(int_at(buffer, body - 4)) + 1
        if topic <= body or topic + 2 > position + size:
            break
        topic_end = topic + int64(byte_at(buffer, topic - 1))
        properties = topic_end + 2
        if properties > position + size or not is_plain(buffer, topic, topic_end):
            break
        properties_end = properties + int64(short_at(buffer, properties - 2))
        if properties_end != position + size or properties_end < properties:
            break
        if sys_flag & TRANSACTION_MASK != TRANSACTION_ROLLBACK:
            unique_key, unique_key_end, tags, tags_end, keys, keys_end, _, _ = known_properties(
                buffer, properties, properties_end
            )
            if count + keys_max(keys, keys_end) > len(hashes):
                break
            last = put_key_hashes(
                buffer,
                topic_seed(buffer, topic, topic_end),
                *(unique_key, unique_key_end, tags, tags_end, keys, keys_end),
                hashes,
                count,
            )
            offsets[count:last] = base_offset + position
            times[count:last] = long_at(buffer, time)
            count = last
        position += size
    return count, int64(position)
