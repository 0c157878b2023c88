"""The keys of records inside kernels; and a kernel that reads those of sound records, and nothing else.

The index follows the log by it. ``dispatch`` reads them with all else that records put into queues, once a
scan has looked at them.
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
from cometmq.kernels.jit import (
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
from cometmq.kernels.json_text import is_plain
from cometmq.kernels.ops import Keys
from cometmq.kernels.properties import known_properties
from cometmq.kernels.text import hash_on, hash_text
from cometmq.message import Buffer

_TAGS_PREFIX: Final = tuple(TAGS_KEY_PREFIX.encode())
_TOPIC_END: Final = ord("#")
"""What stands between topic and key."""
_BLANK: Final = ord(KEY_SEPARATOR)
_INT_MAX: Final = 0x7FFF_FFFF
_V1: Final = MAGIC_V1
_BYTES_PER_KEY: Final = 48
"""A record that has more keys than one for so many of its bytes is unusual."""
_ROOM_MIN: Final = 64


def read_keys(buffer: Buffer | Bytes, *, base_offset: int, start: int, end: int) -> Keys:
    """Read keys: see ``ops.Ops.read_keys``."""
    data = np.frombuffer(buffer, np.uint8)
    room = max(end - start, 0) // _BYTES_PER_KEY + _ROOM_MIN
    hashes, offsets, times = np.empty(room, np.int32), np.empty(room, np.int64), np.empty(room, np.int64)
    count, position = _read(data, start, min(end, len(data)), base_offset, hashes, offsets, times)
    return Keys(hashes[:count], offsets[:count], times[:count], position)


@inlined
def topic_seed(buffer: Bytes, position: int, end: int) -> Any:
    """Give the hash of ``topic#``, which those of the topic's keys begin with."""
    return hash_on(hash_text(uint32(0), buffer, position, end), _TOPIC_END)


@inlined
def keys_max(keys: int, keys_end: int) -> Any:
    """Give how many keys a record can have at most whose KEYS are there."""
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
    """Put the hashes of a record's keys behind the ``count`` others, in the index's order; give how many now.

    The places are those that ``known_properties`` finds.
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
    """Give the index's hash of a key: Java's absolute value of the least number stays negative, so 0."""
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
    """Read keys up to the first record that is not as nearly all are; give how many, and where it begins."""
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
