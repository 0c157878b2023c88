"""A mapped file, and what is known of its pages."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cometmq.io.disk_file import CAREFUL_ROUNDS, CHUNK_PAGES, LOOK_PAGES, LOOKS, MappedFile, MappedPages
from cometmq.io.memory import PAGE_SIZE

CHUNKS = 4
PAGES = CHUNKS * CHUNK_PAGES
SIZE = PAGES * PAGE_SIZE - 100
CHUNK_KIB = CHUNK_PAGES * PAGE_SIZE // 1024


class Waits:
    """How often a reader waited for the disk."""

    count = 0

    def __call__(self) -> int:
        return self.count


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    """A file whose first pages have been written."""
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.ftruncate(fd, SIZE)
    os.pwrite(fd, b"written" * PAGE_SIZE, 0)
    yield fd
    os.close(fd)


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
def pages(waits: Waits) -> MappedPages:
    return MappedPages(CHUNKS, waits)


@pytest.fixture
def file(fd: int, pages: MappedPages) -> MappedFile:
    return MappedFile(fd, SIZE, pages)


@pytest.fixture
def full(fd: int, file: MappedFile) -> MappedFile:
    """The file, written to its end."""
    os.pwrite(fd, bytes(SIZE), 0)
    return file


def ask(file: MappedFile, *pages: int) -> None:
    """Ask for a byte of each of some pages."""
    for page in pages:
        assert file.ready(page * PAGE_SIZE, page * PAGE_SIZE + 1) is not None


def ask_often(file: MappedFile, chunk: int) -> None:
    """Ask about a chunk until all of it is asked about."""
    begin = chunk * CHUNK_PAGES
    ask(file, *range(begin, begin + LOOKS * LOOK_PAGES, LOOK_PAGES))


def known(file: MappedFile) -> list[int]:
    """Return of how many pages of each chunk it is known that they are in memory."""
    return [file.resident.count(1, at, at + CHUNK_PAGES) for at in range(0, PAGES, CHUNK_PAGES)]


def mapped_kib(path: Path) -> int:
    """Return how many KiB of a file count as this process's memory."""
    _, _, entry = Path("/proc/self/smaps").read_text().partition(f" {path}\n")
    return int(entry.partition("Rss:")[2].split()[0])


def let_cache_go(fd: int) -> None:
    os.fdatasync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def test_what_was_written_is_ready_and_holes_are_not(file: MappedFile) -> None:
    assert bytes(file.ready(7, 7 * PAGE_SIZE) or b"") == b"written" * (PAGE_SIZE - 1)
    assert file.ready(7 * PAGE_SIZE - 10, 7 * PAGE_SIZE + 1) is None
    assert file.ready(SIZE - 1, SIZE) is None
    assert file.resident.count(1) == 7


def test_what_is_written_later_gets_ready(fd: int, file: MappedFile) -> None:
    assert file.ready(SIZE - 3, SIZE) is None
    os.pwrite(fd, b"end", SIZE - 3)
    assert bytes(file.ready(SIZE - 3, SIZE) or b"") == b"end"
    os.pwrite(fd, b"END", SIZE - 3)
    assert bytes(file.ready(SIZE - 3, SIZE) or b"") == b"END"


def test_what_is_said_to_be_written_is_ready_until_the_next_round(fd: int, file: MappedFile) -> None:
    os.pwrite(fd, b"end", SIZE - 3)
    file.mark_written(SIZE - 3, SIZE)
    assert known(file) == [0, 0, 0, 1]
    file.next_round()()
    assert known(file) == [0, 0, 0, 0]
    file.mark_written(PAGE_SIZE - 1, 2 * PAGE_SIZE + 1)
    file.mark_written(SIZE - 1, SIZE + PAGE_SIZE)
    assert known(file) == [3, 0, 0, 1] and len(file.resident) == PAGES
    file.release()
    assert known(file) == [0, 0, 0, 0]


def test_nothing_behind_the_end_is_ready(fd: int, file: MappedFile) -> None:
    os.pwrite(fd, b"end", SIZE - 3)
    assert file.ready(SIZE - 3, SIZE) is not None
    for end in (SIZE + 1, SIZE + 100, SIZE + 101, SIZE + 10 * PAGE_SIZE):
        assert file.ready(SIZE - 3, end) is None
    assert file.ready(SIZE + 10 * PAGE_SIZE, SIZE + 10 * PAGE_SIZE + 1) is None


