"""Waiting for the disk, also for many files in one go."""

import ctypes
import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cometmq.io import syncing
from cometmq.io.files import Disk
from cometmq.io.syncing import MANY_FILES

SyncFs = Callable[[int], int]


class Library:
    """A C library with a ``syncfs`` of a test's own, or without one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[Path] = []
        self.fails = False
        self._real = ctypes.CDLL(None, use_errno=True)
        monkeypatch.setattr(syncing, "_libc", self)

    def syncfs(self, fd: int) -> int:
        self.asked.append(Path(os.readlink(f"/proc/self/fd/{fd}")))
        if self.fails:
            ctypes.set_errno(errno.EIO)
            return -1
        return int(self._real.syncfs(fd))


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    return Library(monkeypatch)


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Provide what is synced one by one."""
    paths: list[Path] = []
    fdatasync = os.fdatasync

    def note(fd: int) -> None:
        paths.append(Path(os.readlink(f"/proc/self/fd/{fd}")))
        fdatasync(fd)

    monkeypatch.setattr(os, "fdatasync", note)
    return paths


def files(directory: Path, count: int) -> list[Path]:
    paths = [directory / f"{number:03}" for number in range(count)]
    for path in paths:
        path.write_bytes(b"written")
    return paths


def test_few_are_synced_one_by_one_and_those_that_are_gone_passed_over(
    tmp_path: Path, library: Library, synced: list[Path]
) -> None:
    paths = files(tmp_path, MANY_FILES - 2)
    paths[5].unlink()
    Disk().sync_all([*paths, tmp_path])
    assert synced == [*paths[:5], *paths[6:], tmp_path] and not library.asked


def test_many_are_synced_in_one_go_as_long_as_one_is_there(
    tmp_path: Path, library: Library, synced: list[Path]
) -> None:
    paths = files(tmp_path, MANY_FILES)
    paths[0].unlink()
    Disk().sync_all(path for path in paths)
    assert library.asked == [paths[1]] and not synced
    for path in paths[1:]:
        path.unlink()
    Disk().sync_all(paths)
    assert library.asked == [paths[1]]


def test_each_file_system_is_synced(tmp_path: Path, library: Library) -> None:
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is only one file system to write to")
    paths = files(tmp_path, MANY_FILES)
    Disk().sync_all([*paths, other])
    assert library.asked == [paths[0], other]


def test_what_fails_is_named(tmp_path: Path, library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = files(tmp_path, MANY_FILES)
    library.fails = True
    with pytest.raises(OSError, match="Input/output error") as failed:
        Disk().sync_all(paths)
    assert failed.value.filename == str(paths[0])

    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(OSError, match="Input/output error") as failed:
        Disk().sync_all(paths[:3])
    assert failed.value.filename == str(paths[0])


def test_a_system_that_cannot_sync_all_syncs_many_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synced: list[Path]
) -> None:
    monkeypatch.setattr(syncing, "_libc", object())
    paths = files(tmp_path, MANY_FILES)
    Disk().sync_all(paths)
    assert synced == paths
