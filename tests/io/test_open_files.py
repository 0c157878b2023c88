from pathlib import Path

from cometmq.io.files import Disk
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
    assert list(files._open) == [tmp_path / "a", tmp_path / "c"]
    files.close()


def test_a_file_that_is_forgotten_is_opened_anew(tmp_path: Path) -> None:
    files = OpenFiles(Disk(), writable=True)
    first = files.create(tmp_path / "a", 1)
    files.forget(tmp_path / "a")
    assert files.get(tmp_path / "a") is not first
    files.close()
