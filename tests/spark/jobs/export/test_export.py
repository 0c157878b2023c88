"""Messages come to Parquet once each, whatever is killed, on disks and on S3."""

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from fsspec import filesystem
from pyspark.sql import SparkSession
from tests.log_rows import plain_rows

from cometmq.errors import SettingsError
from cometmq.format import layout
from cometmq.spark.files.remote import path_of, spark_path
from cometmq.spark.jobs.export import rounds
from cometmq.spark.jobs.export.archive import archive
from cometmq.spark.jobs.export.export import STATE, Exported, export
from cometmq.spark.jobs.export.filled import filled
from cometmq.spark.jobs.export.rounds import DoneRounds
from cometmq.spark.jobs.export.targets import LOCK, target_of

pytestmark = pytest.mark.timeout(600)  # Spark's start and first tasks, on a machine that is busy

SPLIT = 700_000
FILE = 1 << 20


def counted(spark: SparkSession, place: str) -> list[int]:
    """Return the offsets of what counts of a target, as jobs read it."""
    found = filled(spark, path_of(place), ("physical_offset",))
    assert found is not None
    return sorted(row["physical_offset"] for row in found.collect())


def lying(place: str) -> list[int]:
    """Return the offsets of all that lies in a target."""
    target = target_of(place, STATE)
    found: list[int] = []
    for file in target.files():
        with target.open(file.name) as opened:
            rows = pq.ParquetFile(opened).read(["physical_offset"]).to_pylist()
            found += [row["physical_offset"] for row in rows]
    return sorted(found)


def kill(*_: object) -> None:
    raise OSError("killed")


def test_what_was_begun_is_finished_as_it_was_planned_and_the_rest_follows(
    spark: SparkSession,
    golden: Mapping[str, Path],
    tmp_path: Path,
    place: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = tmp_path / "store"
    shutil.copytree(golden["store-clean"], store)
    aside = layout.commitlog_path(store, FILE).rename(tmp_path / "second")
    rows = list(plain_rows(golden["store-clean"]))
    old = [row for row in rows if row["physical_offset"] < FILE]
    with monkeypatch.context() as patched:
        patched.setattr(DoneRounds, "add", kill)
        with pytest.raises(OSError, match="killed"):
            export(spark, store, place, bytes_per_task=SPLIT)
    assert lying(place) == [row["physical_offset"] for row in old]
    aside.rename(layout.commitlog_path(store, FILE))
    done = export(spark, store, place, bytes_per_task=SPLIT * 2)
    assert done.messages == Counter(row["topic"] for row in rows)
    assert done.begin == 0 and rows[-1]["physical_offset"] < done.next <= 2 * FILE
    assert counted(spark, place) == lying(place) == [row["physical_offset"] for row in rows]
    files = [file.name for file in target_of(place, STATE).files()]
    parts = {(row["topic"], row["store_time"] // 86_400_000, row["physical_offset"] < FILE) for row in rows}
    assert len(files) == len(parts)  # of each of the two rounds one for each topic and day
    assert len([name for name in target_of(place, STATE).names(STATE) if name != LOCK]) == 1


def test_of_a_run_that_is_killed_the_rounds_that_are_over_count(
    spark: SparkSession, golden: Mapping[str, Path], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "UNIT_BYTES", 64 * 1024)
    offsets = [row["physical_offset"] for row in plain_rows(golden["store-clean"])]
    add, over = DoneRounds.add, list[Exported]()

    def add_one(known: DoneRounds[Exported], done: Exported) -> None:
        if over:
            kill()
        over.append(done)
        add(known, done)

    with monkeypatch.context() as patched:
        patched.setattr(DoneRounds, "add", add_one)
        with pytest.raises(OSError, match="killed"):
            export(spark, golden["store-clean"], place, bytes_per_task=SPLIT)
    end = 8 * 64 * 1024
    assert counted(spark, place) == [offset for offset in offsets if offset < end]
    assert lying(place) == [offset for offset in offsets if offset < 2 * end]
    resumed = export(spark, golden["store-clean"], place, bytes_per_task=SPLIT)
    assert counted(spark, place) == lying(place) == offsets
    assert resumed.begin == end and sum(resumed.messages.values()) == sum(offset >= end for offset in offsets)


def test_a_run_without_new_messages_changes_nothing_and_a_loss_is_told(
    spark: SparkSession, golden: Mapping[str, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, target = tmp_path / "store", tmp_path / "a target 100%"
    shutil.copytree(golden["store-clean"], store)
    rows = [row for row in plain_rows(store) if row["topic"] == "GoldenB"]
    done = export(spark, store, target, topics=["GoldenB"], columns=["Tags"], bytes_per_task=SPLIT)
    assert done.messages == {"GoldenB": len(rows)}
    found = spark.read.parquet(spark_path(target)).orderBy("physical_offset")
    assert found.columns == ["physical_offset", "tags", "store_time", "topic", "day"]
    assert [row["tags"] for row in found.collect()] == [row["tags"] for row in rows]
    assert found.where("day != date(store_time)").count() == 0
    layout.commitlog_path(store, 0).unlink()
    layout.commitlog_path(store, FILE).rename(layout.commitlog_path(store, 3 * FILE))
    again = export(spark, store, target, topics=["GoldenB"], columns=["tags"], bytes_per_task=SPLIT)
    assert (again.messages, again.begin, again.next) == ({}, done.next, done.next)
    assert again.missing == 3 * FILE - done.next
    assert "were removed before they were exported" in caplog.text
    with pytest.raises(SettingsError, match="there is no column tag, use some of"):
        export(spark, store, target, columns=["tag"])


@pytest.mark.parametrize("job", [export, archive])
@pytest.mark.parametrize(
    ("address", "error"),
    [
        ("nothing://lake/a", "Protocol not known: nothing"),
        ("gs://lake/a", "pip install gcsfs"),
        ("s3://no-such-bucket/a", "make the bucket"),
        ("s3://lake/file", "is a file: give a directory"),
        ("{tmp_path}/file", "is a file: give a directory"),
    ],
)
@pytest.mark.usefixtures("s3")
def test_what_cannot_be_filled_is_refused_before_the_first_task(
    job: Callable[..., object],
    address: str,
    error: str,
    golden: Mapping[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    monkeypatch.chdir(tmp_path)
    filesystem("s3").pipe_file("lake/file", b"data")
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match=error):
        job(None, golden["store-clean"], address.format(tmp_path=tmp_path))  # no session, so no task
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
