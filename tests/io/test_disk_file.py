"""A real file's space and windows."""

import errno
import mmap
import os
from pathlib import Path

import pytest

from cometmq.io.files import Disk, FileLayer
from cometmq.testing.memory_disk import MemoryDisk

SIZE = 1 << 20


@pytest.fixture(params=["disk", "memory"])
def layer(request: pytest.FixtureRequest, tmp_path: Path) -> FileLayer:
    if request.param == "disk":
        return Disk()
    disk = MemoryDisk()
    disk.make_directory(tmp_path)
    return disk


def test_what_is_reserved_takes_space_and_stays_as_it_is(tmp_path: Path) -> None:
    file = Disk().create(tmp_path / "a", SIZE)
    file.write(5_000, b"hello")
    file.reserve(0, 65_536)
    assert 65_536 <= (tmp_path / "a").stat().st_blocks * 512 < SIZE
    assert file.read(0, SIZE) == bytes(5_000) + b"hello" + bytes(SIZE - 5_005)
    file.close()


def test_what_was_just_written_is_known_to_be_in_memory_without_a_question(tmp_path: Path) -> None:
    file = Disk().create(tmp_path / "a", SIZE)
    file.write(0, b"before it is mapped")
    mapped = file.mapped()
    assert mapped is not None
    file.write(mmap.PAGESIZE + 7, bytes(mmap.PAGESIZE))
    assert bytes(mapped.resident[:4]) == b"\0\1\1\0"
    file.close()


def test_what_is_stored_in_a_window_is_seen_by_reads_and_views(layer: FileLayer, tmp_path: Path) -> None:
    file = layer.create(tmp_path / "a", SIZE)
    view = file.view()
    file.write(5_000, b"before")
    window = file.window(5_003, 100_000)
    window.store(5_006, memoryview(b"behind"))
    assert file.read(4_999, 14) == b"\0beforebehind\0"
    assert bytes(view[5_000:5_012]) == b"beforebehind"
    window.store(105_000, b"end")
    assert layer.open(tmp_path / "a", writable=False).read(105_000, 3) == b"end"
    window.close()
    view.release()
    file.close()


def test_a_window_outlives_its_file_and_lets_written_bytes_through(layer: FileLayer, tmp_path: Path) -> None:
    file = layer.create(tmp_path / "a", SIZE)
    window = file.window(0, SIZE)
    file.close()
    window.store(10, b"stored")
    layer.open(tmp_path / "a", writable=True).write(16, b"written")
    layer.sync(tmp_path / "a")
    assert layer.load(tmp_path / "a")[10:23] == b"storedwritten"
    window.lock()
    window.close()
    window.close()


def test_a_full_disk_refuses_to_reserve_and_to_open_a_window(tmp_path: Path) -> None:
    disk = MemoryDisk(space_bytes=65_536)
    disk.make_directory(tmp_path)
    file = disk.create(tmp_path / "a", SIZE)
    file.window(0, 65_536).store(60_000, b"fits")
    for refused in (file.reserve, file.window):
        with pytest.raises(OSError, match="No space left") as raised:
            refused(65_536, 4_096)
        assert raised.value.errno == errno.ENOSPC


def test_what_the_system_refuses_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    Disk().create(path, SIZE).close()
    file = Disk().open(path, writable=False)
    with pytest.raises(OSError, match="Bad file descriptor") as raised:
        file.window(8_192, 4_096)
    assert raised.value.filename == str(path)
    with pytest.raises(OSError, match="Bad file descriptor") as raised:
        file.write(0, b"data")
    assert raised.value.filename == str(path)
    file.close()


def test_a_closed_file_and_window_leave_no_descriptor(tmp_path: Path) -> None:
    file = Disk().create(tmp_path / "a", SIZE)
    before = len(os.listdir("/proc/self/fd"))
    window = file.window(0, 4_096)
    assert len(os.listdir("/proc/self/fd")) > before
    window.close()
    file.close()
    assert len(os.listdir("/proc/self/fd")) == before - 1
