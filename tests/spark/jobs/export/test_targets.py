"""Files come to a target whole, under their final names: on a disk, on object stores, on what can rename."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fsspec import filesystem, register_implementation
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from cometmq.errors import SettingsError, StoreLocked
from cometmq.spark.jobs.export.targets import LOCK, JobTarget, TargetFile, target_of

STATE = "_job"


class Renaming(DirFileSystem):  # type: ignore[misc]  # fsspec has no types
    """A file system that can rename, as HDFS can, in a folder of this machine."""

    protocol = "renaming"
    root = ""

    def __init__(self, **_: Any) -> None:
        super().__init__(path=Renaming.root, fs=LocalFileSystem())


@pytest.fixture(params=["disk", "memory", "renaming"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[JobTarget]:
    """Return an empty target of each kind."""
    if request.param == "disk":
        yield target_of(tmp_path / "target", STATE)
        return
    register_implementation("renaming", Renaming, clobber=True)
    Renaming.root = str(tmp_path)
    Renaming.clear_instance_cache()
    yield target_of(f"{request.param}://lake/a target", STATE)
    if filesystem("memory").exists("/lake"):
        filesystem("memory").rm("/lake", recursive=True)


def test_a_file_comes_whole_and_is_read_back(target: JobTarget) -> None:
    target.check()
    assert (target.names("a"), target.files(), target.exists("a")) == ([], [], False)
    for data in (b"whole", b"whole"):  # a task that is repeated makes the same
        with target.held(), target.staging() as folder:
            (folder / "made").write_bytes(data)
            target.put(folder / "made", "a=%25b/c.parquet")
    assert target.exists("a=%25b/c.parquet") and target.exists("a=%25b")
    assert target.files() == target.files({"a=%25b", "b"}) == [TargetFile("a=%25b/c.parquet", 5)]
    assert target.files({"b"}) == target.files(()) == []
    assert (target.names(""), target.names("a=%25b")) == (
        [name for name in target.names("") if name == STATE] + ["a=%25b"],
        ["c.parquet"],
    )
    with target.open("a=%25b/c.parquet") as opened:
        assert opened.read() == b"whole"


def test_a_small_file_is_written_by_whom_comes_first(target: JobTarget) -> None:
    assert target.create(f"{STATE}/plan", b"first") and not target.create(f"{STATE}/plan", b"second")
    assert target.load(f"{STATE}/plan") == b"first"
    assert target.names(STATE) == ["plan"] and target.files() == []
    target.remove(f"{STATE}/plan")
    target.remove(f"{STATE}/plan")
    assert not target.exists(f"{STATE}/plan")
    with pytest.raises(FileNotFoundError):
        target.load(f"{STATE}/plan")


def test_what_fails_under_way_leaves_nothing(
    target: JobTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: Any, **__: Any) -> None:
        raise OSError("broken")

    for system, method in ((MemoryFileSystem, "put_file"), (DirFileSystem, "mv")):
        monkeypatch.setattr(system, method, breaks)
    monkeypatch.setattr("cometmq.io.files.os.replace", breaks)
    with target.held(), target.staging() as folder:
        (folder / "made").write_bytes(b"half")
        with pytest.raises(OSError, match="broken"):
            target.put(folder / "made", "log=1/1.parquet")
    assert target.files() == []
    assert not list(tmp_path.rglob("*parquet*"))


def test_one_job_at_a_time_holds_a_directory_of_a_disk(tmp_path: Path) -> None:
    target = target_of(tmp_path, STATE)
    for _ in range(2):
        (tmp_path / STATE / "attempts" / "of a killed task").mkdir(parents=True)
        with target.held():
            assert target.names(STATE) == [LOCK]
            with pytest.raises(StoreLocked, match="another job"), target.held():
                pass


@pytest.mark.parametrize(
    ("address", "error"),
    [
        ("nothing://a/b", r"^nothing://a/b: Protocol not known: nothing: give a local path, or s3://"),
        ("abfs://lake/b", r"^abfs://lake/b: Install adlfs .*: pip install adlfs$"),
        ("hdfs://name-node/b", r"^hdfs://name-node/b: .*: see that the client of hdfs is installed here$"),
        ("memory://lake/file", r"^memory://lake/file is a file: give a directory"),
        ("data://a/b", r"^data://a/b: data cannot be written to: Read only"),
    ],
)
def test_what_cannot_be_a_target_is_refused(
    address: str, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "adlfs", None)
    monkeypatch.setenv("JAVA_HOME", "nowhere")
    filesystem("memory").pipe_file("/lake/file", b"data")
    try:
        with pytest.raises(SettingsError, match=error):
            target_of(address, STATE).check()
    finally:
        filesystem("memory").rm("/lake", recursive=True)


def test_a_file_on_a_disk_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"data")
    with pytest.raises(SettingsError, match="file is a file: give a directory"):
        target_of(tmp_path / "file", STATE).check()


def test_a_bucket_that_is_not_there_is_refused(bucket: str) -> None:
    with pytest.raises(SettingsError, match=r"^s3://.*-not/target/_job/.*: make the bucket, or give another"):
        target_of(f"{bucket}-not/target", STATE).check()


def test_who_may_not_write_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError("only reading is allowed")

    monkeypatch.setattr(MemoryFileSystem, "pipe_file", refuse)
    with pytest.raises(
        SettingsError, match=r"^memory://lake/a/_job/.*: only reading is allowed: set credentials"
    ):
        target_of("memory://lake/a", STATE).check()
