import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from cometmq.errors import SettingsError
from cometmq.format import layout
from cometmq.format.record import encode_blank
from cometmq.spark.splits import LogFile, gaps, log_files, splits

MIB = 1 << 20


def log_file(base_offset: int, size: int) -> LogFile:
    return LogFile(Path(layout.offset_name(base_offset)), base_offset, size, size)


def test_store_folder_and_file_name_the_same_files(golden: Mapping[str, Path]) -> None:
    store = golden["store-clean"]
    files = log_files(store)
    assert [file.base_offset for file in files] == [0, MIB]
    assert log_files(store / "commitlog") == files
    assert log_files(files[1].path) == files[1:]


def test_a_full_file_ends_at_its_blank(golden: Mapping[str, Path]) -> None:
    first, second = log_files(golden["store-clean"])
    size = first.size - first.end
    assert first.path.read_bytes()[first.end : first.end + 8] == encode_blank(size)
    assert second.end <= second.size == MIB


def test_what_was_never_written_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / layout.offset_name(0)
    with path.open("wb") as file:
        os.truncate(file.fileno(), 64 * MIB)
        os.pwrite(file.fileno(), b"x" * 5000, MIB)
    (found,) = log_files(path)
    assert found.size == 64 * MIB
    assert MIB + 5000 <= found.end <= 2 * MIB


def test_an_empty_file_is_no_work(tmp_path: Path) -> None:
    (tmp_path / layout.offset_name(0)).touch()
    assert splits(log_files(tmp_path), 4096) == []


def test_a_store_without_files_is_an_empty_store(tmp_path: Path) -> None:
    layout.commitlog_dir(tmp_path).mkdir()
    assert log_files(tmp_path) == []


def test_a_folder_without_a_commitlog_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="holds no CommitLog: give a store directory"):
        log_files(tmp_path)


def test_a_path_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="gone does not exist: give a store directory"):
        log_files(tmp_path / "gone")


def test_a_file_of_another_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "copy.log"
    path.touch()
    with pytest.raises(SettingsError, match="rename it to the offset at which it began"):
        log_files(path)


def test_files_of_other_names_in_the_folder_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / layout.offset_name(0)).touch()
    (tmp_path / (layout.offset_name(1024) + ".tmp")).touch()
    assert [file.base_offset for file in log_files(tmp_path)] == [0]


@pytest.mark.parametrize("size", [1, 999, 1000, 1001, 3000, 10_000])
def test_splits_cover_each_byte_once_and_are_of_the_size_asked(size: int) -> None:
    files = [log_file(0, 1000), log_file(1000, 1000), log_file(2000, 1000)]
    made = splits(files, size)
    taken = [
        piece.file.base_offset + at
        for split in made
        for piece in split
        for at in range(piece.start, piece.end)
    ]
    assert taken == list(range(3000))
    assert {sum(piece.end - piece.start for piece in split) for split in made[:-1]} <= {size}


def test_only_files_with_records_after_them_must_be_whole() -> None:
    files = [log_file(0, 1000), log_file(1000, 1000), LogFile(Path("2000"), 2000, 1000, 0)]
    assert [[piece.more_follows for piece in split] for split in splits(files, 10_000)] == [[True, False]]


def test_missing_files_are_seen() -> None:
    assert gaps([log_file(0, 1000), log_file(1000, 1000)]) == []
    assert gaps([log_file(1000, 1000), log_file(3000, 1000)]) == [(2000, 3000)]
