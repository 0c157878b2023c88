from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import FormatError
from cometmq.format import properties, queue_entry, record
from cometmq.format.java.java_hash import tags_code
from cometmq.format.layout import commitlog_dir, consume_queue_dir, parse_offset_name
from cometmq.format.queue_entry import FILLER, SIZE, QueueEntry, pack, unpack, unpack_many

LONG = st.integers(-(2**63), 2**63 - 1)
INT = st.integers(-(2**31), 2**31 - 1)


def read_queue(store: Path, topic: str, queue_id: int) -> list[QueueEntry]:
    paths = sorted(consume_queue_dir(store, topic, queue_id).iterdir())
    data = b"".join(path.read_bytes() for path in paths)
    entries = list(unpack_many(data))
    assert b"".join(pack(*entry) for entry in entries) == data
    end = next((number for number, entry in enumerate(entries) if entry.is_end), len(entries))
    assert not any(data[end * SIZE :])
    return entries[:end]


@given(LONG, INT, LONG)
def test_what_is_packed_is_unpacked(physical_offset: int, size: int, code: int) -> None:
    data = b"*" + pack(physical_offset, size, code)
    assert unpack(data, 1) == QueueEntry(physical_offset, size, code)


def test_an_entry_has_the_bytes_that_rocketmq_gives_it() -> None:
    data = bytes.fromhex("0000000000000209 0000010a 000000000027a808")
    assert pack(521, 266, tags_code("TagB")) == data
    assert unpack(data) == QueueEntry(521, 266, 2_598_920)


@pytest.mark.parametrize("topic", ["GoldenA", "GoldenB", "GoldenC"])
def test_a_real_brokers_queue_leads_to_the_records(golden: Mapping[str, Path], topic: str) -> None:
    store = golden["store-clean"]
    log = b"".join(path.read_bytes() for path in sorted(commitlog_dir(store).iterdir()))
    counted = 0
    for queue_id in range(8 if topic == "GoldenB" else 2):
        for queue_offset, entry in enumerate(read_queue(store, topic, queue_id)):
            found = record.decode(log, entry.physical_offset)
            place = (found.topic, found.queue_id, found.queue_offset)
            assert place == (topic, queue_id, queue_offset)
            assert record.size_of(found) == entry.size
            assert tags_code(properties.decode(found.properties).get("TAGS")) == entry.tags_code
            counted += 1
    assert counted > 400


def test_file_names_count_bytes(golden: Mapping[str, Path]) -> None:
    names = sorted(path.name for path in consume_queue_dir(golden["store-clean"], "GoldenC", 0).iterdir())
    assert [parse_offset_name(name) // SIZE for name in names] == [0, 300]


def test_the_data_ends_at_a_size_of_zero() -> None:
    assert unpack(bytes(SIZE)).is_end
    assert not QueueEntry(0, 91, 0).is_end  # offset 0 is a legal one


def test_a_filler_is_no_end() -> None:
    assert FILLER.is_filler
    assert not FILLER.is_end
    assert not QueueEntry(0, 91, 0).is_filler


@pytest.mark.parametrize("position", [1, 20, -21])
def test_an_entry_that_is_cut_off_is_an_error(position: int) -> None:
    with pytest.raises(FormatError, match="needs 20 bytes"):
        unpack(bytes(SIZE), position)


def test_data_that_is_no_array_of_entries_is_an_error() -> None:
    with pytest.raises(FormatError, match="multiple of 20"):
        unpack_many(bytes(SIZE + 1))


def test_size_agrees_with_the_struct() -> None:
    assert len(pack(0, 0, 0)) == queue_entry.SIZE