def test_what_is_let_go_is_asked_about_again(fd: int, file: MappedFile) -> None:
    assert file.ready(0, 7) is not None
    file.release()
    assert 1 not in file.resident
    let_cache_go(fd)
    assert file.ready(0, 7) is None
    assert os.pread(fd, 7, 0) == b"written"
    assert file.ready(0, 7) is not None


def test_a_chunk_that_is_asked_about_again_and_again_is_asked_about_whole(full: MappedFile) -> None:
    begin = CHUNK_PAGES
    for number in range(1, LOOKS):
        ask(full, begin + number * LOOK_PAGES)
        assert known(full) == [0, number * LOOK_PAGES, 0, 0]
    ask(full, begin)
    assert known(full) == [0, CHUNK_PAGES, 0, 0]


def test_a_stretch_over_chunks_is_asked_about_at_once(full: MappedFile) -> None:
    end = CHUNK_PAGES * PAGE_SIZE
    assert full.ready(end - 1, end + 1) is not None
    assert known(full) == [LOOK_PAGES, LOOK_PAGES, 0, 0]
    assert full.ready(end - LOOK_PAGES * PAGE_SIZE - 1, 2 * end + 1) is not None
    assert known(full) == [2 * LOOK_PAGES, CHUNK_PAGES, LOOK_PAGES, 0]


def test_answers_hold_for_a_round_and_are_asked_for_again_as_they_were(full: MappedFile) -> None:
    ask_often(full, 0)
    ask(full, 2 * CHUNK_PAGES)
    full.next_round()()
    assert known(full) == [0, 0, 0, 0]
    ask(full, 0, 2 * CHUNK_PAGES)
    assert known(full) == [CHUNK_PAGES, 0, LOOK_PAGES, 0]


def test_what_nobody_asks_about_in_a_round_is_unmapped(
    full: MappedFile, pages: MappedPages, tmp_path: Path
) -> None:
    for page in range(PAGES):
        assert full.view[page * PAGE_SIZE] == 0
    ask(full, 0, 2 * CHUNK_PAGES)
    full.next_round()()
    assert pages.count == 2 and 0 < mapped_kib(tmp_path / "file") <= 2 * CHUNK_KIB
    ask(full, 2 * CHUNK_PAGES)
    full.next_round()()
    assert pages.count == 1 and mapped_kib(tmp_path / "file") <= CHUNK_KIB
    full.next_round()()
    assert pages.count == 0 and mapped_kib(tmp_path / "file") == 0


def test_while_memory_is_short_no_chunk_is_asked_about_whole(full: MappedFile, waits: Waits) -> None:
    waits.count = 1
    ask_often(full, 0)
    assert known(full) == [LOOKS * LOOK_PAGES, 0, 0, 0]
    for _ in range(CAREFUL_ROUNDS - 1):
        full.next_round()()
        ask_often(full, 0)
        assert known(full) == [LOOKS * LOOK_PAGES, 0, 0, 0]
    full.next_round()()
    ask(full, 0)
    assert known(full) == [CHUNK_PAGES, 0, 0, 0]


def test_no_more_stays_mapped_than_may_be(full: MappedFile, pages: MappedPages) -> None:
    pages.most = 2
    kept = []
    for page in (0, CHUNK_PAGES, 1, 2 * CHUNK_PAGES, LOOK_PAGES, 3 * CHUNK_PAGES):
        ask(full, page)
        kept.append(known(full))
    some = LOOK_PAGES
    assert kept == [
        *([some, 0, 0, 0], [some, some, 0, 0], [some, some, 0, 0]),
        *([0, some, some, 0], [some, 0, some, 0], [some, 0, 0, some]),
    ]
    assert pages.count == 2


def test_files_share_what_may_be_mapped_but_each_has_a_chunk(
    full: MappedFile, fd: int, pages: MappedPages
) -> None:
    pages.most = 1
    other = MappedFile(fd, SIZE, pages)
    ask(full, 0)
    ask(other, 0, CHUNK_PAGES)
    assert (known(full), known(other)) == ([LOOK_PAGES, 0, 0, 0], [0, LOOK_PAGES, 0, 0])
    other.release()
    assert pages.count == 1
