"""Views of sparse files of which only data is mapped."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.io import disk_file
from cometmq.io.files import Disk
from cometmq.io.memory import PAGE_SIZE
from cometmq.io.sparse_view import SparseView, holes_take_space, map_as_it_is

SHARED_MEMORY = Path("/dev/shm")
SIZE = 16 * PAGE_SIZE + 123


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path / "f", os.O_RDWR | os.O_CREAT)
    os.ftruncate(fd, SIZE)
    yield fd
    os.close(fd)


@given(
    st.lists(st.tuples(st.integers(0, SIZE - 1), st.binary(min_size=1, max_size=2 * PAGE_SIZE)), max_size=6)
)
def test_a_view_is_the_file_whenever_it_is_refreshed(
    tmp_path_factory: pytest.TempPathFactory, writes: list[tuple[int, bytes]]
) -> None:
    fd = os.open(tmp_path_factory.getbasetemp() / "sparse", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    os.ftruncate(fd, SIZE)
    sparse = SparseView(fd, SIZE)
    for position, data in writes:
        sparse.refresh()
        os.pwrite(fd, data[: SIZE - position], position)
    sparse.refresh()
    assert bytes(sparse.view) == os.pread(fd, SIZE, 0)
    sparse.release()
    assert bytes(sparse.view) == os.pread(fd, SIZE, 0)
    os.close(fd)


def test_a_view_outlives_its_descriptor_and_cannot_be_written(fd: int) -> None:
    os.pwrite(fd, b"abc", PAGE_SIZE)
    other = os.dup(fd)
    sparse = SparseView(other, SIZE)
    sparse.refresh()
    os.close(other)
    assert bytes(sparse.view[PAGE_SIZE - 1 : PAGE_SIZE + 4]) == b"\0abc\0"
    os.pwrite(fd, b"d", PAGE_SIZE + 3)
    assert sparse.view[PAGE_SIZE + 3] == ord("d"), "a page that had data shows what is written later"
    assert sparse.view.readonly


@pytest.mark.skipif(not SHARED_MEMORY.is_dir(), reason="there is no tmpfs")
def test_reading_the_holes_of_a_file_on_a_tmpfs_takes_no_space() -> None:
    path = SHARED_MEMORY / f"cometmq-test-{os.getpid()}"
    try:
        file = Disk().create(path, SIZE, durable=False)
        assert not any(file.view())
        file.write(3 * PAGE_SIZE + 1, b"x")
        assert bytes(file.view()) == file.read(0, SIZE)
        file.drop_pages()
        if unused := file.unused_pages():
            unused()
        assert path.stat().st_blocks * 512 == PAGE_SIZE
        fd = os.open(path, os.O_RDONLY)
        assert holes_take_space(fd)
        for begin in (0, 2 * PAGE_SIZE, 4 * PAGE_SIZE):
            assert bytes(map_as_it_is(fd, begin, SIZE)) == file.read(begin, SIZE - begin)
        os.close(fd)
        file.close()
        assert path.stat().st_blocks * 512 == PAGE_SIZE
    finally:
        path.unlink()


def test_a_file_is_viewed_by_parts_only_where_holes_take_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for answer in (True, False):
        monkeypatch.setattr(disk_file, "holes_take_space", lambda _, answer=answer: answer)
        file = Disk().create(tmp_path / str(answer), SIZE)
        file.write(5, b"five")
        assert bytes(file.view()[:10]) == b"\0" * 5 + b"five\0"
        file.write(2 * PAGE_SIZE, b"later")
        assert bytes(file.view()) == file.read(0, SIZE)
        file.close()
    assert bytes(Disk().create(tmp_path / "empty", 0).view()) == b""
