from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from tests.kernels.index_files import File, Keys, keys_of

from cometmq.format.delay_level import DelayLevels
from cometmq.format.index import (
    ENTRY_SIZE,
    IndexEntry,
    IndexHeader,
    entry_position,
    slot_position,
    unpack_slot,
)
from cometmq.format.layout import commitlog_dir, index_dir, parse_offset_name
from cometmq.kernels.arrays import PAGE_SIZE
from cometmq.kernels.ops import Ops

SLOT_COUNT, ENTRY_COUNT = 1000, 4000  # as the golden stores were set


def keys_of_store(ops: Ops, store: Path) -> Keys:
    parts = []
    for path in sorted(commitlog_dir(store).iterdir()):
        data = path.read_bytes()
        scan = ops.scan(data, base_offset=parse_offset_name(path.name))
        found = ops.dispatch(data, scan, DelayLevels.parse())
        rows = found.key_record
        parts.append((found.key_hash, scan.physical_offset[rows], scan.store_time[rows]))
    return Keys._make(map(np.concatenate, zip(*parts, strict=True)))


@pytest.mark.parametrize("store", ["store-clean", "store-killed", "store-killed-recovered"])
def test_makes_the_index_files_of_a_real_broker_byte_for_byte(
    golden: Mapping[str, Path], ops: Ops, store: str
) -> None:
    keys = keys_of_store(ops, golden[store])
    header, made = IndexHeader(), []
    while len(keys.hashes):
        times, offsets = (header.end_time, header.end_physical_offset)
        file = File(SLOT_COUNT, ENTRY_COUNT, IndexHeader(times, times, offsets, offsets))
        keys = keys.since(file.insert(ops, keys))
        header = file.header
        made.append(file.data.tobytes())
        if store == "store-killed-recovered" and len(made) == 2:
            # What a recovery indexes again begins with the last record of the last good file, of
            # which this file has some keys already.
            everything = keys_of_store(ops, golden[store])
            keys = everything.since(int(np.searchsorted(everything.offsets, header.end_physical_offset)))
    real = [path.read_bytes() for path in sorted(index_dir(golden[store]).iterdir())]
    assert len(made) == len(real) == 3
    assert made == real


def test_finds_in_a_real_brokers_file_what_was_put_into_it(golden: Mapping[str, Path], ops: Ops) -> None:
    path = min(index_dir(golden["store-clean"]).iterdir())
    file = File(SLOT_COUNT, ENTRY_COUNT)
    file.data[:] = np.frombuffer(path.read_bytes(), np.uint8)
    keys = keys_of_store(ops, golden["store-clean"])
    for key_hash in np.unique(keys.hashes[: ENTRY_COUNT - 1])[:300].tolist():
        there = keys.offsets[: ENTRY_COUNT - 1][keys.hashes[: ENTRY_COUNT - 1] == key_hash]
        assert file.find(ops, key_hash, count=9999) == there[::-1].tolist()


def test_the_first_key_begins_the_file(ops: Ops) -> None:
    file = File(10, 100, IndexHeader(1000, 1000, 50, 50))  # as it is made: with the end of the file before
    assert file.insert(ops, keys_of((7, 100, 5999), (7, 200, 9000))) == 2
    assert file.header == IndexHeader(5999, 9000, 100, 200, used_slots=1, next_entry=3)
    assert file.entry(1) == IndexEntry(7, 100, 4, 0)
    assert file.entry(2) == IndexEntry(7, 200, 3, 1)


def test_keys_of_one_slot_are_chained(ops: Ops) -> None:
    file = File(10, 100)
    file.insert(ops, keys_of((3, 0, 1), (13, 100, 1), (4, 200, 1), (23, 300, 1)))
    assert [file.entry(number).previous for number in (1, 2, 3, 4)] == [0, 1, 0, 2]
    assert [unpack_slot(file.image.tobytes(), slot_position(slot)) for slot in (3, 4, 5)] == [4, 3, 0]
    assert file.header.used_slots == 2


def test_a_slot_that_points_behind_the_next_entry_counts_as_empty(ops: Ops) -> None:
    file = File(10, 100)
    for slot, value in ((1, 3), (2, 3), (3, -1)):
        file.image[slot_position(slot) : slot_position(slot + 1)] = np.frombuffer(
            value.to_bytes(4, "big", signed=True), np.uint8
        )
    file.insert(ops, keys_of((5, 0, 1), (1, 0, 1), (2, 0, 1), (3, 0, 1)))
    assert [file.entry(number).previous for number in (2, 3, 4)] == [0, 3, 0]


def test_stops_when_the_file_is_full(ops: Ops) -> None:
    file = File(10, 4)
    keys = keys_of(*((number, number, 1) for number in range(9)))
    assert file.insert(ops, keys) == 3  # entry 0 is never used
    assert file.insert(ops, keys) == 0
    assert file.header.next_entry == 4


def test_stops_when_there_is_no_room_for_entries(ops: Ops) -> None:
    file = File(10, 100)
    keys = keys_of(*((number, number, 1) for number in range(9)))
    assert file.insert(ops, keys, room=2) == 2
    assert file.insert(ops, keys.since(2), room=0) == 0
    assert file.insert(ops, keys.since(2)) == 7
    assert [file.entry(number).key_hash for number in range(1, 10)] == list(range(9))


def test_marks_the_pages_that_it_changes(ops: Ops) -> None:
    file = File(5000, 100)
    file.insert(ops, keys_of((PAGE_SIZE // 4 * 3, 0, 1)))
    assert file.dirty.tolist() == [True, False, False, True, False]


@pytest.mark.parametrize("written", [1, 2, 4, 99])
def test_finds_keys_whether_their_entries_are_written_or_not(ops: Ops, written: int) -> None:
    file = File(10, 100)
    file.insert(ops, keys_of((3, 0, 1000), (13, 100, 2000), (3, 200, 3000), (3, 300, 4000)))
    assert file.find(ops, 3, written=written) == [300, 200, 0]
    assert file.find(ops, 13, written=written) == [100]
    assert file.find(ops, 23, written=written) == []
    assert file.find(ops, 3, written=written, count=2) == [300, 200]


def test_finds_keys_of_a_time_by_the_second(ops: Ops) -> None:
    file = File(10, 100)
    file.insert(ops, keys_of((3, 0, 10_000), (3, 100, 11_999), (3, 200, 12_000), (3, 300, 13_500)))
    assert file.find(ops, 3, 11_000, 12_000) == [200, 100]
    assert file.find(ops, 3, 11_001) == [300, 200]  # 11,999 is known as 11,000
    assert file.find(ops, 3, 0, 9_999) == []


def test_a_chain_that_goes_round_ends(ops: Ops) -> None:
    file = File(10, 100)
    file.insert(ops, keys_of((3, 0, 1), (13, 100, 1)))
    file.entries[ENTRY_SIZE : 2 * ENTRY_SIZE] = np.frombuffer(IndexEntry(3, 0, 0, 2).pack(), np.uint8)
    assert file.find(ops, 23) == []


def test_a_slot_that_points_behind_the_entries_is_not_followed(ops: Ops) -> None:
    file = File(10, 100)
    file.insert(ops, keys_of((3, 0, 1)))
    file.image[slot_position(3) : slot_position(4)] = np.frombuffer(b"\x7f\xff\xff\xff", np.uint8)
    assert file.find(ops, 3) == []


def test_the_positions_are_those_of_the_format(ops: Ops) -> None:
    file = File(10, 100)
    file.insert(ops, keys_of((3, 77, 1)))
    assert IndexEntry.unpack(file.data.tobytes(), entry_position(1, 10)).physical_offset == 77
