"""Messages come to Parquet once each, whatever is killed."""

import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.log_rows import plain_rows

from cometmq.errors import SettingsError
from cometmq.format import layout
from cometmq.io.files import Disk
from cometmq.spark.jobs.export import STATE, export
from cometmq.spark.jobs.paths import spark_path
from cometmq.spark.jobs.targets import LOCK

pytestmark = pytest.mark.timeout(600)  # Spark's start and first tasks, on a machine that is busy

SPLIT = 700_000


def offsets(spark: SparkSession, target: Path) -> list[int]:
    return sorted(row["physical_offset"] for row in spark.read.parquet(spark_path(target)).collect())


def test_runs_export_what_is_new_and_take_up_what_was_killed(
    spark: SparkSession, golden: Mapping[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, target = tmp_path / "store", tmp_path / "target"
    shutil.copytree(golden["store-clean"], store)
    second = layout.commitlog_path(store, 1 << 20)
    aside = second.rename(tmp_path / "second")
    rows = list(plain_rows(golden["store-clean"]))
    old = [row for row in rows if row["physical_offset"] < 1 << 20]
    first = export(spark, store, target, bytes_per_task=SPLIT)
    assert first.messages == Counter(row["topic"] for row in old)
    assert (first.begin, first.next) == (0, old[-1]["physical_offset"] + 1)
    files = sorted(target.glob("topic=*/day=*/*.parquet"))
    assert len(files) == len({(row["topic"], row["store_time"] // 86_400_000) for row in old})

    aside.rename(second)
    moved: list[Path] = []

    def dies(_: Disk, old: Path, new: Path) -> None:
        if moved and new.suffix == ".parquet":
            raise OSError("killed")
        old.replace(new)
        moved.extend([new] * (new.suffix == ".parquet"))

    with monkeypatch.context() as patched:
        patched.setattr(Disk, "rename", dies)
        with pytest.raises(OSError, match="killed"):
            export(spark, store, target, bytes_per_task=SPLIT)
    monkeypatch.setattr("cometmq.spark.jobs.export.records", None)  # nothing is read again
    resumed = export(spark, store, target, bytes_per_task=SPLIT)
    assert Counter(first.messages) + Counter(resumed.messages) == Counter(row["topic"] for row in rows)
    assert offsets(spark, target) == [row["physical_offset"] for row in rows]
    assert {path.name for path in (target / STATE).iterdir()} == {LOCK, "next.json"}


def test_a_run_without_new_messages_changes_nothing_and_a_loss_is_told(
    spark: SparkSession, golden: Mapping[str, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, target = tmp_path / "store", tmp_path / "a target 100%"
    shutil.copytree(golden["store-clean"], store)
    rows = [row for row in plain_rows(store) if row["topic"] == "GoldenB"]
    done = export(spark, store, target, topics=["GoldenB"], columns=["tags"], bytes_per_task=SPLIT)
    assert done.messages == {"GoldenB": len(rows)}
    found = spark.read.parquet(spark_path(target)).orderBy("physical_offset")
    assert found.columns == ["physical_offset", "tags", "store_time", "topic", "day"]
    assert [row["tags"] for row in found.collect()] == [row["tags"] for row in rows]
    layout.commitlog_path(store, 0).unlink()
    layout.commitlog_path(store, 1 << 20).rename(layout.commitlog_path(store, 3 << 20))
    again = export(spark, store, target, topics=["GoldenB"], columns=["tags"], bytes_per_task=SPLIT)
    assert (again.messages, again.begin, again.next) == ({}, done.next, done.next)
    assert again.missing == (3 << 20) - done.next
    assert "were removed before they were exported" in caplog.text
    with pytest.raises(SettingsError, match="there is no column tag, use some of"):
        export(spark, store, target, columns=["tag"])
