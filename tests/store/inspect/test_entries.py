"""ConsumeQueue and index files, and the checkpoint, field by field."""

from pathlib import Path

import numpy as np
import pytest

from cometmq.errors import FormatError
from cometmq.format import queue_entry
from cometmq.format.checkpoint import Checkpoint
from cometmq.format.consume_queue_ext import address_of, pack
from cometmq.format.index import IndexEntry, IndexHeader
from cometmq.format.queue_entry import FILLER
from cometmq.store.index.index_view import IndexView
from cometmq.store.inspect.entries import checkpoint_rows, ext_rows, index_rows, queue_rows
from cometmq.store.inspect.row import DAMAGED, UNUSED


def test_queue_entries_are_shown_with_their_queue_offsets() -> None:
    data = queue_entry.pack(100, 50, 7) + queue_entry.pack(150, 60, -1) + bytes(60)
    rows = list(queue_rows(memoryview(data), 6_000, 0))
    assert [field.value for field in rows[0].fields] == [300, 100, 50, 7]
    assert [field.position for field in rows[1].fields] == [20, 20, 28, 32]
    assert [(row.what, row.position, row.size) for row in rows][2:] == [(UNUSED, 40, 60)]
    assert [row.position for row in queue_rows(memoryview(data), 6_000, 20)] == [20, 40]


@pytest.mark.parametrize(
    ("entry", "what", "note"),
    [
        (queue_entry.pack(*FILLER), "filler", "its message is lost"),
        (bytes(20), DAMAGED, "empty, but entries follow"),
        (queue_entry.pack(-1, 50, 0), DAMAGED, "cannot be"),
        (queue_entry.pack(160, 0, 0), DAMAGED, "cannot be"),
        (queue_entry.pack(90, 50, 0), DAMAGED, "does not lie behind"),
    ],
)
def test_odd_entries_are_shown_as_such_and_those_behind_them(entry: bytes, what: str, note: str) -> None:
    data = queue_entry.pack(100, 50, 7) + entry + queue_entry.pack(200, 50, 7)
    rows = list(queue_rows(memoryview(data), 0, 0))
    assert [row.what for row in rows] == ["entry", what, "entry"]
    assert note in rows[1].note


def test_an_entry_says_where_its_unit_is() -> None:
    data = queue_entry.pack(100, 50, address_of(34))
    (row,) = queue_rows(memoryview(data), 0, 0)
    assert row.fields[3].text == "in the unit at 34"


def test_units_are_shown_up_to_the_blank_the_zeros_or_the_damage_behind_them() -> None:
    units = pack(7, 1_600_000_000_000, b"\x01\xff") + pack(-1, 1_600_000_000_001)
    for behind, what in [(b"\xff\xff\0", "blank"), (bytes(30), UNUSED), (b"\0\5\1", DAMAGED)]:
        rows = list(ext_rows(memoryview(units + behind), 500, 0))
        assert [row.what for row in rows] == ["unit", "unit", what]
        assert [field.value for field in rows[0].fields][:2] == [500, 7]
        assert rows[0].fields[3].value == "01ff"
        assert [field.position for field in rows[1].fields] == [22, 24, 32, 42]
        assert (rows[2].position, rows[2].size) == (42, len(behind))
    assert [row.position for row in ext_rows(memoryview(units), 500, 22)] == [22]


def test_half_an_entry_is_shown_as_damage() -> None:
    data = queue_entry.pack(100, 50, 7) + b"\1\2\3"
    assert [(row.what, row.size) for row in queue_rows(memoryview(data), 0, 0)] == [
        ("entry", 20),
        (DAMAGED, 3),
    ]


def an_index(*entries: IndexEntry, next_entry: int | None = None, slot: int = 1) -> IndexView:
    """An index file of 3 slots and room for 9 entries."""
    header = IndexHeader(1_700_000_000_000, 1_700_000_005_000, 10, 99, 1, next_entry or len(entries) + 1)
    slots = b"".join(number.to_bytes(4, "big") for number in (slot, 0, 0))
    data = header.pack() + slots + bytes(20) + b"".join(entry.pack() for entry in entries)
    return IndexView(Path("index"), np.frombuffer(data.ljust(40 + 12 + 180, b"\0"), np.uint8), 3, 9)


def test_header_slots_and_entries_of_an_index_file_are_shown() -> None:
    index = an_index(IndexEntry(3, 10, 0, 0), IndexEntry(6, 99, 5, 1), slot=2)
    rows = list(index_rows(index, None))
    assert [row.what for row in rows] == ["header", "slot", "entry", "entry"]
    assert [field.value for field in rows[1].fields] == [0, 2]
    assert [field.value for field in rows[3].fields] == [2, 6, 99, 5, 1]
    assert [field.position for field in rows[3].fields] == [92, 92, 96, 104, 108]
    assert "2023-11-14T22:13:25.000Z" in rows[0].fields[1].text
    assert [row.what for row in index_rows(index, 2)] == ["entry"]


def test_what_cannot_be_in_an_index_file_is_shown_as_damage() -> None:
    assert [row.what for row in index_rows(an_index(IndexEntry(3, 10, 0, 5)), 1)] == [DAMAGED]
    assert [row.what for row in index_rows(an_index(IndexEntry(-3, 10, 0, 0)), 1)] == [DAMAGED]
    assert [row.what for row in index_rows(an_index(slot=7), None)] == ["header", DAMAGED]
    assert next(index_rows(an_index(next_entry=500), None)).what == DAMAGED


def test_of_many_slots_the_first_are_shown_and_the_rest_counted() -> None:
    data = bytearray(IndexHeader(next_entry=2).pack() + (1).to_bytes(4, "big") * 30 + bytes(100 * 20))
    index = IndexView(Path("index"), np.frombuffer(data, np.uint8), 30, 100)
    rows = [row for row in index_rows(index, None) if row.what.startswith("slot")]
    assert len(rows) == 21
    assert rows[-1].note == "10 more slots are used"


def test_the_checkpoint_is_shown() -> None:
    (row,) = checkpoint_rows(memoryview(Checkpoint(1_700_000_000_000, 2, 3, 4, 5).pack()))
    assert [field.value for field in row.fields] == [1_700_000_000_000, 2, 3, 4, 5]
    assert [field.position for field in row.fields] == [0, 8, 16, 24, 32]
    assert "2023-11-14" in row.fields[0].text
    with pytest.raises(FormatError, match="needs 40 bytes"):
        list(checkpoint_rows(memoryview(b"short")))
