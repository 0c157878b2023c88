"""Closed files come to the archive whole, each message once, whatever is killed."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.log_rows import plain_rows

from cometmq.errors import StoreLocked
from cometmq.format import layout
from cometmq.io.files import Disk
from cometmq.spark.jobs import archive as module
from cometmq.spark.jobs.archive import STATE, Archived, archive, closed, notes, parts_of, write_part
from cometmq.spark.jobs.archive_view import with_files
from cometmq.spark.jobs.paths import spark_path
from cometmq.spark.jobs.targets import LOCK
from cometmq.spark.splits import LogFile, log_files

pytestmark = pytest.mark.timeout(600)  # Spark's start and first tasks, on a machine that is busy

SPLIT = 300_000
FILE = 1 << 20


@pytest.fixture
def store(golden: Mapping[str, Path], tmp_path: Path) -> Path:
    """Give a store with one closed file."""
    return Path(shutil.copytree(golden["store-clean"], tmp_path / "store"))


def test_what_is_archived_is_what_the_closed_files_hold_and_the_view_adds_the_rest(
    spark: SparkSession, store: Path, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    rows = list(plain_rows(store))
    old = [row for row in rows if row["physical_offset"] < FILE]
    done = archive(spark, store, target, broker="a", bytes_per_task=SPLIT)
    assert done == Archived(files=1, messages=len(old), end=FILE)
    assert [path.name for path in target.iterdir() if path.name != STATE] == [f"log={0:020}"]
    assert [path.name for path in (target / STATE).iterdir()] == [LOCK]
    found = notes(Disk(), target)
    assert len(found) == 4 and [note.end for note in found[:-1]] == [note.begin for note in found[1:]]
    ends = {(topic, queue_id): end for note in found for topic, queue_id, end in note.queues}
    assert ends == {
        (row["topic"], row["queue_id"]): row["queue_offset"] + 1
        for row in old
        if row["sys_flag"] & 0xC in (0, 8)
    }

    layout.commitlog_path(store, 0).unlink()  # as retention does
    frame = with_files(
        spark, target, store, columns=["physical_offset", "topic", "body", "properties", "broker"]
    )
    seen = {row["physical_offset"]: row for row in frame.collect()}
    assert frame.count() == len(seen) == len(rows)
    for row in rows:
        other = seen[row["physical_offset"]]
        assert (other["topic"], bytes(other["body"])) == (row["topic"], row["body"])
        assert other["properties"] == row["properties"]
        assert other["broker"] == (
            "a" if row["physical_offset"] < FILE else None
        )  # the store's files have none
    assert archive(spark, store, target, bytes_per_task=SPLIT) == Archived(files=0, messages=0, end=FILE)


def test_a_killed_run_leaves_nothing_to_readers_and_is_taken_up(
    spark: SparkSession, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "target"
    building = target / STATE / str(SPLIT)
    (file,) = closed(log_files(store))
    made, *_, left = parts_of(file, SPLIT)
    (building / layout.offset_name(0)).mkdir(parents=True)
    write_part(made, building)
    (building / "attempts" / "of a killed task").mkdir(parents=True)
    (target / STATE / "another cut").mkdir()
    before = {path.name: path.stat().st_ino for path in building.rglob("0*.parquet")}

    def dies(_: Disk, old: Path, new: Path) -> None:
        raise OSError(f"killed before {old} was {new}")

    with monkeypatch.context() as patched:  # tasks are in processes of their own
        patched.setattr(Disk, "rename", dies)
        with pytest.raises(OSError, match="killed"):
            archive(spark, store, target, bytes_per_task=SPLIT)
    assert [path.name for path in target.iterdir()] == [STATE]
    assert (building / layout.offset_name(0) / left.note).exists()
    monkeypatch.setattr(module, "kernels", None)  # nothing is left to be made
    done = archive(spark, store, target, bytes_per_task=SPLIT)
    rows = [row["physical_offset"] for row in plain_rows(store) if row["physical_offset"] < FILE]
    assert done.messages == len(rows)
    found = spark.read.parquet(spark_path(target / f"log={0:020}")).select("physical_offset").collect()
    assert sorted(row["physical_offset"] for row in found) == rows
    after = {path.name: path.stat().st_ino for path in target.rglob("0*.parquet")}
    assert before.items() <= after.items()


def test_files_without_messages_behind_them_are_not_closed(store: Path) -> None:
    files = log_files(store)
    assert closed(files) == files[:1]
    layout.commitlog_path(store, FILE).write_bytes(bytes(FILE))  # made ahead, and warmed
    assert closed(log_files(store)) == []
    assert closed([]) == []


def test_what_was_removed_before_is_told() -> None:
    first, third = (LogFile(Path(layout.offset_name(base)), base, 10, 10) for base in (0, 20))
    assert module._missing(None, [first, third]) == 10
    assert module._missing(5, [third]) == 15
    assert module._missing(None, [third]) == 0  # what was before the first run is none of it


def test_one_job_at_a_time_fills_a_target(spark: SparkSession, store: Path, tmp_path: Path) -> None:
    layer, state = Disk(), tmp_path / "target" / STATE
    state.mkdir(parents=True)
    token = layer.lock(state / LOCK)
    assert token is not None
    with pytest.raises(StoreLocked, match="another job"):
        archive(spark, store, tmp_path / "target")
    layer.unlock(token)
