"""The dispatch kernels: number the queues of scanned records, then compute tags codes and key hashes.

They do for many records what ``format.dispatch`` defines for one.
"""

from typing import Any, Final

import numpy as np

from cometmq.format.delay_level import SCHEDULE_TOPIC, DelayLevels
from cometmq.format.java.java_hash import java_hash
from cometmq.format.java.java_numbers import INTEGER_MAX
from cometmq.format.sys_flag import (
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_NOT,
    TRANSACTION_ROLLBACK,
)
from cometmq.kernels.arrays import Bytes, Flags, Ints, Longs
from cometmq.kernels.compiling.buffers import byte_at, doubled
from cometmq.kernels.compiling.jit import inlined, int32, int64, kernel, uint32
from cometmq.kernels.compiling.signatures import (
    bytes_in,
    flags_in,
    flags_out,
    ints_in,
    ints_out,
    longs_in,
    longs_out,
    types,
)
from cometmq.kernels.ops import Dispatch, Scan
from cometmq.kernels.records.keys import keys_max, put_key_hashes, topic_seed
from cometmq.kernels.text.numbering import number_texts
from cometmq.kernels.text.properties import known_properties
from cometmq.kernels.text.utf8 import hash_text, is_utf8
from cometmq.message import Buffer

_SCHEDULE: Final = tuple(SCHEDULE_TOPIC.encode())


def dispatch(
    buffer: Buffer | Bytes, scan: Scan, delay_levels: DelayLevels, *, named: bool = True
) -> Dispatch:
    """Compute what records contribute to consume queues and index: see ``ops.Ops.dispatch``."""
    data = np.frombuffer(buffer, np.uint8)
    queue = np.arange(scan.count, dtype=np.int32)  # without names, each record counts as a queue of its own
    firsts = queue.astype(np.int64)
    queues: list[tuple[str, int]] = []
    if named:
        firsts = number_texts(data, scan.topic_position, scan.topic_length, scan.queue_id, queue)
        queues = list(zip(_topics(data, scan, firsts), scan.queue_id[firsts].tolist(), strict=True))
    topic_hash, is_delayed = _topic_hashes(data, scan, firsts)
    tags_code, is_light = np.empty(scan.count, np.int64), np.empty(scan.count, np.bool_)
    transaction = scan.sys_flag & TRANSACTION_MASK
    in_index = transaction != TRANSACTION_ROLLBACK
    key_hash, key_record = _read(
        data,
        scan.properties_position,
        scan.properties_length,
        scan.store_time,
        in_index,
        queue,
        topic_hash,
        is_delayed,
        np.array(delay_levels.delays_ms, np.int64),
        tags_code,
        is_light,
    )
    in_queue = (transaction == TRANSACTION_NOT) | (transaction == TRANSACTION_COMMIT)
    numbers = queue if named else queue[:0]
    return Dispatch(queues, numbers, tags_code, in_queue, in_index, is_light, key_hash, key_record)


def _topics(data: Bytes, scan: Scan, records: Longs) -> list[str]:
    view = data.data
    begins, lengths = scan.topic_position[records].tolist(), scan.topic_length[records].tolist()
    return [
        str(view[begin : begin + length], "utf-8", "surrogateescape")
        for begin, length in zip(begins, lengths, strict=True)
    ]


def _topic_hashes(data: Bytes, scan: Scan, records: Longs) -> tuple[Ints, Flags]:
    """Return for each of ``records`` the hash of ``topic#``, and whether it is the schedule's topic."""
    topic_hash, is_delayed = np.empty(len(records), np.int32), np.empty(len(records), np.bool_)
    if not _hash_topics(data, scan.topic_position, scan.topic_length, records, topic_hash, is_delayed):
        for number, topic in enumerate(_topics(data, scan, records)):  # one is not UTF-8: as ``plain``
            topic_hash[number] = java_hash(f"{topic}#")
    return topic_hash, is_delayed


@kernel(types.boolean(bytes_in, longs_in, ints_in, longs_in, ints_out, flags_out))
def _hash_topics(
    buffer: Bytes, positions: Longs, lengths: Ints, records: Longs, topic_hash: Ints, is_delayed: Flags
) -> bool:
    """Write what ``_topic_hashes`` returns; return whether all topics are UTF-8."""
    valid = True
    for number in range(len(records)):
        begin = positions[records[number]]
        end = begin + lengths[records[number]]
        valid = valid and is_utf8(buffer, begin, end)
        topic_hash[number] = int32(topic_seed(buffer, begin, end))
        same = end - begin == len(_SCHEDULE)
        for i in range(len(_SCHEDULE)):
            same = same and byte_at(buffer, begin + i) == _SCHEDULE[i]
        is_delayed[number] = same
    return valid


@inlined
def _level(buffer: Bytes, position: int, end: int, max_level: int) -> Any:
    """Read the delay level from a text; 0 if it is not a Java Integer above 0."""
    if position < end and byte_at(buffer, position) == ord("+"):
        position += 1
    asked = int64(0)
    while position < end:
        digit = byte_at(buffer, position) - int64(ord("0"))
        if digit < 0 or digit > 9:
            return 0
        asked = min(asked * 10 + digit, int64(INTEGER_MAX + 1))
        position += 1
    return 0 if asked > INTEGER_MAX else min(asked, max_level)


@kernel(
    types.Tuple((ints_out, longs_out))(
        bytes_in,
        longs_in,
        ints_in,
        longs_in,
        flags_in,
        ints_in,
        ints_in,
        flags_in,
        longs_in,
        longs_out,
        flags_out,
    ),
    makes_arrays=True,
)
def _read(
    buffer: Bytes,
    properties_position: Longs,
    properties_length: Ints,
    store_time: Longs,
    in_index: Flags,
    queue: Ints,
    topic_hash: Ints,
    is_delayed: Flags,
    delays_ms: Longs,
    tags_code: Longs,
    is_light: Flags,
) -> tuple[Ints, Longs]:
    """Write tags code and ``is_light`` of each record; return hash and record number of each key.

    Args:
        properties_position, properties_length, store_time, in_index, queue: one item for each record.
        topic_hash, is_delayed: one item for each queue number, as ``_topic_hashes`` returns them.
        delays_ms: how long each delay level is, from level 1.
        tags_code, is_light: int64[records] and bool[records], written.

    Returns:
        The hashes (int32), and for each the number of its record (int64).
    """
    room = 2 * len(queue) + 16
    key_hash, key_record = np.empty(room, np.int32), np.empty(room, np.int64)
    count = 0
    for i in range(len(queue)):
        unique_key, unique_key_end, tags, tags_end, keys, keys_end, delay, delay_end, light = (
            known_properties(buffer, properties_position[i], properties_position[i] + properties_length[i])
        )
        is_light[i] = light
        level = _level(buffer, delay, delay_end, len(delays_ms)) if is_delayed[queue[i]] else 0
        if level > 0:
            tags_code[i] = store_time[i] + delays_ms[level - 1]
        else:
            tags_code[i] = int32(hash_text(uint32(0), buffer, tags, tags_end))
        if not in_index[i]:
            continue
        while count + keys_max(keys, keys_end) > len(key_hash):
            key_hash, key_record = doubled(key_hash), doubled(key_record)
        end = put_key_hashes(
            buffer,
            uint32(topic_hash[queue[i]]),
            unique_key,
            unique_key_end,
            tags,
            tags_end,
            keys,
            keys_end,
            key_hash,
            count,
        )
        key_record[count:end] = i
        count = end
    return key_hash[:count].copy(), key_record[:count].copy()
