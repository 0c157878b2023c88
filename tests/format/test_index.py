from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import FormatError
from cometmq.format import index, record
from cometmq.format.dispatch import index_keys
from cometmq.format.index import (
    ENTRY_SIZE,
    FIRST_ENTRY,
    HEADER_SIZE,
    NO_ENTRY,
    SLOT_SIZE,
    TAGS_KEY_PREFIX,
    IndexEntry,
    IndexHeader,
    entry_position,
    file_size,
    pack_slot,
    slot_of,
    slot_position,
    time_diff_s,
    unpack_slot,
)
from cometmq.format.java.java_hash import index_key_hash
from cometmq.format.layout import commitlog_dir, index_dir
from cometmq.format.properties import TAGS, decode

LONG = st.integers(-(2**63), 2**63 - 1)
INT = st.integers(-(2**31), 2**31 - 1)
POSITIVE_INT = st.integers(1, 2**31 - 1)

SLOT_COUNT, ENTRY_COUNT = 1000, 4000  # as the golden stores were set

STORES = pytest.mark.parametrize("store", ["store-clean", "store-killed", "store-killed-recovered"])


def index_files(store: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(index_dir(store).iterdir())]


def entries_of(data: bytes) -> list[IndexEntry]:
    numbers = range(FIRST_ENTRY, IndexHeader.unpack(data).next_entry)
    return [IndexEntry.unpack(data, entry_position(number, SLOT_COUNT)) for number in numbers]


@given(st.builds(IndexHeader, LONG, LONG, LONG, LONG, INT, POSITIVE_INT))
def test_a_header_that_is_packed_is_unpacked(header: IndexHeader) -> None:
    assert len(header.pack()) == HEADER_SIZE
    assert IndexHeader.unpack(header.pack()) == header


@given(st.builds(IndexEntry, INT, LONG, INT, INT))
def test_an_entry_that_is_packed_is_unpacked(entry: IndexEntry) -> None:
    assert len(entry.pack()) == ENTRY_SIZE
    assert IndexEntry.unpack(b"*" + entry.pack(), 1) == entry


@given(INT)
def test_a_slot_that_is_packed_is_unpacked(entry: int) -> None:
    assert unpack_slot(b"*" + pack_slot(entry), 1) == entry


@STORES
def test_a_real_brokers_headers_read_and_write_back(golden: Mapping[str, Path], store: str) -> None:
    for data in index_files(golden[store]):
        header = IndexHeader.unpack(data)
        assert header.pack() == data[:HEADER_SIZE]
        assert len(data) == file_size(SLOT_COUNT, ENTRY_COUNT)
        entries = entries_of(data)
        assert header.begin_physical_offset == entries[0].physical_offset
        assert header.end_physical_offset == entries[-1].physical_offset
        assert header.next_entry <= ENTRY_COUNT


@STORES
def test_the_entries_of_a_real_broker_lead_to_its_slots(golden: Mapping[str, Path], store: str) -> None:
    for data in index_files(golden[store]):
        slots = [NO_ENTRY] * SLOT_COUNT
        for number, entry in enumerate(entries_of(data), FIRST_ENTRY):
            slot = slot_of(entry.key_hash, SLOT_COUNT)
            assert entry.previous == slots[slot]
            slots[slot] = number
        assert b"".join(map(pack_slot, slots)) == data[HEADER_SIZE : entry_position(0, SLOT_COUNT)]
        assert sum(map(bool, slots)) == IndexHeader.unpack(data).used_slots


def test_the_entries_of_a_real_broker_are_the_keys_and_tags_of_its_records(
    golden: Mapping[str, Path],
) -> None:
    store = golden["store-clean"]
    log = b"".join(path.read_bytes() for path in sorted(commitlog_dir(store).iterdir()))
    for data in index_files(store):
        header = IndexHeader.unpack(data)
        for entry in entries_of(data):
            found = record.decode(log, entry.physical_offset)
            by_name = decode(found.properties)
            keys = {*index_keys(by_name), TAGS_KEY_PREFIX + by_name.get(TAGS, "")}
            assert entry.key_hash in {index_key_hash(found.topic, key) for key in keys}
            assert entry.time_diff_s == time_diff_s(found.store_time, header.begin_time)
            assert 0 <= found.store_time - entry.store_time(header.begin_time) < 1000


def test_a_file_that_was_never_written_to_begins_with_entry_one() -> None:
    assert IndexHeader.unpack(bytes(HEADER_SIZE)) == IndexHeader()


@pytest.mark.parametrize(
    ("store_time", "begin_time", "expected"),
    [(5_999, 1_000, 4), (1_000, 5_999, 0), (5_000, 0, 0), (2**62, 1, 2**31 - 1)],
)
def test_a_time_difference_is_kept_within_its_field(store_time: int, begin_time: int, expected: int) -> None:
    assert time_diff_s(store_time, begin_time) == expected


def test_positions_follow_each_other_without_a_gap() -> None:
    assert slot_position(0) == HEADER_SIZE
    assert entry_position(0, SLOT_COUNT) == slot_position(SLOT_COUNT - 1) + SLOT_SIZE
    assert file_size(SLOT_COUNT, 3) == entry_position(2, SLOT_COUNT) + ENTRY_SIZE


def test_whatever_is_cut_off_is_an_error() -> None:
    with pytest.raises(FormatError, match="needs 40 bytes, got 39"):
        IndexHeader.unpack(bytes(39))
    with pytest.raises(FormatError, match="index entry at 1: needs 20 bytes of the 20 there"):
        IndexEntry.unpack(bytes(20), 1)
    with pytest.raises(FormatError, match="index slot at 4: needs 4 bytes of the 4 there"):
        index.unpack_slot(bytes(4), 4)
