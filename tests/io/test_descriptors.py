"""Descriptors: who gets how many, and the spare ones."""

import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from cometmq.io import descriptors
from cometmq.io.descriptors import SpareDescriptors, SyncFailed, connections_max, files_max, is_scarce
from cometmq.io.files import Disk
from cometmq.io.open_files import OpenFiles


@pytest.fixture
def exhausted() -> Iterator[list[int]]:
    """A process that has no descriptor left; what it has taken."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    Disk().load(Path(__file__))
    descriptors.SPARES.refill()
    taken: list[int] = []
    used = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(used + 20, 64), limits[1]))
    try:
        while True:
            try:
                taken.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                break
        yield taken
    finally:
        for fd in taken:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        descriptors.SPARES.refill()


@pytest.mark.parametrize("limit", [64, 256, 1_024, 4_096, 65_536, 1 << 20])
def test_files_connections_and_a_reserve_share_the_descriptors(limit: int) -> None:
    files, connections = files_max(limit), connections_max(limit)
    assert connections >= descriptors.CONNECTIONS_MIN
    if limit >= 256:
        assert limit - files - connections >= descriptors.RESERVE_MIN


def test_small_files_are_saved_and_synced_without_a_descriptor_left(
    tmp_path: Path, exhausted: list[int]
) -> None:
    layer = Disk()
    for content in (b"1", b"2"):
        layer.save(tmp_path / "table.json", content)
    layer.sync_all([tmp_path / "table.json", tmp_path])
    layer.make_directory(tmp_path / "a" / "b")
    os.close(exhausted.pop())
    assert layer.load(tmp_path / "table.json") == b"2"


def test_a_file_that_is_needed_takes_the_place_of_the_one_used_longest_ago(
    tmp_path: Path, exhausted: list[int]
) -> None:
    files = OpenFiles(Disk(), writable=True)
    names = [f"{number}" for number in range(3 * descriptors.SPARE_COUNT)]
    for name in names:
        files.create(tmp_path / name, 1).write(0, b"x")
    assert [files.get(tmp_path / name).read(0, 1) for name in names] == [b"x"] * len(names)
    assert exhausted, "descriptors were to be scarce"
    files.close()


@pytest.mark.usefixtures("exhausted")
def test_spare_descriptors_are_kept_again_once_they_can_be_had() -> None:
    spares, path = descriptors.SPARES, Path(os.devnull)
    for _ in range(2):
        opened = [spares.open(path, os.O_RDONLY) for _ in range(descriptors.SPARE_COUNT)]
        with pytest.raises(OSError, match="Too many open files"):
            spares.open(path, os.O_RDONLY)
        for fd in opened:
            spares.close(fd)


def test_spare_descriptors_can_be_closed() -> None:
    before = len(os.listdir("/proc/self/fd"))
    spares = SpareDescriptors(3)
    spares.refill()
    assert len(os.listdir("/proc/self/fd")) == before + 3
    spares.close_all()
    assert len(os.listdir("/proc/self/fd")) == before


def test_only_what_did_not_begin_is_scarcity() -> None:
    assert all(is_scarce(OSError(number, "")) for number in (errno.EMFILE, errno.ENFILE, errno.ENOMEM))
    assert not is_scarce(OSError(errno.EIO, "")) and not is_scarce(OSError(errno.ENOSPC, ""))
    assert not is_scarce(SyncFailed(errno.ENOMEM, ""))


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
        assert descriptors.limit() == min(soft, 512)
        descriptors.raise_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
