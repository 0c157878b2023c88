"""The rows of a store's CommitLog, read record by record as ``format`` defines them: what Spark must give."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from cometmq.format import layout
from cometmq.format.compression import decompress
from cometmq.format.host import host_text
from cometmq.format.message_id import offset_message_id
from cometmq.format.properties import decode, split_keys
from cometmq.format.record import (
    MAGIC_AT,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    START_SIZE,
    Record,
    RecordHead,
    encode_blank,
    record_at,
)
from cometmq.format.scan import StopReason, check

Row = dict[str, Any]

_MAGIC: Final = re.compile(
    b"|".join(re.escape(magic.to_bytes(4, "big")) for magic in (MAGIC_V1, MAGIC_V2, MAGIC_BLANK)), re.DOTALL
)


def plain_rows(store: Path) -> Iterator[Row]:
    """Yield every true record of a store, with times in ms; what is no record is passed over."""
    for path in sorted(layout.commitlog_dir(store).iterdir()):
        data = path.read_bytes()
        for head in true_records(data, layout.parse_offset_name(path.name)):
            yield _row(record_at(data, head))


def true_records(data: bytes, base_offset: int) -> Iterator[RecordHead]:
    """Yield the true records of a file, up to the BLANK that fills it up."""
    at, written = 0, len(data.rstrip(b"\0"))
    while at < written:
        found = check(data, at, len(data), base_offset=base_offset)
        if isinstance(found, RecordHead):
            yield found
            at += found.size
        elif found.reason is StopReason.BLANK and data[at : at + START_SIZE] == encode_blank(len(data) - at):
            return
        else:
            at = _next_magic(data, at + 1)


def _next_magic(data: bytes, start: int) -> int:
    """Return where the next record or BLANK could begin, from ``start`` on."""
    found = _MAGIC.search(data, start + MAGIC_AT)
    return found.start() - MAGIC_AT if found else len(data)


def _row(record: Record) -> Row:
    properties = decode(record.properties)
    return {
        "topic": record.topic.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),
        "broker": None,
        "body_error": None,
        "queue_id": record.queue_id,
        "queue_offset": record.queue_offset,
        "physical_offset": record.physical_offset,
        "offset_id": offset_message_id(record.store_host, record.physical_offset),
        "unique_id": properties.get("UNIQ_KEY"),
        "tags": properties.get("TAGS"),
        "keys": split_keys(properties.get("KEYS", "")),
        "properties": properties,
        "body": decompress(record.body, record.sys_flag),
        "born_time": record.born_time,
        "store_time": record.store_time,
        "born_host": host_text(record.born_host),
        "store_host": host_text(record.store_host),
        "reconsume_times": record.reconsume_times,
        "sys_flag": record.sys_flag,
        "flag": record.flag,
        "body_crc": record.body_crc,
    }
