from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cometmq.format.checksum import Crc
from cometmq.format.host import pack_host
from cometmq.format.layout import commitlog_dir
from cometmq.format.record import Record, encode
from cometmq.kernels import plain
from cometmq.kernels.arrow.plain import TIME_MAX_MS, TYPES
from cometmq.kernels.ops import Ops

FULL = Record(
    topic="TopicA",
    body=b"a body",
    properties="UNIQ_KEY\1id\2TAGS\1t\2KEYS\1k1 k2\2имя\1значение\2".encode(),
    queue_id=3,
    queue_offset=4,
    physical_offset=0,
    flag=6,
    sys_flag=0,
    born_time=1_700_000_000_001,
    born_host=pack_host("::1", 8),
    store_time=1_700_000_000_002,
    store_host=pack_host("10.0.0.1", 10911),
    reconsume_times=12,
    body_crc=0xFEDCBA98,
)
BARE = FULL._replace(
    topic="主题", body=b"", properties=b"", born_host=FULL.store_host, store_host=FULL.born_host
)


def rows_of(ops: Ops, *records: Record, columns: list[str] | None = None) -> list[dict[str, Any]]:
    data = b""
    for record in records:
        data += encode(record._replace(physical_offset=len(data)))
    scan = ops.scan(data, base_offset=0, crc=Crc.NONE)
    batch = ops.arrow(data, scan, np.arange(scan.count), columns or list(TYPES))
    batch.validate(full=True)
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


def test_a_row_has_what_its_record_has(ops: Ops) -> None:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert rows_of(ops, FULL) == [
        {
            "topic": "TopicA",
            "queue_id": 3,
            "queue_offset": 4,
            "physical_offset": 0,
            "offset_id": "0A00000100002A9F0000000000000000",
            "unique_id": "id",
            "tags": "t",
            "keys": ["k1", "k2"],
            "properties": [("UNIQ_KEY", "id"), ("TAGS", "t"), ("KEYS", "k1 k2"), ("имя", "значение")],
            "body": b"a body",
            "born_time": epoch + timedelta(milliseconds=1_700_000_000_001),
            "store_time": epoch + timedelta(milliseconds=1_700_000_000_002),
            "born_host": "[::1]:8",
            "store_host": "10.0.0.1:10911",
            "reconsume_times": 12,
            "sys_flag": 0x10,
            "flag": 6,
            "body_crc": 0xFEDCBA98 - 2**32,
        }
    ]


def test_what_a_record_lacks_is_null_or_empty(ops: Ops) -> None:
    full, bare, _ = rows_of(ops, FULL, BARE, FULL)
    assert [bare[name] for name in ("unique_id", "tags", "keys", "properties", "body")] == [
        None,
        None,
        [],
        [],
        b"",
    ]
    assert bare["topic"] == "主题"
    assert bare["offset_id"].startswith("0" * 31 + "1" + "00000008")
    assert (bare["born_host"], bare["store_host"]) == (full["store_host"], full["born_host"])


def test_columns_are_those_asked_for_in_their_order(ops: Ops) -> None:
    assert [list(row) for row in rows_of(ops, FULL, columns=["tags", "body"])] == [["tags", "body"]]


def test_what_is_not_utf_8_is_replaced(ops: Ops) -> None:
    damaged = FULL._replace(
        topic="a\udcf0\udc9f\udc99", properties=b"TAGS\1\xf0\x9f\x99\2KEYS\1\xff \xe4\xb8a\2"
    )
    (row,) = rows_of(ops, damaged)
    assert (row["topic"], row["tags"], row["keys"]) == ("a\ufffd", "\ufffd", ["\ufffd", "\ufffda"])
    assert row["properties"] == [("TAGS", "\ufffd"), ("KEYS", "\ufffd \ufffda")]


def test_a_property_is_there_once_with_its_last_value(ops: Ops) -> None:
    same = "a\1x\2\ufffd\1replaced\2".encode() + b"\xff\1damaged\2" + b"a\1y\2"
    (row,) = rows_of(ops, FULL._replace(properties=same))
    assert row["properties"] == [("a", "y"), ("\ufffd", "damaged")]


def test_a_record_may_have_thousands_of_properties(ops: Ops) -> None:
    many = "".join(f"{number:x}\1v\2" for number in range(5000)).encode()
    row, after = rows_of(ops, FULL._replace(properties=many), FULL)
    assert row["properties"] == [(f"{number:x}", "v") for number in range(5000)]
    assert len(after["properties"]) == 4


@pytest.mark.parametrize("time", [2**63 - 1, -(2**63)])
def test_a_time_that_arrow_cannot_hold_becomes_the_nearest(ops: Ops, time: int) -> None:
    data = encode(FULL._replace(store_time=time))
    batch = ops.arrow(data, ops.scan(data, base_offset=0, crc=Crc.NONE), np.array([0]), ["store_time"])
    (found,) = np.asarray(batch.column(0)).astype(np.int64)
    assert found == (TIME_MAX_MS if time > 0 else -TIME_MAX_MS) * 1000


@pytest.mark.parametrize("column", TYPES)
def test_the_records_of_a_real_broker_give_the_same_columns(
    golden: Mapping[str, Path], compiled: Ops, column: str
) -> None:
    data = max(commitlog_dir(golden["store-clean"]).iterdir()).read_bytes()
    scan = compiled.scan(data, base_offset=1 << 20)
    rows = np.arange(scan.count)[::-3].copy()
    assert compiled.arrow(data, scan, rows, [column]).equals(plain.arrow(data, scan, rows, [column]))
