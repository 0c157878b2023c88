"""A log on disk: files of one length, one behind the other."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import StoreDamaged
from cometmq.format.layout import offset_name
from cometmq.io.open_files import OpenFiles
from cometmq.store.files.file_chain import FileChain
from cometmq.store.files.finding import Severity
from cometmq.testing.memory_disk import MemoryDisk

DIRECTORY = Path("/log")
SIZE = 10


def chain_on(disk: MemoryDisk) -> FileChain:
    return FileChain(OpenFiles(disk, writable=True), DIRECTORY, SIZE, "mappedFileSize")


def disk_with(files: dict[str, bytes]) -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_directory(DIRECTORY)
    for name, data in files.items():
        disk.put(DIRECTORY / name, data)
    return disk


@given(st.lists(st.tuples(st.integers(0, 45), st.binary(max_size=25)), max_size=8))
def test_reads_and_writes_as_one_piece_of_bytes(writes: list[tuple[int, bytes]]) -> None:
    disk = MemoryDisk()
    chain = chain_on(disk)
    model = bytearray()
    for offset, data in [(0, b"-"), *writes]:
        if offset > len(model):
            continue  # a log has no holes
        chain.write(offset, data)
        end = -(-(offset + len(data)) // SIZE) * SIZE if data else 0
        model += bytes(max(end - len(model), 0))
        model[offset : offset + len(data)] = data
    again = chain_on(disk)
    again.load()
    assert again.starts == chain.starts == list(range(0, len(model), SIZE))
    assert (again.first_offset, again.end_offset) == (0, len(model))
    assert again.read(0, 1_000) == bytes(model)
    assert again.read(7, 9) == bytes(model[7:16])
    for start in again.starts:
        assert disk.size(again.path(start)) == SIZE


def test_an_empty_chain_begins_where_it_is_first_written() -> None:
    chain = chain_on(MemoryDisk())
    assert (chain.first_offset, chain.end_offset, chain.start_of(0)) == (0, 0, None)
    chain.write(23, b"abc")
    assert (chain.starts, chain.first_offset) == ([20], 20)
    assert chain.read(20, 10) == b"\0\0\0abc\0\0\0\0"
    assert chain.read(0, 5) == b""


def test_an_offset_belongs_to_the_file_that_holds_it() -> None:
    chain = chain_on(disk_with({offset_name(20): bytes(SIZE), offset_name(30): bytes(SIZE)}))
    chain.load()
    places = {offset: chain.start_of(offset) for offset in (19, 20, 29, 30, 39, 40)}
    assert places == {19: None, 20: 20, 29: 20, 30: 30, 39: 30, 40: None}


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({offset_name(0): bytes(7)}, "has 7 bytes, expected 10; set mappedFileSize"),
        ({offset_name(0): b"", offset_name(10): bytes(SIZE)}, "has 0 bytes, expected 10"),
        ({offset_name(0): bytes(SIZE), offset_name(20): bytes(SIZE)}, "the file before it ends at 10"),
        ({offset_name(0): bytes(SIZE), offset_name(5): bytes(SIZE)}, "the file before it ends at 10"),
        ({"readme.txt": b"x"}, "20 decimal digits; move it out of the store"),
    ],
)
def test_what_cannot_be_a_chain_is_refused_with_file_and_remedy(files: dict[str, bytes], words: str) -> None:
    disk = disk_with(files)
    with pytest.raises(StoreDamaged, match=words) as refused:
        chain_on(disk).load()
    assert str(DIRECTORY) in str(refused.value)
    assert [finding.severity for finding in chain_on(disk).find_files()] == [Severity.DAMAGE]
    assert {path.name for path in disk._files} == files.keys(), "nothing was removed"


def test_what_a_crash_left_unfinished_is_removed_by_loading_and_told_by_looking() -> None:
    files = {
        offset_name(0): bytes(SIZE),
        offset_name(10): b"",
        offset_name(0) + ".tmp": bytes(3),
    }
    disk = disk_with(files)
    assert {finding.severity for finding in chain_on(disk).find_files()} >= {Severity.RECOVERY}
    assert len(disk._files) == 3
    chain = chain_on(disk_with({name: files[name] for name in (offset_name(0), offset_name(10))}))
    chain.load()
    assert chain.starts == [0]


def test_looking_takes_all_that_can_be_used() -> None:
    disk = disk_with(
        {offset_name(0): bytes(SIZE), offset_name(10): bytes(3), offset_name(20): bytes(SIZE), "x": b""}
    )
    chain = chain_on(disk)
    assert len(chain.find_files()) == 3
    assert chain.starts == [0, 20]
    assert chain.read(5, 100) == bytes(5)


def test_data_is_cleared_from_an_offset_on() -> None:
    chain = chain_on(MemoryDisk())
    chain.write(0, b"a" * 25)
    assert chain.clear_from(7) == 7
    assert chain.read(0, 30) == b"a" * 7 + bytes(23)
    assert chain.clear_from(7) == chain.end_offset == 30
    assert chain_on(MemoryDisk()).clear_from(0) == 0


def test_files_are_removed_from_an_offset_on_and_then_all() -> None:
    disk = MemoryDisk()
    chain = chain_on(disk)
    chain.write(0, bytes(35))
    chain.remove_from(15)
    assert chain.starts == [0, 10]
    chain.detach_before(10)  # they are to be removed, and it is not done yet
    chain.remove()
    assert chain.starts == []
    assert not disk.exists(DIRECTORY)


def test_files_from_the_front_are_taken_out_and_stay_on_the_disk() -> None:
    disk = MemoryDisk()
    chain = chain_on(disk)
    assert chain.detach_before(1_000) == []
    chain.write(0, bytes(35))
    before = chain.starts
    assert chain.detach_before(9) == []
    assert chain.detach_before(25) == [DIRECTORY / offset_name(0), DIRECTORY / offset_name(10)]
    assert (chain.starts, chain.first_offset, chain.start_of(15)) == ([20, 30], 20, None)
    assert before == [0, 10, 20, 30]  # what another thread may still look at does not change
    assert chain.detach_before(1_000) == [DIRECTORY / offset_name(20)]  # never the last one
    assert chain.starts == [30]
    assert len(disk.names(DIRECTORY)) == 4


def test_of_unsure_files_those_before_the_first_that_is_cut_or_missing_are_left() -> None:
    for files in (
        {offset_name(0): bytes(SIZE), offset_name(10): bytes(3), offset_name(20): bytes(SIZE)},
        {offset_name(0): bytes(SIZE), offset_name(20): bytes(SIZE)},
    ):
        disk = disk_with(files | {"notes": b"mine"})
        with pytest.raises(StoreDamaged, match="notes"):
            chain_on(disk).load(disk.remove)
        assert disk.names(DIRECTORY) == [offset_name(0), "notes"]
    disk = disk_with({offset_name(0): bytes(SIZE + 1), offset_name(SIZE + 1): bytes(SIZE + 1)})
    with pytest.raises(StoreDamaged, match="set "):
        chain_on(disk).load(disk.remove)
    assert len(disk.names(DIRECTORY)) == 2  # they are larger: the setting is wrong, not the files
