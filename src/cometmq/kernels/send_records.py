"""The kernel that makes the records of sends: ``format.record.encode_fields``, one behind the other."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cometmq.format.host import IPV4_SIZE
from cometmq.format.record import (
    BODY_AT,
    BODY_CRC_AT,
    BORN_HOST_AT,
    BORN_TIME_AT,
    END_FILE_MIN_BLANK,
    FLAG_AT,
    MAGIC_AT,
    MAGIC_V1,
    PHYSICAL_OFFSET_AT,
    QUEUE_ID_AT,
    QUEUE_OFFSET_AT,
    SYS_FLAG_AT,
)
from cometmq.format.sys_flag import BORN_HOST_V6, HOSTS_V6, STORE_HOST_V6
from cometmq.kernels.crc import crc32_of
from cometmq.kernels.jit import (
    Bytes,
    Longs,
    bytes_in,
    bytes_out,
    inlined,
    int64,
    kernel,
    long,
    longs_out,
    put_int,
    put_long,
    sends_out,
    types,
    uint8,
    uintp,
)
from cometmq.kernels.sends import Hosts


def encode(
    data: Bytes,
    batch: NDArray[np.void],
    count: int,
    texts: Bytes,
    added: Bytes,
    hosts: Hosts,
    next_offsets: Longs,
    physical_offset: int,
    room: int,
    store_time: int,
    records: Bytes,
) -> tuple[int, int]:
    """Encode records: see ``sends.SendOps.encode``."""
    made: tuple[int, int] = _encode(
        data,
        batch,
        count,
        texts,
        added,
        hosts.born,
        hosts.store,
        next_offsets,
        physical_offset,
        room,
        store_time,
        records,
    )
    return made


@inlined
def _copy(source: Bytes, position: int, length: int, out: Bytes, at: int) -> Any:
    """Copy bytes; give where the next go."""
    for i in range(length):
        out[uintp(at + i)] = source[uintp(position + i)]
    return at + length


@kernel(
    types.UniTuple(long, 2)(
        bytes_in,
        sends_out,
        long,
        bytes_out,
        bytes_in,
        bytes_in,
        bytes_in,
        longs_out,
        long,
        long,
        long,
        bytes_out,
    )
)
def _encode(
    data: Bytes,
    batch: Any,
    count: int,
    texts: Bytes,
    added: Bytes,
    born_host: Bytes,
    store_host: Bytes,
    next_offsets: Longs,
    physical_offset: int,
    room: int,
    store_time: int,
    records: Bytes,
) -> Any:
    host_flags = (BORN_HOST_V6 if len(born_host) > IPV4_SIZE else 0) | (
        STORE_HOST_V6 if len(store_host) > IPV4_SIZE else 0
    )
    fixed_size = int64(BODY_AT + len(born_host) + len(store_host) - 2 * IPV4_SIZE)
    position = int64(0)
    for i in range(count):
        send = batch[i]
        properties_length = send.properties_length + len(added)
        size = fixed_size + send.body_length + 1 + send.topic_length + 2 + properties_length
        if position + size + END_FILE_MIN_BLANK > room:
            return int64(i), position
        send.size = size
        send.physical_offset = physical_offset + position
        send.queue_offset = next_offsets[send.queue]
        next_offsets[send.queue] += 1

        put_int(records, position, size)
        put_int(records, position + MAGIC_AT, MAGIC_V1)
        put_int(records, position + BODY_CRC_AT, crc32_of(data, send.body_at, send.body_length) & 0x7FFFFFFF)
        put_int(records, position + QUEUE_ID_AT, send.queue_id)
        put_int(records, position + FLAG_AT, send.flag)
        put_long(records, position + QUEUE_OFFSET_AT, send.queue_offset)
        put_long(records, position + PHYSICAL_OFFSET_AT, send.physical_offset)
        put_int(records, position + SYS_FLAG_AT, send.sys_flag & ~HOSTS_V6 | host_flags)
        put_long(records, position + BORN_TIME_AT, send.born_time)
        at = _copy(born_host, 0, len(born_host), records, position + BORN_HOST_AT)
        put_long(records, at, store_time)
        at = _copy(store_host, 0, len(store_host), records, at + 8)
        put_int(records, at, send.reconsume_times)
        put_long(records, at + 4, 0)
        put_int(records, at + 12, send.body_length)
        at = _copy(data, send.body_at, send.body_length, records, at + 16)
        records[at] = uint8(send.topic_length)
        at = _copy(data, send.topic_at, send.topic_length, records, at + 1)
        records[at] = uint8(properties_length >> 8)
        records[at + 1] = uint8(properties_length)
        at = _copy(texts, send.properties_at, send.properties_length, records, at + 2)
        position = _copy(added, 0, len(added), records, at)
    return int64(count), position
