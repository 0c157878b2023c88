"""Rows of a CommitLog file: its records, damage between them, the blank, the unused rest."""

from collections.abc import Iterator

from cometmq.format import properties
from cometmq.format.checksum import Crc
from cometmq.format.host import host_text
from cometmq.format.record import FIELDS, MAGIC_AT, MAGIC_V1, MAGIC_V2, START_SIZE, RecordHead, field_at
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
    body = bytes(view[head.body_position : head.body_position + head.body_length])
    topic = bytes(view[head.topic_position : head.topic_position + head.topic_length])
    by_name = properties.decode(
        view[head.properties_position : head.properties_position + head.properties_length]
    )
    fields = [_head_field(head, name) for name in FIELDS]
    fields += [
        _body(head.body_position, body),
        Field(head.body_position + head.body_length, "topic_length", head.topic_length),
        Field(head.topic_position, "topic", topic.decode(errors="replace")),
        Field(head.topic_position + head.topic_length, "properties_length", head.properties_length),
        Field(head.properties_position, "properties", by_name, _properties_text(by_name)),
    ]
    return InspectRow("record", head.position, head.size, fields)


def _head_field(head: RecordHead, name: str) -> Field:
    position, value = head.position + field_at(name, head.sys_flag), getattr(head, name)
    match name:
        case "magic":
            return Field(position, name, value, f"{value:#010x} ({_MAGICS[value]})")
        case "body_crc":
            return Field(position, name, value, f"{value:#010x} (right)")
        case "sys_flag":
            return Field(position, name, value, _sys_flag_text(value))
        case "born_time" | "store_time":
            return time_field(position, name, value)
        case "born_host" | "store_host":
            return Field(position, name, host_text(value))
        case _:
            return Field(position, name, value)


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
