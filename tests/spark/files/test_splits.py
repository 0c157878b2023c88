import os
import pickle
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.counted import CountedFiles

from cometmq.errors import SettingsError
from cometmq.format import layout
from cometmq.io.regular import NotRegularFile
from cometmq.spark.files.log_reader import LogReader
from cometmq.spark.files.remote import opened, path_of
from cometmq.spark.files.splits import LogFile, gaps, log_files, pieces_of, plain, splits
from cometmq.spark.options import BYTES_PER_PARTITION, ReadOptions
from cometmq.store import MessageStore

MIB = 1 << 20
GIB = 1 << 30
TEN_TIB_FILES = 10_240


def log_file(base_offset: int, size: int) -> LogFile:
    return LogFile(Path(layout.offset_name(base_offset)), base_offset, size, size)


def test_store_folder_and_file_name_the_same_files(golden: Mapping[str, Path]) -> None:
    store = golden["store-clean"]
    files = log_files(store)
    assert [file.base_offset for file in files] == [0, MIB]
    assert log_files(store / "commitlog") == files
    assert log_files(files[1].path) == files[1:]


def test_ten_tebibytes_are_planned_on_one_listing() -> None:
    names = [layout.offset_name(number * GIB) for number in range(TEN_TIB_FILES)]
    CountedFiles.start({f"lake/store/commitlog/{name}": GIB for name in names})
    begin = time.process_time()
    partitions = LogReader(ReadOptions((path_of("counted://lake/store"),)), ("topic",)).partitions()
    shipped = [len(pickle.dumps(partition)) for partition in partitions]  # as Spark does
    seconds = time.process_time() - begin
    assert len(partitions) == TEN_TIB_FILES * GIB // BYTES_PER_PARTITION
    assert dict(CountedFiles.requests) == {"list": 11} and not CountedFiles.fetched
    assert max(shipped) < 1_000  # a task gets its own pieces, and those of no other
    assert seconds < 5


def test_a_folder_is_listed_once() -> None:
    CountedFiles.start({"lake/commitlog/" + layout.offset_name(number): 1 for number in range(3)})
    assert len(log_files(path_of("counted://lake"))) == 3
    assert CountedFiles.requests.total() == 1
    CountedFiles.start(CountedFiles.files)
    assert len(log_files(path_of("counted://lake/commitlog"))) == 3
    assert CountedFiles.requests.total() == 2


def test_space_that_was_reserved_behind_the_log_is_no_work(tmp_path: Path) -> None:
    for number, data in enumerate((b"", b"x" * 5000, b"", b"")):
        with (tmp_path / layout.offset_name(number * 64 * MIB)).open("wb") as file:
            os.truncate(file.fileno(), 64 * MIB)
            os.pwrite(file.fileno(), data, MIB)
    first, second, *others = log_files(tmp_path)
    assert first.written == first.size == second.size == 64 * MIB  # of files before a task finds it out
    assert MIB + 5000 <= second.written <= 2 * MIB
    assert [file.written for file in others] == [0, 0]
    made = splits([first, second, *others], 1 << 40)
    assert [(piece.file, piece.more_follows) for piece in made[0]] == [(first, True), (second, False)]


def test_an_empty_file_is_no_work(tmp_path: Path) -> None:
    (tmp_path / layout.offset_name(0)).touch()
    assert splits(log_files(tmp_path), 4096) == []


def test_a_store_without_files_is_an_empty_store(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "new"):
        pass
    assert not layout.commitlog_dir(tmp_path / "new").exists()
    assert log_files(tmp_path / "new") == []
    layout.commitlog_dir(tmp_path).mkdir()
    assert log_files(tmp_path) == log_files(layout.commitlog_dir(tmp_path)) == []
    CountedFiles.start({"lake/store/checkpoint": 4096})
    assert log_files(path_of("counted://lake/store")) == []


def test_a_folder_without_a_commitlog_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="holds no CommitLog: give a store directory"):
        log_files(tmp_path)


def test_a_store_whose_log_is_elsewhere_is_refused_and_its_log_may_be_given(
    golden: Mapping[str, Path], tmp_path: Path
) -> None:
    store = shutil.copytree(golden["store-clean"], tmp_path / "store")
    expected = [file.base_offset for file in log_files(store)]
    (store / "commitlog").rename(tmp_path / "elsewhere")
    with pytest.raises(SettingsError, match=r"where is its log\?.*storePathCommitLog"):
        log_files(store)
    assert [file.base_offset for file in log_files(tmp_path / "elsewhere")] == expected


def test_a_path_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="gone does not exist: give a store directory"):
        log_files(tmp_path / "gone")


def test_a_file_of_another_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "copy.log"
    path.touch()
    with pytest.raises(SettingsError, match="rename it to the offset at which it began"):
        log_files(path)


def test_a_file_of_a_remote_store_may_be_given_alone() -> None:
    CountedFiles.start({f"lake/{layout.offset_name(7)}": 10, "lake/copy.log": 10})
    path = path_of(f"counted://lake/{layout.offset_name(7)}")
    assert log_files(path) == [LogFile(path, 7, 10, 10)]
    assert CountedFiles.requests.total() == 1
    with pytest.raises(SettingsError, match="rename it to the offset at which it began"):
        log_files(path_of("counted://lake/copy.log"))


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


@pytest.mark.parametrize("path", ["a b/store", "/a/s3:/store", "s3://lake/store", "hdfs:///store"])
def test_pieces_reach_a_task_as_they_were_planned(path: str) -> None:
    files = [LogFile(path_of(path) / layout.offset_name(base), base, 1000, 900) for base in (0, 1000)]
    for split in splits(files, 700):
        assert pieces_of(pickle.loads(pickle.dumps(plain(split)))) == split


def test_missing_files_are_seen() -> None:
    assert gaps([log_file(0, 1000), log_file(1000, 1000)]) == []
    assert gaps([log_file(1000, 1000), log_file(3000, 1000)]) == [(2000, 3000)]


@pytest.mark.parametrize("kind", ["a FIFO", "a directory", "a link to a character device"])
def test_what_has_the_name_of_a_file_and_is_none_is_named(tmp_path: Path, kind: str) -> None:
    (tmp_path / layout.offset_name(0)).write_bytes(b"x")
    path = tmp_path / layout.offset_name(1)
    if kind == "a FIFO":
        os.mkfifo(path)
    elif kind == "a directory":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(NotRegularFile, match=f"is {kind}, not a regular file"):
        log_files(tmp_path)
    if kind != "a directory":
        with pytest.raises(NotRegularFile):
            log_files(path)
    with pytest.raises(NotRegularFile):
        opened(path, 1, 1)


def test_a_remote_folder_with_the_name_of_a_file_is_named() -> None:
    CountedFiles.start({f"lake/commitlog/{layout.offset_name(0)}/x": 1})
    with pytest.raises(NotRegularFile, match="is a folder"):
        log_files(path_of("counted://lake"))


def test_links_to_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / layout.offset_name(0)).symlink_to("file")
    assert [file.size for file in log_files(tmp_path)] == [1]
