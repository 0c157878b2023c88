"""The Index: keys to offsets, over files that fill up; beside a list of all that was inserted."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.store.conftest import ROOT

from cometmq.format import layout
from cometmq.format.index import ENTRY_SIZE, FIRST_ENTRY, HEADER_SIZE, SLOT_SIZE, IndexHeader, entry_position
from cometmq.format.java.java_hash import index_key_hash
from cometmq.io.open_files import OpenFiles
from cometmq.kernels.arrays import PAGE_SIZE
from cometmq.store.index.index import TAIL_MAX, Index
from cometmq.store.reading import run
from cometmq.testing.memory_disk import MemoryDisk

SLOTS, ROOM = 7, 12
BEGIN_MS = 1_700_000_000_000
KEYS = [f"k{n}" for n in range(9)]
EVER = 2**63 - 1


def index_on(disk: MemoryDisk, slots: int = SLOTS, room: int = ROOM) -> Index:
    return Index(OpenFiles(disk, writable=True), ROOT, slots, room)


def store_time(offset: int) -> int:
    """When the record at an offset was stored: one each second."""
    return BEGIN_MS + offset * 10


def insert(index: Index, keys: Sequence[tuple[int, str]]) -> None:
    """Insert keys of records, given by their offsets."""
    index.insert(
        np.array([index_key_hash("T", key) for _, key in keys], np.int32),
        np.array([offset for offset, _ in keys], np.int64),
        np.array([store_time(offset) for offset, _ in keys], np.int64),
    )


def find(index: Index, key: str, begin: int = 0, end: int = EVER, count: int = 1_000) -> list[int]:
    return run(index.find("T", key, begin_time=begin, end_time=end, max_count=count))


class Keys(RuleBasedStateMachine):
    """An index beside a list: inserted into, written back in one go or in parts, closed, killed and cut."""

    @initialize(
        tail_max=st.sampled_from([ENTRY_SIZE, 5 * ENTRY_SIZE, TAIL_MAX]),
        sizes=st.sampled_from([(SLOTS, ROOM), (4 * PAGE_SIZE // SLOT_SIZE, 50)]),
    )
    def begin(self, tail_max: int, sizes: tuple[int, int]) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr("cometmq.store.index.index.TAIL_MAX", tail_max)
        self.patch.setattr("cometmq.store.index.index.PART_SIZE", PAGE_SIZE)
        self.sizes = sizes
        self.disk = MemoryDisk()
        self.index = index_on(self.disk, *sizes)
        self.model: list[tuple[int, str]] = []
        self.offset = 0
        self.first_part_end: int | None = None  # where the index ended as the first of some parts was written
        self.written_end = -1  # a killed process leaves the index up to there

    @rule(records=st.lists(st.lists(st.sampled_from(KEYS), max_size=4), min_size=1, max_size=6))
    def insert(self, records: list[list[str]]) -> None:
        new = []
        for keys in records:
            new += [(self.offset, key) for key in keys]
            self.offset += 100
        insert(self.index, new)
        self.model += new

    @rule(back=st.integers(0, 20))
    def insert_again(self, back: int) -> None:
        """What is there is passed over, as recovery needs it."""
        first = self.model[-back][0] if 0 < back <= len(self.model) else self.offset
        insert(self.index, [key for key in self.model if key[0] >= first])

    @rule()
    def write_back(self) -> None:
        self.index.write_back()
        self.first_part_end, self.written_end = None, self.index.end_offset

    @rule()
    def write_part(self) -> None:
        if self.first_part_end is None:
            self.first_part_end = self.index.end_offset
        if self.index.write_part():
            self.written_end, self.first_part_end = self.first_part_end, None

    @rule()
    def close_and_open(self) -> None:
        self.write_back()
        self.index = index_on(self.disk, *self.sizes)
        self.index.load()

    @rule()
    def kill_and_recover(self) -> None:
        self.disk = self.disk.after_kill()
        self.index = index_on(self.disk, *self.sizes)
        self.index.load()
        self.index.cut(self.offset, store_time)
        self.first_part_end = None
        assert self.index.end_offset >= self.written_end
        insert(self.index, [key for key in self.model if key[0] >= self.index.end_offset])

    @rule(data=st.data())
    def cut(self, data: st.DataObject) -> None:
        end = data.draw(st.integers(0, self.offset // 100)) * 100
        self.index.write_back()
        self.index.cut(end, store_time)
        self.write_back()
        self.model = [key for key in self.model if key[0] < end]
        self.offset = end

    def teardown(self) -> None:
        self.patch.undo()

    @invariant()
    def finds_what_the_list_has(self) -> None:
        for key in KEYS:
            assert find(self.index, key) == [offset for offset, other in self.model if other == key]
        assert self.index.end_offset == (self.model[-1][0] if self.model else -1)
        if self.model:
            assert self.index.last_update == (store_time(self.model[-1][0]), self.model[-1][0])


Keys.TestCase.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
TestKeys = Keys.TestCase


@given(st.integers(0, 1_200), st.integers(0, 1_200))
def test_only_what_was_stored_in_the_time_is_found(first: int, last: int) -> None:
    """The index knows times to the second, these records are a second apart.

    In one file: the time of a file's first entry counts from the end of the file before it, as in RocketMQ.
    """
    index = index_on(MemoryDisk())
    insert(index, [(offset, "k") for offset in range(0, 1_100, 100)])
    begin, end = BEGIN_MS + first * 10, BEGIN_MS + last * 10
    found = find(index, "k", begin, end)
    assert found == [offset for offset in range(0, 1_100, 100) if begin <= store_time(offset) <= end]


def test_the_newest_are_found_first_if_not_all_are_wanted() -> None:
    index = index_on(MemoryDisk())
    insert(index, [(offset, "k") for offset in range(0, 4_000, 100)])
    assert find(index, "k", count=3) == [3_700, 3_800, 3_900]
    assert find(index, "k", count=15) == list(range(2_500, 4_000, 100))


def test_a_damaged_file_is_set_aside_with_those_behind_it() -> None:
    disk = MemoryDisk()
    index = index_on(disk)
    insert(index, [(offset, "k") for offset in range(0, 3_000, 100)])
    index.write_back()
    first, second, third = index.paths()
    disk.put(second, disk.load(second)[:-1])
    again = index_on(disk)
    again.load()
    assert (again.paths(), again.is_whole) == ([first], False)
    assert sorted(name for name in disk.names(ROOT) if name.endswith(".damaged")) == [
        f"{second.name}.damaged",
        f"{third.name}.damaged",
    ]
    insert(again, [(offset, "k") for offset in range(0, 3_000, 100)])
    assert find(again, "k") == list(range(0, 3_000, 100))


def test_files_that_begin_in_the_same_millisecond_have_names_of_their_own() -> None:
    disk = MemoryDisk()
    index = index_on(disk)
    insert(index, [(0, key) for key in KEYS * 5])
    names = [path.name for path in index.paths()]
    assert len(set(names)) == len(names) == 5
    assert names[0] == layout.index_name(BEGIN_MS)
    assert find(index, "k3") == [0] * 5


def test_a_disk_that_is_full_keeps_what_is_in_memory() -> None:
    disk = MemoryDisk()
    index = index_on(disk)
    insert(index, [(0, "k")])
    disk.space_bytes = 0
    with pytest.raises(OSError, match="No space left"):
        index.write_back()
    assert find(index, "k") == [0]
    disk.space_bytes = 2**30
    index.write_back()
    again = index_on(disk)
    again.load()
    assert find(again, "k") == [0]


def test_a_file_is_written_in_parts_and_is_whole_with_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cometmq.store.index.index.PART_SIZE", PAGE_SIZE)
    disk = MemoryDisk()
    index = index_on(disk, 3 * PAGE_SIZE // SLOT_SIZE, 10_000)
    assert index.write_part()
    insert(index, [(offset, f"k{offset}") for offset in range(0, 50_000, 100)])
    for _ in range(3):
        assert not index.write_part()
        insert(index, [(50_000, "k")])  # keeps nobody from coming to an end
        assert IndexHeader.unpack(disk.load(index.paths()[0])[:HEADER_SIZE]).next_entry <= 1
    assert index.write_part()
    assert IndexHeader.unpack(disk.load(index.paths()[0])[:HEADER_SIZE]).end_physical_offset == 49_900
    assert index.take_unsynced() == index.paths()
    while not index.write_part():
        pass
    again = index_on(disk, 3 * PAGE_SIZE // SLOT_SIZE, 10_000)
    again.load()
    assert again.end_offset == 50_000
    assert all(find(again, f"k{offset}") == [offset] for offset in range(0, 50_000, 100))


def test_what_was_written_must_be_synced_once() -> None:
    index = index_on(MemoryDisk())
    insert(index, [(offset, "k") for offset in range(0, 1_500, 100)])
    index.write_back()
    assert index.take_unsynced() == sorted(index.paths())
    assert index.take_unsynced() == []
    insert(index, [(1_500, "k")])
    index.write_back()
    assert index.take_unsynced() == index.paths()[-1:]


def test_files_of_expired_records_are_taken_out_but_never_the_newest() -> None:
    disk = MemoryDisk()
    index = index_on(disk)
    assert index.take_expired(EVER) == []
    insert(index, [(100 * n, "k1") for n in range(3 * (ROOM - 1) + 2)])
    index.write_back()
    names = [path.name for path in index.paths()]
    last_of_first = 100 * (ROOM - 2)
    assert len(names) == 4
    assert index.take_expired(last_of_first) == []
    assert [path.name for path in index.take_expired(last_of_first + 1)] == names[:1]
    assert find(index, "k1")[0] == last_of_first + 100
    assert [path.name for path in index.take_expired(EVER)] == names[1:3]
    assert [path.name for path in index.paths()] == names[3:]
    assert len(disk.names(layout.index_dir(ROOT))) == 4
    assert len(find(index, "k1")) == 2
    index.take_unsynced()
    assert index.take_unsynced() == []


def test_entries_do_not_wait_in_memory_for_long(disk: MemoryDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cometmq.store.index.index.TAIL_MAX", 3 * ENTRY_SIZE)
    index = index_on(disk)
    insert(index, [(0, "k1"), (100, "k2")])
    (path,) = index.paths()
    assert not any(disk.load(path))
    insert(index, [(200, "k1")])
    assert not any(disk.load(path)[:HEADER_SIZE])  # does not count them yet
    assert any(disk.load(path)[entry_position(FIRST_ENTRY, SLOTS) :])
    assert index.take_unsynced() == [path]
    assert find(index, "k1") == [0, 200]
    again = index_on(disk)
    again.load()
    assert find(again, "k1") == [] and again.paths() == []
