import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cometmq.io.files import Disk, FileLayer
from cometmq.testing.memory_disk import MemoryDisk


@pytest.fixture(params=["disk", "memory"])
def layer(request: pytest.FixtureRequest, tmp_path: Path) -> FileLayer:
    if request.param == "disk":
        return Disk()
    disk = MemoryDisk()
    disk.make_directory(tmp_path)
    return disk


def test_a_new_file_is_all_zeros_and_takes_no_space(tmp_path: Path) -> None:
    file = Disk().create(tmp_path / "a", 1 << 30)
    assert (file.size, file.read(12345, 4)) == (1 << 30, bytes(4))
    assert file.data_end(0) == 0
    assert (tmp_path / "a").stat().st_blocks < 100
    file.close()


def test_what_is_written_can_be_read_and_is_seen_by_a_view(layer: FileLayer, tmp_path: Path) -> None:
    file = layer.create(tmp_path / "a", 10_000)
    view = file.view()
    file.write(4_000, b"hello")
    assert file.read(3_999, 7) == b"\0hello\0"
    assert bytes(view[4_000:4_005]) == b"hello"
    assert 4_005 <= file.data_end(0) <= 8_192
    assert file.data_end(9_000) == 9_000
    view.release()
    file.close()


def test_reading_behind_the_end_gives_what_is_there(layer: FileLayer, tmp_path: Path) -> None:
    file = layer.create(tmp_path / "a", 10)
    assert file.read(8, 5) == bytes(2)
    file.close()


def test_save_replaces_the_content_whole(layer: FileLayer, tmp_path: Path) -> None:
    path = tmp_path / "table"
    layer.save(path, b"first, long")
    layer.save(path, b"second")
    assert layer.load(path) == b"second"
    assert layer.names(tmp_path) == ["table"]


def test_a_private_file_is_for_its_owner_only_from_the_first_byte(tmp_path: Path) -> None:
    path, left = tmp_path / "users", tmp_path / "users.tmp"
    left.write_bytes(b"of a crash")
    left.chmod(0o666)
    Disk().save(path, b"public")
    assert not left.exists()
    left.write_bytes(b"of another crash")
    left.chmod(0o666)
    Disk().save_private(path, b"private")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_bytes() == b"private" and not left.exists()
    path.chmod(0o644)
    Disk().make_private(path)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_private_file_of_memory_is_known_as_such(tmp_path: Path) -> None:
    disk = MemoryDisk()
    disk.make_directory(tmp_path)
    disk.save(tmp_path / "a", b"public")
    disk.save_private(tmp_path / "b", b"private")
    assert disk.private == {tmp_path / "b"} and disk.load(tmp_path / "b") == b"private"


def test_names_are_sorted_and_of_a_missing_directory_there_are_none(layer: FileLayer, tmp_path: Path) -> None:
    layer.make_directory(tmp_path / "b" / "c")
    layer.save(tmp_path / "a", b"")
    assert layer.names(tmp_path) == ["a", "b"]
    assert layer.names(tmp_path / "nowhere") == []
    assert layer.is_directory(tmp_path / "b" / "c") and not layer.is_directory(tmp_path / "a")


def test_removing_what_is_not_there_is_no_error(layer: FileLayer, tmp_path: Path) -> None:
    layer.remove(tmp_path / "nothing")
    layer.remove_directory(tmp_path / "nothing")


def test_directories_are_made_with_their_parents_but_not_where_a_file_is(tmp_path: Path) -> None:
    for _ in range(2):
        Disk().make_directory(tmp_path / "a" / "b" / "c")
        assert (tmp_path / "a" / "b" / "c").is_dir()
    Disk().make_directory(tmp_path / "a" / "d", durable=False)
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        Disk().make_directory(tmp_path / "file")
    with pytest.raises(NotADirectoryError):
        Disk().make_directory(tmp_path / "file" / "under")
    assert Disk().names(tmp_path / "a") == ["b", "d"]


