"""A Delta table gets each message once, whatever is killed: as a reader finds it that is not Spark."""

import json
import shutil
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from tests.log_rows import plain_rows

from cometmq.errors import SettingsError, StoreLocked
from cometmq.format import layout
from cometmq.io.files import Disk
from cometmq.spark.jobs.delta import APPLICATION, Table
from cometmq.spark.jobs.export import BY, STATE, export
from cometmq.spark.jobs.paths import DELTA_LOG
from cometmq.spark.jobs.targets import LOCK
from cometmq.spark.schema import arrow_schema, spark_schema

pytestmark = pytest.mark.timeout(600)  # Spark's start and first tasks, on a machine that is busy

SPLIT = 700_000
FILE = 1 << 20
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rows_of(target: Path) -> list[dict[str, Any]]:
    """Give the rows of a table in the order of the log, as ``plain_rows`` has them, and their day."""
    rows = DeltaTable(target).to_pyarrow_table().to_pylist()
    for row in rows:
        row |= {
            name: (row[name] - EPOCH) // timedelta(milliseconds=1) for name in ("born_time", "store_time")
        }
        row["properties"] = dict(row["properties"])
    return sorted(rows, key=lambda row: int(row["physical_offset"]))


def with_day(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        row | {"broker": "a", "day": (EPOCH + timedelta(milliseconds=row["store_time"])).date()}
        for row in rows
    ]


def killed(*_: object) -> None:
    raise OSError("killed")


def test_runs_add_what_is_new_and_take_up_what_was_killed(
    spark: SparkSession, golden: Mapping[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, target = tmp_path / "store", tmp_path / "a target 100%"
    shutil.copytree(golden["store-clean"], store)
    second = layout.commitlog_path(store, FILE)
    aside = second.rename(tmp_path / "second")
    rows = list(plain_rows(golden["store-clean"]))
    old = [row for row in rows if row["physical_offset"] < FILE]
    first = export(spark, store, target, broker="a", as_delta=True, bytes_per_task=SPLIT)
    assert first.messages == Counter(row["topic"] for row in old)
    assert rows_of(target) == with_day(old)
    table = DeltaTable(target)
    assert table.transaction_version(APPLICATION) == first.next
    assert len(table.file_uris()) == len({(row["topic"], row["day"]) for row in with_day(old)})

    aside.rename(second)
    move = Disk.rename

    def dies(layer: Disk, old: Path, new: Path) -> None:
        if new.suffix == ".parquet" and list(target.glob(f"*/*/{first.next:020}-*")):
            killed()
        move(layer, old, new)

    with monkeypatch.context() as patched:
        patched.setattr(Disk, "rename", dies)
        with pytest.raises(OSError, match="killed"):
            export(spark, store, target, broker="a", as_delta=True, bytes_per_task=SPLIT)
    assert rows_of(target) == with_day(old)  # the files that were moved are nobody's yet
    with monkeypatch.context() as patched:
        patched.setattr("cometmq.spark.jobs.export.records", None)  # nothing is read again
        patched.setattr("cometmq.spark.jobs.export.remove_tree", killed)
        with pytest.raises(OSError, match="killed"):
            export(spark, store, target, broker="a", as_delta=True, bytes_per_task=SPLIT)
    assert rows_of(target) == with_day(rows)

    table = DeltaTable(target)
    assert table.optimize.compact()["numFilesRemoved"] > 0
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    last = export(spark, store, target, broker="a", as_delta=True, bytes_per_task=SPLIT)
    assert (last.messages, last.begin) == ({}, last.next)
    assert rows_of(target) == with_day(rows)
    assert [path.name for path in (target / STATE).iterdir()] == [LOCK]
    with pytest.raises(SettingsError, match="is a Delta table"):
        export(spark, store, target)


def test_a_file_is_added_once_with_what_readers_pass_over_it_by(tmp_path: Path) -> None:
    columns = ("topic", "physical_offset", "store_time")
    table, late = (Table(tmp_path, spark_schema(columns), ["topic"]) for _ in range(2))
    assert table.begin() == 0
    times = [datetime(2026, 1, 31, 9, minute, 0, 1000 * minute, UTC) for minute in (5, 7)]
    file = tmp_path / "topic=%25DLQ%25a|b" / "a.parquet"
    file.parent.mkdir()
    pq.write_table(
        pa.table({"physical_offset": [7, 3], "store_time": times}, arrow_schema(columns[1:])),
        file,
        row_group_size=1,
    )
    table.add(Disk(), [file], 77)
    assert Table(tmp_path, spark_schema(columns), ["topic"]).begin() == 77
    (added,) = pa.table(DeltaTable(tmp_path).get_add_actions(flatten=True)).to_pylist()
    assert (added["num_records"], added["partition.topic"]) == (2, "%DLQ%a|b")
    assert (added["min.physical_offset"], added["max.physical_offset"]) == (3, 7)
    assert [added["min.store_time"], added["max.store_time"]] == times
    assert DeltaTable(tmp_path).to_pyarrow_table()["topic"].to_pylist() == ["%DLQ%a|b"] * 2
    with pytest.raises(StoreLocked, match="by another job meanwhile"):
        late.add(Disk(), [file], 78)


def test_a_target_of_another_kind_is_refused(
    spark: SparkSession, golden: Mapping[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = golden["store-clean"]
    Table(tmp_path / "few", spark_schema(["topic", "body"]), BY[:1])
    with pytest.raises(SettingsError, match=r"has no such column as .*physical_offset"):
        export(spark, store, tmp_path / "few", as_delta=True)
    (tmp_path / "parquet" / STATE).mkdir(parents=True)
    (tmp_path / "parquet" / STATE / "next.json").write_text(json.dumps({"begin": 1}))
    with pytest.raises(SettingsError, match="filled with Parquet files"):
        export(spark, store, tmp_path / "parquet", as_delta=True)
    (tmp_path / "damaged" / DELTA_LOG).mkdir(parents=True)
    (tmp_path / "damaged" / DELTA_LOG / f"{0:020}.json").write_text("?")
    with pytest.raises(SettingsError, match="damaged: "):
        export(spark, store, tmp_path / "damaged", as_delta=True)
    monkeypatch.setattr("cometmq.extras.find_spec", lambda _: None)
    with pytest.raises(SettingsError, match=r"pip install 'cometmq\[delta\]'"):
        export(spark, store, tmp_path / "new", as_delta=True)
    assert not (tmp_path / "new").exists()
