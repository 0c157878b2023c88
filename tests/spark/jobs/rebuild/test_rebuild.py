"""A rebuild by many tasks makes the bytes that the one of a single machine makes."""

import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession
from tests.kit.stores import GOLDEN, contents
from tests.log_rows import plain_rows

from cometmq.errors import SettingsError, StoreLocked
from cometmq.format import layout
from cometmq.format.checkpoint import Checkpoint
from cometmq.io.disk_file import DiskFile
from cometmq.io.files import Disk
from cometmq.spark.files.remote import MappedWindow
from cometmq.spark.files.splits import log_files
from cometmq.spark.jobs.rebuild import rebuild as job
from cometmq.spark.jobs.rebuild.rebuild import rebuild
from cometmq.store import MessageStore
from cometmq.store.files.sizes import infer_settings
from cometmq.store.recovery.rebuild import BUILD_DIRECTORY
from cometmq.store.recovery.rebuild import rebuild as rebuild_alone

SPLIT = 400_000
DERIVED = ("consumequeue", "index")


pytestmark = pytest.mark.timeout(600)  # Spark's start and first tasks, on a machine that is busy


def copied(store: Path, place: Path) -> Path:
    return Path(shutil.copytree(store, place, ignore=shutil.ignore_patterns("timer*")))


def derived(store: Path) -> list[dict[str, bytes]]:
    return [contents(store / name) for name in DERIVED]


def test_a_damaged_store_comes_out_as_from_one_machine(
    spark: SparkSession, golden: Mapping[str, Path], tmp_path: Path
) -> None:
    alone, store = (copied(golden["store-clean"], tmp_path / name) for name in ("alone", "store"))
    for root in (alone, store):
        with layout.commitlog_path(root, 0).open("r+b") as file:
            file.seek(8_161 + 100)
            file.write(b"\xff\xfe")
    expected, steps = rebuild_alone(alone, GOLDEN), set[str]()
    rebuilt = rebuild(spark, store, GOLDEN, progress=lambda step, *_: steps.add(step), bytes_per_task=SPLIT)
    assert derived(store) == derived(alone)
    assert len(rebuilt.damages) == 1 and rebuilt.gaps
    damages = [damage._replace(path=Path(damage.path.name)) for damage in rebuilt.damages]
    assert damages == [damage._replace(path=Path(damage.path.name)) for damage in expected.damages]
    assert rebuilt[:4] == expected[:4]
    assert rebuilt.gaps == sorted(expected.gaps)
    assert rebuilt.peak_bytes > 1 << 20
    assert steps <= {"scan", "queues", "index"}
    assert not (store / BUILD_DIRECTORY).exists()


def test_light_queues_come_out_as_rocketmq_wrote_them(
    spark: SparkSession, golden: Mapping[str, Path], tmp_path: Path
) -> None:
    store = copied(golden["store-light"], tmp_path / "store")
    settings = infer_settings(Disk(), store)
    for name in DERIVED:
        shutil.rmtree(store / name)
    rebuilt = rebuild(spark, store, settings, bytes_per_task=10_000)
    assert (rebuilt.queues, rebuilt.gaps) == (8, [])
    assert contents(store / "consumequeue") == contents(golden["store-light"] / "consumequeue")


