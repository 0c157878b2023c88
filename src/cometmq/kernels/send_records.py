"""Making the records of sends inside kernels: ``format.record.encode_fields``."""

from typing import Any

from cometmq.format.host import IPV4_SIZE
from cometmq.format.record import (
    BODY_AT,
    BODY_CRC_AT,
    BORN_HOST_AT,
    BORN_TIME_AT,
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
from cometmq.kernels.jit import Bytes, Longs, copy_bytes, inlined, put_int, put_long, uint8
from cometmq.kernels.sends import ADDED, STORE_HOST


@inlined
def record_size(send: Any, born_host: Bytes, bounds: Longs) -> Any:
    """Give how many bytes the record of a send takes."""
    hosts_size = len(born_host) + bounds[STORE_HOST + 1] - bounds[STORE_HOST]
    properties_size = send.properties_length + bounds[ADDED + 1] - bounds[ADDED]
    return (
        BODY_AT - 2 * IPV4_SIZE + hosts_size + send.body_length + 1 + send.topic_length + 2 + properties_size
    )


@inlined
def put_record(
    data: Bytes,
    send: Any,
    texts: Bytes,
    born_host: Bytes,
    constants: Bytes,
    bounds: Longs,
    store_time: int,
    out: Bytes,
    begin: int,
) -> None:
    """Write the record of a send, which knows its offsets and size, to ``out`` from ``begin`` on."""
    store_host, store_host_end = bounds[STORE_HOST], bounds[STORE_HOST + 1]
    added, added_end = bounds[ADDED], bounds[ADDED + 1]
    host_flags = (BORN_HOST_V6 if len(born_host) > IPV4_SIZE else 0) | (
        STORE_HOST_V6 if store_host_end - store_host > IPV4_SIZE else 0
    )
    put_int(out, begin, send.size)
    put_int(out, begin + MAGIC_AT, MAGIC_V1)
    put_int(out, begin + BODY_CRC_AT, crc32_of(data, send.body_at, send.body_length) & 0x7FFFFFFF)
    put_int(out, begin + QUEUE_ID_AT, send.queue_id)
    put_int(out, begin + FLAG_AT, send.flag)
    put_long(out, begin + QUEUE_OFFSET_AT, send.queue_offset)
    put_long(out, begin + PHYSICAL_OFFSET_AT, send.physical_offset)
    put_int(out, begin + SYS_FLAG_AT, send.sys_flag & ~HOSTS_V6 | host_flags)
    put_long(out, begin + BORN_TIME_AT, send.born_time)
    at = copy_bytes(born_host, 0, len(born_host), out, begin + BORN_HOST_AT)
    put_long(out, at, store_time)
    at = copy_bytes(constants, store_host, store_host_end, out, at + 8)
    put_int(out, at, send.reconsume_times)
    put_long(out, at + 4, 0)
    put_int(out, at + 12, send.body_length)
    at = copy_bytes(data, send.body_at, send.body_at + send.body_length, out, at + 16)
    out[at] = uint8(send.topic_length)
    at = copy_bytes(data, send.topic_at, send.topic_at + send.topic_length, out, at + 1)
    properties_length = send.properties_length + added_end - added
    out[at] = uint8(properties_length >> 8)
    out[at + 1] = uint8(properties_length)
    at = copy_bytes(texts, send.properties_at, send.properties_at + send.properties_length, out, at + 2)
    copy_bytes(constants, added, added_end, out, at)
