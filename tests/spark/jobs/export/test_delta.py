"""A Delta table gets each message once, whatever is killed: as a reader finds it that is not Spark."""

import json
import shutil
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from fsspec import config
from pyspark.sql import SparkSession
from pyspark.sql.types import DateType
from tests.log_rows import plain_rows

from cometmq.errors import SettingsError, StoreLocked
from cometmq.format import layout
from cometmq.spark.jobs.export.delta import APPLICATION, Table, files_of, storage_options
from cometmq.spark.jobs.export.export import STATE, export
from cometmq.spark.jobs.export.export_files import BY, MadeFile
from cometmq.spark.jobs.export.targets import DELTA_LOG, target_of
from cometmq.spark.schema import spark_schema

pytestmark = pytest.mark.timeout(600)  # Spark's start and first tasks, on a machine that is busy

SPLIT = 700_000
FILE = 1 << 20
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def table_at(place: str) -> DeltaTable:
    """Open a table as anybody does who reads Delta."""
    return DeltaTable(place, storage_options=storage_options(place))


def rows_of(place: str) -> list[dict[str, Any]]:
    """Return the rows of a table in the order of the log, as ``plain_rows`` has them, and their day."""
    rows = pa.table(table_at(place).scan()).to_pylist()  # to_pyarrow_table may abort as Python ends
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
    spark: SparkSession,
    golden: Mapping[str, Path],
    tmp_path: Path,
    place: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = tmp_path / "store"
    shutil.copytree(golden["store-clean"], store)
    second = layout.commitlog_path(store, FILE)
    aside = second.rename(tmp_path / "second")
    rows = list(plain_rows(golden["store-clean"]))
    old = [row for row in rows if row["physical_offset"] < FILE]
    first = export(spark, store, place, broker="a", as_delta=True, bytes_per_task=SPLIT)
    assert first.messages == Counter(row["topic"] for row in old)
    assert rows_of(place) == with_day(old)
    table = table_at(place)
    assert table.transaction_version(APPLICATION) == first.next
    assert len(table.file_uris()) == len({(row["topic"], row["day"]) for row in with_day(old)})

    aside.rename(second)
    add = Table.add
    with monkeypatch.context() as patched:
        patched.setattr(Table, "add", killed)
        with pytest.raises(OSError, match="killed"):
            export(spark, store, place, broker="a", as_delta=True, bytes_per_task=SPLIT)
    assert rows_of(place) == with_day(old)  # the files that are there are nobody's yet

    def dies_after(*given: Any) -> None:
        add(*given)
        killed()

    with monkeypatch.context() as patched:
        patched.setattr(Table, "add", dies_after)
        with pytest.raises(OSError, match="killed"):
            export(spark, store, place, broker="a", as_delta=True, bytes_per_task=SPLIT)
    assert rows_of(place) == with_day(rows)

    table = table_at(place)
    assert table.optimize.compact()["numFilesRemoved"] > 0
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    last = export(spark, store, place, broker="a", as_delta=True, bytes_per_task=SPLIT)
    assert (last.messages, last.begin) == ({}, last.next)
    assert rows_of(place) == with_day(rows)
    with pytest.raises(SettingsError, match="is a Delta table"):
        export(spark, store, place)


def test_a_file_is_added_once_with_what_readers_pass_over_it_by(tmp_path: Path) -> None:
    columns = ("topic", "physical_offset", "store_time")
    target = target_of(tmp_path / "a b 100%", STATE)
    schema = spark_schema(columns).add("day", DateType())
    table, late = Table(target, schema), Table(target, schema)
    assert table.next_begin() == late.next_begin() == 0
    file = MadeFile(
        name="topic=%25DLQ%25a|b/day=2026-01-31/a.parquet",
        topic="%DLQ%a|b",
        day="2026-01-31",
        messages=1,
        bytes=1,
        modified_ms=0,
        stats=json.dumps(
            {"numRecords": 2, "minValues": {"physical_offset": 3}, "maxValues": {}, "nullCount": {}}
        ),
    )
    table.add([file], 77)
    assert Table(target, schema).next_begin() == 77
    (added,) = pa.table(table_at(target.address).get_add_actions(flatten=True)).to_pylist()
    assert (added["num_records"], added["partition.topic"]) == (2, "%DLQ%a|b")
    assert (added["partition.day"], added["min.physical_offset"]) == (date(2026, 1, 31), 3)
    assert files_of(target) == [file.name]
    with pytest.raises(StoreLocked, match="by another job meanwhile"):
        late.add([file], 78)


def test_options_are_those_of_fsspec_in_delta_s_words(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"endpoint_url": "http://127.0.0.1:9000", "key": "a", "secret": "b", "anon": False}
    monkeypatch.setitem(config.conf, "s3", known | {"client_kwargs": {"region_name": "eu-west-1"}})
    assert storage_options("s3a://lake/table") == {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9000",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_REGION": "eu-west-1",
    }
    assert storage_options("gs://lake/table") == storage_options("lake/table") == {}


def test_a_table_that_cannot_be_reached_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"^nothing://lake/table: "):
        Table(target_of("nothing://lake/table", STATE), spark_schema(["topic"]), ["topic"])


def test_a_target_of_another_kind_is_refused(
    spark: SparkSession, golden: Mapping[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = golden["store-clean"]
    Table(target_of(tmp_path / "few", STATE), spark_schema(["topic", "body"]), BY[:1])
    with pytest.raises(SettingsError, match=r"has no such column as .*physical_offset"):
        export(spark, store, tmp_path / "few", as_delta=True)
    (tmp_path / "parquet" / STATE).mkdir(parents=True)
    (tmp_path / "parquet" / STATE / f"{0:020}.done.json").write_text("{}")
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
