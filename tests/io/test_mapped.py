"""A mapped file, and what is known of its pages."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cometmq.io import mapped as mapped_module
from cometmq.io.mapped import LOOK_PAGES, MappedFile
from cometmq.io.memory import PAGE_SIZE

PAGES = 4 * LOOK_PAGES
SIZE = PAGES * PAGE_SIZE - 100


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    """A file whose first pages have been written."""
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.ftruncate(fd, SIZE)
    os.pwrite(fd, b"written" * PAGE_SIZE, 0)
    yield fd
    os.close(fd)


def let_cache_go(fd: int) -> None:
    os.fdatasync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def test_what_was_written_is_ready_and_holes_are_not(fd: int) -> None:
    file = MappedFile(fd, SIZE)
    assert bytes(file.ready(7, 7 * PAGE_SIZE) or b"") == b"written" * (PAGE_SIZE - 1)
    assert file.ready(7 * PAGE_SIZE - 10, 7 * PAGE_SIZE + 1) is None
    assert file.ready(SIZE - 1, SIZE) is None
    assert file.resident.count(1) == 7


def test_what_is_written_later_gets_ready(fd: int) -> None:
    file = MappedFile(fd, SIZE)
    assert file.ready(SIZE - 3, SIZE) is None
    os.pwrite(fd, b"end", SIZE - 3)
    assert bytes(file.ready(SIZE - 3, SIZE) or b"") == b"end"
    os.pwrite(fd, b"END", SIZE - 3)
    assert bytes(file.ready(SIZE - 3, SIZE) or b"") == b"END"


def test_nothing_behind_the_end_is_ready(fd: int) -> None:
    os.pwrite(fd, b"end", SIZE - 3)
    file = MappedFile(fd, SIZE)
    assert file.ready(SIZE - 3, SIZE) is not None
    for end in (SIZE + 1, SIZE + 100, SIZE + 101, SIZE + 10 * PAGE_SIZE):
        assert file.ready(SIZE - 3, end) is None
    assert file.ready(SIZE + 10 * PAGE_SIZE, SIZE + 10 * PAGE_SIZE + 1) is None


def test_what_is_let_go_is_asked_about_again(fd: int) -> None:
    file = MappedFile(fd, SIZE)
    assert file.ready(0, 7) is not None
    file.let_go()
    assert 1 not in file.resident
    let_cache_go(fd)
    assert file.ready(0, 7) is None
    assert os.pread(fd, 7, 0) == b"written"
    assert file.ready(0, 7) is not None


def test_not_much_stays_mapped(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped_module, "MAPPED_MAX_PAGES", 2 * LOOK_PAGES)
    os.pwrite(fd, bytes(SIZE), 0)
    file = MappedFile(fd, SIZE)
    kept = []
    for page in range(0, PAGES, LOOK_PAGES):
        assert file.ready(page * PAGE_SIZE, page * PAGE_SIZE + 1) is not None
        kept.append(file.resident.count(1) // LOOK_PAGES)
    assert kept == [1, 2, 1, 2]
