import errno
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from cometmq.io.files import Disk, File
from cometmq.io.open_files import OpenFiles


def test_only_so_many_files_are_open_and_all_can_be_read(tmp_path: Path) -> None:
    files = OpenFiles(Disk(), writable=True, capacity=2)
    for name in "abc":
        files.create(tmp_path / name, 10).write(0, name.encode())
    assert [files.get(tmp_path / name).read(0, 1) for name in "abc"] == [b"a", b"b", b"c"]
    assert len(files._open) == 2
    files.close()
    assert not files._open


def test_the_file_used_least_recently_is_closed_first(tmp_path: Path) -> None:
    files = OpenFiles(Disk(), writable=True, capacity=2)
    first = files.create(tmp_path / "a", 1)
    files.create(tmp_path / "b", 1)
    assert files.get(tmp_path / "a") is first
    files.create(tmp_path / "c", 1)
    assert list(files._open) == [str(tmp_path / "a"), str(tmp_path / "c")]
    files.close()


def test_a_file_that_is_forgotten_is_opened_anew(tmp_path: Path) -> None:
    files = OpenFiles(Disk(), writable=True)
    first = files.create(tmp_path / "a", 1)
    files.forget(tmp_path / "a")
    assert files.get(tmp_path / "a") is not first
    files.close()


@pytest.fixture
def files(tmp_path: Path) -> Iterator[OpenFiles]:
    """Two files open at once, now ``b`` and ``a``; ``a`` holds the byte a, and so on."""
    files = OpenFiles(Disk(), writable=True, capacity=2)
    for name in "cba":
        files.create(tmp_path / name, 1).write(0, name.encode())
    yield files
    files.close()


def is_closed(file: File) -> bool:
    try:
        file.read(0, 1)
    except OSError as error:
        return error.errno == errno.EBADF
    return False


def test_a_held_file_stays_open_while_others_are_wanted_more(files: OpenFiles, tmp_path: Path) -> None:
    with files.held(tmp_path / "a") as file:
        b, c = (files.get(tmp_path / name) for name in "bc")
        assert files.get(tmp_path / "a") is file, "another of the same file would not know what this one does"
        assert is_closed(b)
        assert not is_closed(c)
    files.get(tmp_path / "b")
    assert not is_closed(file)
    files.get(tmp_path / "c")
    assert is_closed(file)


def test_who_asks_gets_an_open_file_though_all_others_are_held(files: OpenFiles, tmp_path: Path) -> None:
    with files.held(tmp_path / "a"), files.held(tmp_path / "b"):
        c = files.get(tmp_path / "c")
        assert c.read(0, 1) == b"c"


def test_a_held_file_can_be_read_after_it_was_forgotten_and_removed(files: OpenFiles, tmp_path: Path) -> None:
    with files.held(tmp_path / "a") as file:
        files.forget(tmp_path / "a")
        files.layer.remove(tmp_path / "a")
        assert file.read(0, 1) == b"a"
    assert is_closed(file)


def test_a_file_is_closed_with_the_last_of_its_holds(files: OpenFiles, tmp_path: Path) -> None:
    with files.held(tmp_path / "a") as file:
        with files.held(tmp_path / "a") as same:
            assert same is file
            files.forget(tmp_path / "a")
        assert file.read(0, 1) == b"a"
    assert is_closed(file)


def test_a_hold_does_not_close_what_nobody_wanted_closed(files: OpenFiles, tmp_path: Path) -> None:
    with files.held(tmp_path / "a") as file:
        pass
    assert files.get(tmp_path / "a") is file
    assert not is_closed(file)


def test_what_was_forgotten_is_opened_for_the_hold_alone(files: OpenFiles, tmp_path: Path) -> None:
    files.forget(tmp_path / "a")
    with files.held(tmp_path / "a") as file:
        assert file.read(0, 1) == b"a"
        assert str(tmp_path / "a") not in files._open
    assert is_closed(file)
    files.layer.remove(tmp_path / "a")
    with pytest.raises(FileNotFoundError), files.held(tmp_path / "a"):
        pass


def test_a_held_file_outlives_the_closing_of_all(files: OpenFiles, tmp_path: Path) -> None:
    with files.held(tmp_path / "a") as file:
        files.close()
        assert file.read(0, 1) == b"a"
    assert is_closed(file)


def test_a_file_made_anew_leaves_the_hold_on_the_old_one(files: OpenFiles, tmp_path: Path) -> None:
    with files.held(tmp_path / "a") as old:
        files.create(tmp_path / "a", 1).write(0, b"A")
        assert old.read(0, 1) == b"a"
        assert files.get(tmp_path / "a").read(0, 1) == b"A"
    assert is_closed(old)


def test_no_thread_reads_another_files_bytes_while_files_come_and_go(tmp_path: Path) -> None:
    files = OpenFiles(Disk(), writable=True, capacity=1)
    for name in "ab":
        files.create(tmp_path / name, 1).write(0, name.encode())
    stop = Event()

    def read(name: str) -> int:
        count = 0
        while not stop.is_set():
            with files.held(tmp_path / name) as file:
                assert file.read(0, 1) == name.encode()
            count += 1
        return count

    with ThreadPoolExecutor(2) as threads:
        readers = [threads.submit(read, name) for name in "ab"]
        for _ in range(1_000):
            for name in "ab":
                files.get(tmp_path / name)
                files.forget(tmp_path / name)
        stop.set()
        assert all(reader.result() for reader in readers)
    files.close()
    assert not files._holds
    assert not files._leaving


def test_what_nobody_has_looked_at_is_unmapped_and_the_rest_is_kept(files: OpenFiles, tmp_path: Path) -> None:
    size = 1 << 20
    for name in "xy":
        files.create(tmp_path / name, size).write(0, b"x" * size)
    for name in "xy":
        mapped = files.get(tmp_path / name).mapped()
        assert mapped is not None and mapped.ready(0, size) == b"x" * size
    files.unused_pages()()
    assert min(mapped_kib(tmp_path / name) for name in "xy") > 0
    mapped = files.get(tmp_path / "x").mapped()
    assert mapped is not None and mapped.ready(0, size) is not None
    files.unused_pages()()
    assert mapped_kib(tmp_path / "x") > 0 and mapped_kib(tmp_path / "y") == 0
    files.drop_pages()
    assert mapped_kib(tmp_path / "x") == 0


def mapped_kib(path: Path) -> int:
    """Return how many KiB of a file count as this process's memory."""
    _, _, entry = Path("/proc/self/smaps").read_text().partition(f" {path}\n")
    return int(entry.partition("Rss:")[2].split()[0])
