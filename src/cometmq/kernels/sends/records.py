"""Encoding the records of sends inside kernels, as ``format.record.encode_fields`` does."""

from typing import Any

from cometmq.format import record
from cometmq.format.host import IPV4_SIZE
from cometmq.format.property_crc import MASK
from cometmq.format.sys_flag import BORN_HOST_V6, HOSTS_V6, STORE_HOST_V6
from cometmq.kernels.arrays import Bytes, Longs
from cometmq.kernels.compiling.buffers import byte_at, copy_bytes, put_int, put_long
from cometmq.kernels.compiling.jit import inlined, int64, uint8
from cometmq.kernels.records.crc import crc32_of
from cometmq.kernels.sends.rows import (
    ADDED,
    ENTRY_SIZE,
    PHYSICAL_OFFSET,
    QUEUE,
    QUEUE_OFFSET,
    STORE_HOST,
    TAGS_CODE,
)
from cometmq.wire.batch import SIZE_MIN


@inlined
def records_size(send: Any, born_host_size: int, bounds: Longs) -> Any:
    """Return the size in bytes of a send's records: one, or one for each message of a batch."""
    hosts_size = born_host_size + bounds[STORE_HOST + 1] - bounds[STORE_HOST]
    around = record.MIN_SIZE - 2 * IPV4_SIZE + hosts_size + send.topic_length
    if send.is_batch:
        return send.message_count * (around - SIZE_MIN) + send.body_length
    return around + send.body_length + send.properties_length + bounds[ADDED + 1] - bounds[ADDED]


@inlined
def put_record(
    data: Bytes,
    send: Any,
    properties: Bytes,
    hosts: Bytes,
    host_at: int,
    constants: Bytes,
    bounds: Longs,
    store_time: int,
    out: Bytes,
    begin: int,
) -> Any:
    """Write the record of a message to ``out[begin:]``, and its size to ``send``; return where it ends.

    The properties that the broker adds are not added to those of a batch's messages.

    Args:
        data: uint8[], what the socket read returned, with topic and body.
        send: one item of ``SEND``, with its offsets.
        properties: uint8[], with the properties: ``data`` for a batch's message, else the texts.
        hosts: uint8[], with the client's, as ``format.host.sized_host`` writes it, at ``host_at``.
        constants, bounds: the fields of ``SendConstants``.
        store_time: ms since 1970.
    """
    store_host, store_host_end = bounds[STORE_HOST], bounds[STORE_HOST + 1]
    added = bounds[ADDED]
    added_end = added if send.is_batch else bounds[ADDED + 1]
    host_size = int64(byte_at(hosts, host_at))
    behind_born_host = begin + host_size - IPV4_SIZE
    behind_hosts = behind_born_host + store_host_end - store_host - IPV4_SIZE
    host_flags = (BORN_HOST_V6 if host_size > IPV4_SIZE else 0) | (
        STORE_HOST_V6 if store_host_end - store_host > IPV4_SIZE else 0
    )
    put_int(out, begin + record.MAGIC_AT, record.MAGIC_V1)
    put_int(out, begin + record.BODY_CRC_AT, crc32_of(data, send.body_at, send.body_length) & MASK)
    put_int(out, begin + record.QUEUE_ID_AT, send.queue_id)
    put_int(out, begin + record.FLAG_AT, send.flag)
    put_long(out, begin + record.QUEUE_OFFSET_AT, send.queue_offset)
    put_long(out, begin + record.PHYSICAL_OFFSET_AT, send.physical_offset)
    put_int(out, begin + record.SYS_FLAG_AT, send.sys_flag & ~HOSTS_V6 | host_flags)
    put_long(out, begin + record.BORN_TIME_AT, send.born_time)
    copy_bytes(hosts, host_at + 1, host_at + 1 + host_size, out, begin + record.BORN_HOST_AT)
    put_long(out, behind_born_host + record.STORE_TIME_AT, store_time)
    copy_bytes(constants, store_host, store_host_end, out, behind_born_host + record.STORE_HOST_AT)
    put_int(out, behind_hosts + record.RECONSUME_TIMES_AT, send.reconsume_times)
    put_long(out, behind_hosts + record.PREPARED_TRANSACTION_OFFSET_AT, 0)
    put_int(out, behind_hosts + record.BODY_LENGTH_AT, send.body_length)
    at = copy_bytes(data, send.body_at, send.body_at + send.body_length, out, behind_hosts + record.BODY_AT)
    out[at] = uint8(send.topic_length)
    topic = at + record.TOPIC_LENGTH_SIZE_V1
    at = copy_bytes(data, send.topic_at, send.topic_at + send.topic_length, out, topic)
    properties_length = send.properties_length + added_end - added
    out[at] = uint8(properties_length >> 8)
    out[at + 1] = uint8(properties_length)
    at += record.PROPERTIES_LENGTH_SIZE
    at = copy_bytes(properties, send.properties_at, send.properties_at + send.properties_length, out, at)
    end = copy_bytes(constants, added, added_end, out, at)
    send.size = end - begin
    put_int(out, begin, send.size)
    return end


@inlined
def put_entry(send: Any, entries: Longs, row: int) -> None:
    """Write a message's queue entry to a row of ``entries``."""
    entries[row, QUEUE] = send.queue
    entries[row, QUEUE_OFFSET] = send.queue_offset
    entries[row, PHYSICAL_OFFSET] = send.physical_offset
    entries[row, ENTRY_SIZE] = send.size
    entries[row, TAGS_CODE] = send.tags_code