def test_of_a_damaged_log_the_driver_reads_a_record_and_nothing_counts_behind_its_end(
    spark: SparkSession, golden: Mapping[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, store = (copied(golden["store-killed"], tmp_path / name) for name in ("alone", "store"))
    rows = [row["physical_offset"] for row in plain_rows(store)]
    for root in (alone, store):
        layout.abort_path(root).write_text("1\nanother boot of the machine\n")
        for lost in (rows[100], rows[-100]):  # only the checkpoint's time tells damage from a torn tail
            start = max(file.base_offset for file in log_files(root) if file.base_offset <= lost)
            with layout.commitlog_path(root, start).open("r+b") as file:
                file.seek(lost - start)
                file.write(b"\xff" * 8)
        checkpoint = layout.checkpoint_path(root)
        times = Checkpoint.unpack(checkpoint.read_bytes())
        vouched = next(row["store_time"] for row in plain_rows(store) if row["physical_offset"] == rows[-200])
        checkpoint.write_bytes(times._replace(physic_msg_timestamp=vouched).pack_with_copy())
    expected, read = rebuild_alone(alone, GOLDEN), Counter[str]()

    def counted(kind: type, name: str) -> None:
        method = getattr(kind, name)

        def count(self: object, *where: int) -> Any:
            data = method(self, *where)
            read[str(getattr(self, "path", "commitlog"))] += len(data)
            return data

        monkeypatch.setattr(kind, name, count)

    for name in ("read", "view"):
        counted(DiskFile, name)
    counted(MappedWindow, "read")
    rebuilt = rebuild(spark, store, GOLDEN, bytes_per_task=SPLIT)
    assert sum(size for path, size in read.items() if "commitlog" in path) < 20_000
    assert derived(store) == derived(alone)
    assert len(rebuilt.damages) == len(expected.damages) == 1
    assert rebuilt[:4] == expected[:4] and rebuilt.messages < len(rows) - 100


def test_one_that_is_killed_goes_on_and_leaves_a_store_that_opens(
    spark: SparkSession, golden: Mapping[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = copied(golden["store-killed"], tmp_path / "store")
    for name in DERIVED:
        shutil.rmtree(store / name)
    layout.checkpoint_path(store).unlink()

    def dies(*_: object) -> None:
        raise OSError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(job, "swap_in", dies)
        with pytest.raises(OSError, match="killed"):
            rebuild(spark, store, GOLDEN, bytes_per_task=SPLIT)
    assert not (store / "consumequeue").exists()
    kept, lost, *_ = sorted((store / BUILD_DIRECTORY / "consumequeue").glob("*/*"))
    inode = kept.stat().st_ino
    shutil.rmtree(lost)
    monkeypatch.setattr(job, "splits", dies)  # nothing is scanned again
    rebuilt = rebuild(spark, store, GOLDEN, bytes_per_task=SPLIT)
    assert Path(store, "consumequeue", kept.parent.name, kept.name).stat().st_ino == inode
    made, expected = derived(store), derived(golden["store-killed"])
    assert made[0] == expected[0]
    assert [data for _, data in sorted(made[1].items())] == [data for _, data in sorted(expected[1].items())]
    assert rebuilt.queues == len(list((store / "consumequeue").glob("*/*")))
    with MessageStore.open(store, GOLDEN) as opened:
        topic, queue_id = kept.parent.name, int(kept.name)
        assert opened.max_queue_offset(topic, queue_id) > opened.min_queue_offset(topic, queue_id)


def test_a_log_in_other_directories_is_read_there(
    spark: SparkSession, golden: Mapping[str, Path], tmp_path: Path
) -> None:
    alone, store = (copied(golden["store-clean"], tmp_path / name) for name in ("alone", "store"))
    directories = [tmp_path / name for name in "ab"]
    for directory in directories:
        directory.mkdir()
    for number, path in enumerate(sorted((store / "commitlog").iterdir())):
        path.rename(directories[number % 2] / path.name)
    rebuild_alone(alone, GOLDEN)
    rebuild(spark, store, replace(GOLDEN, store_path_commit_log=",".join(map(str, directories))))
    assert derived(store) == derived(alone)


def test_a_store_in_use_is_left_alone(
    spark: SparkSession, golden: Mapping[str, Path], tmp_path: Path
) -> None:
    store = copied(golden["store-clean"], tmp_path / "store")
    token = Disk().lock(layout.lock_path(store))
    assert token is not None
    try:
        with pytest.raises(StoreLocked, match="open in another process"):
            rebuild(spark, store)
    finally:
        Disk().unlock(token)


def test_a_store_that_is_not_on_a_disk_is_refused(spark: SparkSession) -> None:
    with pytest.raises(
        SettingsError, match=r"^s3://lake/store: a rebuild writes into the store, which must be"
    ):
        rebuild(spark, "s3://lake/store")
