"""Rows of a CommitLog file: its records, damage between them, the blank, the unused rest."""

from collections.abc import Iterator

from cometmq.format import properties
from cometmq.format.checksum import Crc
from cometmq.format.host import host_text
from cometmq.format.record import (
    BODY_CRC_AT,
    FLAG_AT,
    MAGIC_AT,
    MAGIC_V1,
    MAGIC_V2,
    PHYSICAL_OFFSET_AT,
    QUEUE_ID_AT,
    QUEUE_OFFSET_AT,
    START_SIZE,
    SYS_FLAG_AT,
    RecordHead,
)
from cometmq.format.record import BORN_TIME_AT as BORN_AT
from cometmq.format.scan import StopReason, check, find_next_record
from cometmq.format.sys_flag import (
    TRANSACTION_COMMIT,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    CompressionType,
    compression_type,
    is_compressed,
    transaction_type,
)
from cometmq.store.inspect.row import DAMAGED, UNUSED, Field, InspectRow, time_field

SHOWN_BODY_MAX = 256
"""Bytes of a body that are shown."""

_MAGICS = {MAGIC_V1: "V1", MAGIC_V2: "V2"}
_COMPRESSIONS = {int(kind): kind.name for kind in CompressionType}
_TRANSACTIONS = {
    TRANSACTION_PREPARED: "prepared",
    TRANSACTION_COMMIT: "commit",
    TRANSACTION_ROLLBACK: "rollback",
}


def record_rows(
    view: memoryview, base_offset: int, position: int, data_end: int, crc: Crc = Crc.BODY
) -> Iterator[InspectRow]:
    """Return the rows of a CommitLog file from ``position`` on.

    Args:
        base_offset: CommitLog offset of the file's first byte.
        data_end: position behind the file's last data.
        crc: the checksum that a valid record must have.
    """
    size = len(view)
    while position < size:
        found = check(view, position, size, base_offset=base_offset, crc=crc)
        if isinstance(found, RecordHead):
            yield _record(view, found)
            position += found.size
            continue
        if found.reason is StopReason.BLANK:
            yield _blank(view, position)
            return
        following = find_next_record(view, position + 1, base_offset=base_offset, end=data_end, crc=crc)
        end = size if following is None else following
        if found.reason is StopReason.END and not any(view[position : min(end, data_end)]):
            yield InspectRow(UNUSED, position, end - position, [], "zeros")
        else:
            yield InspectRow(
                DAMAGED, position, end - position, [], found.detail or "zeros, then bytes of no record"
            )
        position = end


def record_position(
    view: memoryview, base_offset: int, position: int, data_end: int, crc: Crc = Crc.BODY
) -> int:
    """Return ``position`` if a record begins there, else that of the next record, or the file's end."""
    if isinstance(check(view, position, len(view), base_offset=base_offset, crc=crc), RecordHead):
        return position
    found = find_next_record(view, position, base_offset=base_offset, end=data_end, crc=crc)
    return len(view) if found is None else found


def _record(view: memoryview, head: RecordHead) -> InspectRow:
    at = head.position
    store_time_at = at + BORN_AT + 8 + len(head.born_host)
    behind_hosts = store_time_at + 8 + len(head.store_host)
    body = bytes(view[head.body_position : head.body_position + head.body_length])
    topic = bytes(view[head.topic_position : head.topic_position + head.topic_length])
    by_name = properties.decode(
        view[head.properties_position : head.properties_position + head.properties_length]
    )
    topic_width = head.topic_position - head.body_position - head.body_length
    fields = [
        Field(at, "size", head.size),
        Field(at + MAGIC_AT, "magic", head.magic, f"{head.magic:#010x} ({_MAGICS[head.magic]})"),
        Field(at + BODY_CRC_AT, "body_crc", head.body_crc, f"{head.body_crc:#010x} (right)"),
        Field(at + QUEUE_ID_AT, "queue_id", head.queue_id),
        Field(at + FLAG_AT, "flag", head.flag),
        Field(at + QUEUE_OFFSET_AT, "queue_offset", head.queue_offset),
        Field(at + PHYSICAL_OFFSET_AT, "physical_offset", head.physical_offset),
        Field(at + SYS_FLAG_AT, "sys_flag", head.sys_flag, _sys_flag_text(head.sys_flag)),
        time_field(at + BORN_AT, "born_time", head.born_time),
        Field(head.born_host_position, "born_host", host_text(head.born_host)),
        time_field(store_time_at, "store_time", head.store_time),
        Field(head.store_host_position, "store_host", host_text(head.store_host)),
        Field(behind_hosts, "reconsume_times", head.reconsume_times),
        Field(behind_hosts + 4, "prepared_transaction_offset", head.prepared_transaction_offset),
        Field(head.body_position - 4, "body_length", head.body_length),
        _body(head.body_position, body),
        Field(head.topic_position - topic_width, "topic_length", head.topic_length),
        Field(head.topic_position, "topic", topic.decode(errors="replace")),
        Field(head.properties_position - 2, "properties_length", head.properties_length),
        Field(head.properties_position, "properties", by_name, _properties_text(by_name)),
    ]
    return InspectRow("record", at, head.size, fields)


def _blank(view: memoryview, position: int) -> InspectRow:
    size = int.from_bytes(view[position : position + MAGIC_AT], "big")
    magic = int.from_bytes(view[position + MAGIC_AT : position + START_SIZE], "big")
    left = len(view) - position
    fields = [
        Field(position, "size", size),
        Field(position + MAGIC_AT, "magic", magic, f"{magic:#010x} (blank)"),
    ]
    return InspectRow(
        "blank", position, left, fields, "" if size == left else f"{left} bytes are left in the file"
    )


def _body(position: int, body: bytes) -> Field:
    shown = body[:SHOWN_BODY_MAX]
    more = f" … {len(body) - len(shown)} bytes more" if len(body) > len(shown) else ""
    text = shown.decode(errors="replace")
    if text.isprintable():
        return Field(position, "body", text, f"{text}{more}")
    return Field(position, "body_hex", shown.hex(), f"{shown.hex(' ')}{more}")


def _sys_flag_text(sys_flag: int) -> str:
    words = []
    if is_compressed(sys_flag):
        number = compression_type(sys_flag)
        words.append(_COMPRESSIONS.get(number, f"compression {number}"))
    if transaction := transaction_type(sys_flag):
        words.append(_TRANSACTIONS[transaction])
    return f"{sys_flag:#x}" + (f" ({', '.join(words)})" if words else "")


def _properties_text(by_name: dict[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in by_name.items())
