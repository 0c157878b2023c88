"""An index file in itself."""

from pathlib import Path

import pytest
from tests.store.conftest import ROOT
from tests.store.verify.conftest import ABORT, checked, damages, overwrite

from cometmq.format import layout
from cometmq.format.index import entry_position, slot_position
from cometmq.store.verify import State
from cometmq.testing.memory_disk import MemoryDisk

SLOTS = 10


@pytest.fixture
def last(sound: MemoryDisk) -> Path:
    """The newest index file, which is not full."""
    directory = layout.index_dir(ROOT)
    return directory / sound.names(directory)[-1]


@pytest.mark.parametrize(
    ("at", "what"),
    [
        (0, "begin time"),
        (8, "end time"),
        (16, "begin physical offset"),
        (24, "end physical offset"),
        (32, "used slots"),
        (36, "there is room for 50"),
    ],
)
def test_each_field_of_the_header_is_checked(sound: MemoryDisk, last: Path, at: int, what: str) -> None:
    overwrite(sound, last, at + 1, b"\x55")
    assert any(
        what in finding.what and (finding.path, finding.position) == (last, 0)
        for finding in damages(checked(sound))
    )


def test_a_broken_chain_is_told_at_its_entry(sound: MemoryDisk, last: Path) -> None:
    position = entry_position(5, SLOTS)
    overwrite(sound, last, position + 16, b"\0\0\0\x04")
    previous = int.from_bytes(sound.load(last)[position + 16 : position + 20], "big")
    assert previous == 4
    (finding,) = damages(checked(sound))
    assert (finding.position, finding.size) == (position, 20)
    assert "entry 5: previous is 4, expected" in finding.what


def test_a_negative_hash_is_told(sound: MemoryDisk, last: Path) -> None:
    overwrite(sound, last, entry_position(5, SLOTS), b"\xff")
    assert any("is negative" in finding.what for finding in damages(checked(sound)))


def test_slots_of_the_newest_file_are_set_anew_after_a_kill(sound: MemoryDisk, last: Path) -> None:
    overwrite(sound, last, slot_position(3), (49).to_bytes(4, "big"))
    (finding,) = damages(checked(sound))
    assert (finding.position, "slot 3 holds 49" in finding.what) == (slot_position(3), True)
    sound.put(ABORT, b"1")
    assert checked(sound).state is State.NEEDS_RECOVERY
    overwrite(sound, min(last.parent / name for name in sound.names(last.parent)), slot_position(3), b"\x01")
    assert checked(sound).state is State.DAMAGED
