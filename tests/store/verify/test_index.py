"""The index against the log."""

from pathlib import Path

import pytest
from tests.store.conftest import ROOT, OpenStore, new_message
from tests.store.verify.conftest import ABORT, checked, damages, overwrite

from cometmq.format import layout
from cometmq.format.index import entry_position
from cometmq.store.files.finding import Severity
from cometmq.store.verify import State
from cometmq.testing.memory_disk import MemoryDisk

SLOTS = 10


def index_paths(disk: MemoryDisk) -> list[Path]:
    """The index files, oldest first."""
    directory = layout.index_dir(ROOT)
    return [directory / name for name in disk.names(directory)]


@pytest.mark.parametrize(
    ("at", "data", "what"),
    [
        (4, b"\0\0\0\0\0\0\0\x07", "points to 7, no record with its key is there"),
        (4, b"\0\0\1\0\0\0\0\0", "behind the log's end"),
        (12, b"\0\0\0\x63", "time difference 99 s"),
    ],
)
def test_an_entry_that_differs_from_its_record_is_told(
    sound: MemoryDisk, at: int, data: bytes, what: str
) -> None:
    path = index_paths(sound)[0]
    position = entry_position(9, SLOTS)
    overwrite(sound, path, position + at, data)
    findings = damages(checked(sound))
    assert any(finding.position == position and what in finding.what for finding in findings), findings


def test_a_key_without_an_entry_is_told_at_its_record(sound: MemoryDisk) -> None:
    path = index_paths(sound)[0]
    position = entry_position(9, SLOTS)
    before = sound.load(path)[position - 20 : position]
    overwrite(sound, path, position, before[:12])  # k2 again instead of x2
    assert any("has no entry in the index" in finding.what for finding in damages(checked(sound)))


def test_tags_that_an_old_broker_did_not_index_are_no_damage(open_store: OpenStore, disk: MemoryDisk) -> None:
    store = open_store()
    store.append([new_message(keys="k", tags="paid")])
    store.close()
    path = index_paths(disk)[0]
    entry = disk.load(path)[entry_position(1, SLOTS) : entry_position(2, SLOTS)]
    slot = int.from_bytes(entry[:4], "big") % SLOTS
    header = disk.load(path)[:32] + (1).to_bytes(4, "big") + (2).to_bytes(4, "big")
    slots = bytes(4 * slot) + (1).to_bytes(4, "big") + bytes(4 * (SLOTS - 1 - slot))
    disk.put(path, (header + slots + bytes(20) + entry).ljust(len(disk.load(path)), b"\0"))
    assert checked(disk).findings == []


def test_an_index_that_ends_early_is_damage_unless_the_broker_was_killed(sound: MemoryDisk) -> None:
    sound.remove(index_paths(sound)[-1])
    finding = damages(checked(sound))[0]
    assert "keys have no entry, those of records from" in finding.what
    sound.put(ABORT, b"1")
    assert checked(sound).state is State.NEEDS_RECOVERY


def test_a_missing_first_file_is_not_missed_but_one_between_is(sound: MemoryDisk) -> None:
    first, second, *_ = index_paths(sound)
    data = sound.load(first)
    sound.remove(first)
    assert checked(sound).state is State.SOUND  # as after the log's old files expired
    sound.put(first, data)
    sound.remove(second)
    assert checked(sound).state is State.DAMAGED


def test_no_index_at_all_is_a_note(sound: MemoryDisk) -> None:
    for path in index_paths(sound):
        sound.remove(path)
    assert checked(sound).state is State.DAMAGED  # the directory says that there was one
    sound.remove_directory(layout.index_dir(ROOT))
    verified = checked(sound)
    assert [finding.severity for finding in verified.findings] == [Severity.NOTE]


def test_an_index_file_that_cannot_be_used_is_told_once(sound: MemoryDisk) -> None:
    path = index_paths(sound)[1]
    sound.put(path, sound.load(path)[:-1])
    (finding,) = damages(checked(sound))
    assert (finding.path, "expected 1080" in finding.what) == (path, True)


def test_a_file_that_is_no_index_file_is_told(sound: MemoryDisk) -> None:
    sound.put(layout.index_dir(ROOT) / "readme", b"x")
    assert "move it out of the store" in str(damages(checked(sound)))
