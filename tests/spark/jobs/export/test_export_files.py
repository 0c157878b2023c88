"""Rows come to files by topic, day and GiB of the log, with what readers pass over them by."""

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cometmq.spark.jobs.export.export_files import (
    BY,
    FILE_BEGIN,
    ExportFiles,
    hive_name,
    hive_value,
    made_batch,
    stats,
)
from cometmq.spark.jobs.export.targets import TargetFile, target_of
from cometmq.spark.schema import arrow_schema

COLUMNS = ("physical_offset", "store_time", "properties")
GIB = 1 << 30
FIRST, SECOND = date(2026, 1, 31), date(2026, 2, 1)


def batches(*rows: tuple[str, date, int]) -> Iterator[pa.RecordBatch]:
    """Return rows of topic, day and physical offset as Spark sends them, two in a batch."""
    fields = [
        *arrow_schema(("topic", *COLUMNS)),
        pa.field(BY[1], pa.date32()),
        pa.field(FILE_BEGIN, pa.int64()),
    ]
    values = [
        {
            "topic": topic,
            "day": day,
            "physical_offset": offset,
            "store_time": datetime(day.year, day.month, day.day, 9, 0, 0, 1000, UTC),
            "properties": [("a", str(offset))],
            FILE_BEGIN: offset // GIB * GIB,
        }
        for topic, day, offset in rows
    ]
    batch = pa.RecordBatch.from_pylist(values, pa.schema(fields))
    return (batch.slice(begin, 2) for begin in range(0, batch.num_rows, 2))


def test_a_file_has_the_rows_of_a_topic_a_day_and_a_gib(tmp_path: Path) -> None:
    target = target_of(tmp_path, "_export")
    rows = [
        ("a", FIRST, 1),
        ("a", FIRST, 2),
        ("a", FIRST, 3),
        ("a", FIRST, GIB + 1),
        ("a", SECOND, GIB + 2),
        ("%b", FIRST, 7),
    ]
    with target.staging() as folder:
        made = list(ExportFiles(target, folder, arrow_schema(COLUMNS)).write(batches(*rows)))
    assert [(file.name, file.topic, file.day, file.messages) for file in made] == [
        (f"topic=a/day=2026-01-31/{0:020}.parquet", "a", "2026-01-31", 3),
        (f"topic=a/day=2026-01-31/{GIB:020}.parquet", "a", "2026-01-31", 1),
        (f"topic=a/day=2026-02-01/{GIB:020}.parquet", "a", "2026-02-01", 1),
        (f"topic=%25b/day=2026-01-31/{0:020}.parquet", "%b", "2026-01-31", 1),
    ]
    assert target.files() == sorted(TargetFile(file.name, file.bytes) for file in made)
    table = pq.read_table(tmp_path / made[0].name, partitioning=None)
    assert table.schema.equals(arrow_schema(COLUMNS))
    assert table["physical_offset"].to_pylist() == [1, 2, 3]
    assert table["properties"].to_pylist() == [[("a", str(offset))] for offset in (1, 2, 3)]
    found: dict[str, Any] = json.loads(made[0].stats)
    assert (found["numRecords"], found["minValues"]["physical_offset"]) == (3, 1)
    assert made_batch(made).to_pylist() == [file._asdict() for file in made]


def test_a_task_without_rows_makes_no_file(tmp_path: Path) -> None:
    target = target_of(tmp_path, "_export")
    assert list(ExportFiles(target, tmp_path, arrow_schema(COLUMNS)).write(batches())) == []
    assert made_batch([]).num_rows == 0


def test_bounds_are_those_of_all_row_groups(tmp_path: Path) -> None:
    times = [datetime(2026, 1, 31, 9, minute, 0, 1000 * minute, UTC) for minute in (5, 7)]
    table = pa.table({"physical_offset": [7, 3], "store_time": times}, arrow_schema(COLUMNS[:2]))
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=1)
    assert stats(tmp_path / "a.parquet") == {
        "numRecords": 2,
        "minValues": {"physical_offset": 3, "store_time": "2026-01-31T09:05:00.005+00:00"},
        "maxValues": {"physical_offset": 7, "store_time": "2026-01-31T09:07:00.007+00:00"},
        "nullCount": {"physical_offset": 0, "store_time": 0},
    }


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("orders", "orders"),
        ("%DLQ%a|b", "%25DLQ%25a|b"),
        ("a/b\\c=d\te", "a%2Fb%5Cc%3Dd%09e"),
        ("ü [x]*", "ü %5Bx%5D%2A"),
        ("", "__HIVE_DEFAULT_PARTITION__"),
    ],
)
def test_folders_are_named_as_spark_does(value: str, name: str) -> None:
    assert hive_name(value) == name and hive_value(name) == value
