"""The Arrow columns of records: their types, and how plain Python builds them.

================  ==========================================================================
column            content
================  ==========================================================================
topic             malformed UTF-8 is replaced by U+FFFD, here as in all texts
unique_id, tags   null if the record has none
keys              empty if the record has none
properties        all of them; the last value of a name that occurs more than once
body              as stored: compressed if ``sys_flag`` says so
born_time         UTC, to the millisecond, as is store_time
born_host         ``ip:port`` or ``[ip]:port``, as is store_host
offset_id         store host and physical offset in hex: RocketMQ's offset message id
================  ==========================================================================

The other columns are the record's numbers.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cometmq.format import properties
from cometmq.format.host import host_text
from cometmq.format.message_id import offset_message_id
from cometmq.format.record import FIELDS, INT, LONG, UNSIGNED
from cometmq.kernels.arrays import Bytes, Longs
from cometmq.kernels.ops import Scan
from cometmq.message import Buffer

_TIME: Final = pa.timestamp("us", tz="UTC")
_NUMBERS: Final = {INT: pa.int32(), UNSIGNED: pa.int32(), LONG: pa.int64()}
"""The types of the record's numbers, by kind. CRCs are the unsigned ones; they have 31 bits."""


def _number(name: str) -> pa.DataType:
    return _NUMBERS[FIELDS[name]]


TYPES: Final[Mapping[str, pa.DataType]] = {
    "topic": pa.string(),
    "queue_id": _number("queue_id"),
    "queue_offset": _number("queue_offset"),
    "physical_offset": _number("physical_offset"),
    "offset_id": pa.string(),
    "unique_id": pa.string(),
    "tags": pa.string(),
    "keys": pa.list_(pa.field("element", pa.string())),
    "properties": pa.map_(pa.string(), pa.string()),
    "body": pa.binary(),
    "born_time": _TIME,
    "store_time": _TIME,
    "born_host": pa.string(),
    "store_host": pa.string(),
    "reconsume_times": _number("reconsume_times"),
    "sys_flag": _number("sys_flag"),
    "flag": _number("flag"),
    "body_crc": _number("body_crc"),
}

SIZE_MAX: Final = 2**31 - 1
"""The most bytes of a column of texts, whose offsets are int32."""

TIME_MAX_MS: Final = (2**63 - 1) // 1000
"""The latest time that Arrow can hold in µs; only damaged records have a later one."""


def gather(buffer: Buffer | Bytes, scan: Scan, rows: Longs, columns: Collection[str]) -> pa.RecordBatch:
    """Gather records into Arrow columns: see ``ops.Ops.arrow``."""
    data = np.frombuffer(buffer, np.uint8).data
    arrays = [
        pa.array([_value(data, scan, row, name) for row in rows.tolist()], TYPES[name]) for name in columns
    ]
    return pa.record_batch(arrays, schema=schema(columns))


def schema(columns: Collection[str]) -> pa.Schema:
    """Return the Arrow schema of ``columns``, in their order. Raises KeyError if there is no such column."""
    return pa.schema([pa.field(name, TYPES[name]) for name in columns])


def _value(data: memoryview, scan: Scan, row: int, column: str) -> Any:
    def part(name: str) -> memoryview:
        begin, length = (int(getattr(scan, f"{name}_{what}")[row]) for what in ("position", "length"))
        return data[begin : begin + length]

    match column:
        case "topic":
            return str(part("topic"), "utf-8", "replace")
        case "body":
            return part("body").tobytes()
        case "born_host" | "store_host":
            return host_text(part(column).tobytes())
        case "offset_id":
            return offset_message_id(part("store_host").tobytes(), int(scan.physical_offset[row]))
        case "unique_id" | "tags" | "keys" | "properties":
            return _from_properties(properties.decode(part("properties")), column)
        case "born_time" | "store_time":
            return max(-TIME_MAX_MS, min(int(getattr(scan, column)[row]), TIME_MAX_MS)) * 1000
        case _:
            return int(getattr(scan, column)[row])


def _from_properties(by_name: Mapping[str, str], column: str) -> Any:
    match column:
        case "unique_id":
            return by_name.get(properties.UNIQ_KEY)
        case "tags":
            return by_name.get(properties.TAGS)
        case "keys":
            return properties.split_keys(by_name.get(properties.KEYS, ""))
        case _:
            return list(by_name.items())