def test_rename_moves_over_what_is_there(layer: FileLayer, tmp_path: Path) -> None:
    layer.save(tmp_path / "old", b"1")
    layer.save(tmp_path / "new", b"2")
    layer.rename(tmp_path / "old", tmp_path / "new")
    assert layer.load(tmp_path / "new") == b"1"
    assert not layer.exists(tmp_path / "old")


def test_what_cannot_be_made_leaves_no_temporary_file(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="directory"):
        Disk().create(tmp_path / "taken", 10)
    with pytest.raises(OSError, match="directory"):
        Disk().save(tmp_path / "taken", b"data")
    assert Disk().names(tmp_path) == ["taken"]


def test_it_tells_how_full_the_disk_is_and_when_a_file_was_written(tmp_path: Path) -> None:
    disk = Disk()
    disk.save(tmp_path / "file", b"data")
    os.utime(tmp_path / "file", ns=(0, 1_700_000_000_123_456_789))
    assert disk.modified_ms(tmp_path / "file") == 1_700_000_000_123
    used, usable = disk.usage(tmp_path)
    total = shutil.disk_usage(tmp_path).total
    assert 0 < used < total and 0 < usable < total and used + usable <= total


def test_what_was_just_written_is_ready_and_what_is_not_in_memory_is_not(tmp_path: Path) -> None:
    path = tmp_path / "file"
    file = Disk().create(path, 1 << 20)
    file.write(0, b"written" * 100_000)
    assert bytes(file.read_ready(7, 700) or b"") == b"written" * 100
    assert file.read_ready((1 << 20) - 3, 4) is None, "the end of the file"
    assert file.mapped() is not None
    assert bytes(file.read_ready(7, 700) or b"") == b"written" * 100
    assert file.read_ready((1 << 20) - 3, 4) is None, "the end of the file"
    other_file = Disk().open(path, writable=False)
    other_file._tells = False  # type: ignore[attr-defined]  # as on a file system that cannot
    assert bytes(other_file.read_ready(7, 700) or b"") == b"written" * 100
    other_file.close()
    file.drop_pages()
    with path.open("rb") as other:
        os.fdatasync(other.fileno())
        os.posix_fadvise(other.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    assert file.read_ready(0, 7) is None
    assert file.read(0, 7) == b"written"
    assert bytes(file.read_ready(0, 7) or b"") == b"written"
    file.close()


def test_a_lock_that_another_process_holds_is_refused(tmp_path: Path) -> None:
    token = Disk().lock(tmp_path / "lock")
    assert token is not None
    other = "import sys, pathlib as p, cometmq.io.files as f; print(f.Disk().lock(p.Path(sys.argv[1])))"
    result = subprocess.run(
        [sys.executable, "-c", other, tmp_path / "lock"], capture_output=True, text=True, check=True
    )
    assert result.stdout == "None\n"
    Disk().unlock(token)
    assert (tmp_path / "lock").read_bytes() == b"lock"


def test_a_lock_that_this_process_holds_is_refused_by_any_path_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    token = Disk().lock(path)
    assert token is not None
    (tmp_path / "other").symlink_to(tmp_path)
    assert Disk().lock(tmp_path / "other" / "lock") is None
    other = "import sys, pathlib as p, cometmq.io.files as f; print(f.Disk().lock(p.Path(sys.argv[1])))"
    result = subprocess.run([sys.executable, "-c", other, path], capture_output=True, text=True, check=True)
    assert result.stdout == "None\n"
    Disk().unlock(token)
    token = Disk().lock(path)
    assert token is not None
    Disk().unlock(token)


def test_the_holder_of_a_lock_is_told_without_taking_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert Disk().lock_holder(path) is None
    token = Disk().lock(path)
    assert token is not None
    script = (
        "import sys, pathlib, cometmq.io.files as f; print(f.Disk().lock_holder(pathlib.Path(sys.argv[1])))"
    )
    for _ in range(2):  # asking does not take it away
        seen = subprocess.run(
            [sys.executable, "-c", script, path], capture_output=True, text=True, check=True
        )
        assert int(seen.stdout) == os.getpid() == Disk().lock_holder(path)
    Disk().unlock(token)
    assert Disk().lock_holder(path) is None
