"""Which writes fail, and until when."""

import errno
import os
from pathlib import Path

import pytest

from cometmq.io.clock import ManualClock
from cometmq.io.files import FileLayer
from cometmq.io.write_health import WriteHealth, failures_of, watched
from cometmq.testing.memory_disk import MemoryDisk

ROOT = Path("/disk/store")
TABLE = ROOT / "config" / "topics.json"
LOG = ROOT / "commitlog" / "00000000000000000000"


class Refusing(MemoryDisk):
    """A disk that has become read-only, for some paths."""

    def __init__(self) -> None:
        super().__init__()
        self.refused = ""

    def save(self, path: Path, data: bytes) -> None:
        self._check(path)
        super().save(path, data)

    def sync(self, path: Path) -> None:
        self._check(path)
        super().sync(path)

    def _check(self, path: Path) -> None:
        if self.refused and self.refused in str(path):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def layer_on(disk: MemoryDisk, clock: ManualClock) -> FileLayer:
    return watched(disk, WriteHealth(ROOT, clock))


def test_what_works_is_done_and_nothing_is_said(clock: ManualClock) -> None:
    disk = MemoryDisk()
    layer = layer_on(disk, clock)
    layer.make_directory(LOG.parent)
    layer.make_directory(TABLE.parent)
    file = layer.create(LOG, 100)
    file.write(3, b"abc")
    layer.save(TABLE, b"{}")
    layer.sync(LOG)
    assert (file.path, file.size, file.read(3, 3)) == (LOG, 100, b"abc")
    assert layer.load(TABLE) == b"{}" and layer.names(TABLE.parent) == ["topics.json"]
    assert layer.open(LOG, writable=True).read(3, 3) == b"abc"
    assert failures_of(layer) == [] and failures_of(disk) == []


def test_the_first_failure_is_told_with_its_place_and_until_a_write_there_works(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    disk = Refusing()
    layer = layer_on(disk, clock)
    layer.make_directory(TABLE.parent)
    disk.refused = "topics.json"
    for _ in range(3):
        with pytest.raises(OSError, match="Read-only"):
            layer.save(TABLE, b"{}")
        clock.advance(1_000)
    (failed,) = failures_of(layer)
    assert (failed.place, failed.action, failed.path, failed.times) == (
        "config/topics.json",
        "write",
        str(TABLE),
        3,
    )
    assert failed.since_ms == clock.now_ms() - 3_000
    assert str(failed) == (
        "write fails in config/topics.json since 2023-11-14 22:13:20+00:00, 3 times: "
        f"{TABLE}: Read-only file system"
    )
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    layer.save(TABLE.with_name("other.json"), b"{}")
    assert failures_of(layer) == [failed], "another table says nothing of this one"
    disk.refused = ""
    layer.save(TABLE, b"{}")
    assert failures_of(layer) == []


def test_a_files_own_writes_are_seen_and_a_sync_clears_no_write(clock: ManualClock) -> None:
    disk = MemoryDisk()
    layer = layer_on(disk, clock)
    layer.make_directory(LOG.parent)
    file = layer.create(LOG, 100)
    disk.space_bytes = 0
    with pytest.raises(OSError, match="No space"):
        file.write(50, b"x" * 50)
    layer.sync(LOG)
    (failed,) = failures_of(layer)
    assert (failed.place, failed.action, failed.why) == ("commitlog", "write", "No space left on device")
    disk.space_bytes = 1_000_000
    file.write(50, b"x" * 50)
    assert failures_of(layer) == []


def test_a_failed_sync_is_told_and_what_was_removed_is_no_failure(clock: ManualClock) -> None:
    disk = Refusing()
    layer = layer_on(disk, clock)
    layer.make_directory(LOG.parent)
    layer.create(LOG, 100)
    disk.refused = "commitlog"
    with pytest.raises(OSError, match="Read-only"):
        layer.sync(LOG)
    assert [(failed.place, failed.action) for failed in failures_of(layer)] == [("commitlog", "sync")]
    disk.refused = ""
    layer.sync(LOG)
    assert failures_of(layer) == []
    with pytest.raises(FileNotFoundError):
        layer.sync(ROOT / "commitlog" / "gone")
    assert failures_of(layer) == []


def test_syncs_of_many_files_at_once_show_what_fails_and_what_works_again(clock: ManualClock) -> None:
    disk = Refusing()
    layer = layer_on(disk, clock)
    queues = [ROOT / "consumequeue" / "T" / str(number) / LOG.name for number in range(2)]
    for path in [LOG, *queues]:
        layer.make_directory(path.parent)
        layer.create(path, 100)
    disk.refused = "T/1"
    with pytest.raises(OSError, match="Read-only"):
        layer.sync_all(path for path in queues)
    (failed,) = failures_of(layer)
    assert (failed.place, failed.action, failed.path) == ("consumequeue", "sync", str(queues[1]))
    disk.refused = ""
    layer.sync_all([LOG])
    assert failures_of(layer) == [failed], "that was another place"
    layer.sync_all(path for path in queues)
    assert failures_of(layer) == []


def test_a_layer_that_is_watched_is_not_watched_twice(clock: ManualClock) -> None:
    layer = layer_on(Refusing(), clock)
    assert watched(layer, WriteHealth(ROOT, clock)) is layer
