"""Closed files come to the archive, each message once, whatever is killed, on disks and on S3."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.log_rows import plain_rows

from cometmq.errors import StoreLocked
from cometmq.format import layout
from cometmq.io.files import Disk
from cometmq.spark.files.splits import LogFile, log_files
from cometmq.spark.jobs.export import archive as module
from cometmq.spark.jobs.export.archive import STATE, Archived, archive, archive_end, closed, parts_of
from cometmq.spark.jobs.export.archive_view import with_files
from cometmq.spark.jobs.export.rounds import DoneRounds
from cometmq.spark.jobs.export.targets import LOCK, target_of

pytestmark = pytest.mark.timeout(600)  # Spark's start and first tasks, on a machine that is busy

SPLIT = 300_000
FILE = 1 << 20


@pytest.fixture
def store(golden: Mapping[str, Path], tmp_path: Path) -> Path:
    """Return a store with one closed file."""
    return Path(shutil.copytree(golden["store-clean"], tmp_path / "store"))


def test_what_is_archived_is_what_the_closed_files_hold_and_the_view_adds_the_rest(
    spark: SparkSession, store: Path, place: str
) -> None:
    rows = list(plain_rows(store))
    old = [row for row in rows if row["physical_offset"] < FILE]
    done = archive(spark, store, place, broker="a", bytes_per_task=SPLIT)
    assert done == Archived(files=1, messages=len(old), end=FILE)
    target = target_of(place, STATE)
    assert {file.name.partition("/")[0] for file in target.files()} == {f"log={0:020}"}
    assert len(target.files()) == 4 and set(target.names(STATE)) <= {LOCK, f"{0:020}.done.json"}
    end, queues = archive_end(target)
    assert end == FILE and queues == {
        (row["topic"], row["queue_id"]): row["queue_offset"] + 1
        for row in old
        if row["sys_flag"] & 0xC in (0, 8)
    }

    layout.commitlog_path(store, 0).unlink()  # as retention does
    columns = ["physical_offset", "topic", "body", "properties", "broker"]
    frame = with_files(spark, place, store, columns=columns)
    seen = {row["physical_offset"]: row for row in frame.collect()}
    assert frame.count() == len(seen) == len(rows)
    for row in rows:
        other = seen[row["physical_offset"]]
        assert (other["topic"], bytes(other["body"])) == (row["topic"], row["body"])
        assert other["properties"] == row["properties"]
        assert other["broker"] == (
            "a" if row["physical_offset"] < FILE else None
        )  # the store's files have none
    some = with_files(spark, place, store, topics=["GoldenB"], columns=["tags"])
    assert some.count() == sum(row["topic"] == "GoldenB" for row in rows)
    assert archive(spark, store, place, bytes_per_task=SPLIT) == Archived(files=0, messages=0, end=FILE)


def test_what_a_killed_run_has_made_counts_when_it_is_taken_up_and_is_not_made_again(
    spark: SparkSession, store: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(*_: object) -> None:
        raise OSError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(DoneRounds, "add", kill)
        with pytest.raises(OSError, match="killed"):
            archive(spark, store, place, broker="a", bytes_per_task=SPLIT)
    offsets = [row["physical_offset"] for row in plain_rows(store)]
    view = with_files(spark, place, store, columns=["physical_offset"])
    assert sorted(row["physical_offset"] for row in view.collect()) == offsets  # what was made does not count
    (file,) = closed(log_files(store))
    *made, left = parts_of(file, SPLIT)
    target = target_of(place, STATE)
    target.remove(left.name)
    with file.path.open("r+b") as opened:
        opened.write(bytes(left.begin))  # who reads the others again finds nothing
    done = archive(spark, store, place, broker="b", bytes_per_task=2 * SPLIT)
    assert done == Archived(files=1, messages=sum(offset < FILE for offset in offsets), end=FILE)
    view = with_files(spark, place, store, columns=["physical_offset", "broker"])
    found = view.where("broker is not null").collect()
    assert sorted(row["physical_offset"] for row in found) == [offset for offset in offsets if offset < FILE]
    assert {row["broker"] for row in found} == {"a"}  # as it was planned
    assert [file.name for file in target.files()] == [part.name for part in (*made, left)]


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
