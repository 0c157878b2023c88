from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest

from cometmq.testing.recorded_disk import SECTOR_SIZE, RecordedDisk

ROOT = Path("/store")
FILE = ROOT / "file"


def disk_with_file(size: int) -> RecordedDisk:
    disk = RecordedDisk()
    disk.make_directory(ROOT)
    disk.create(FILE, size)
    return disk


def contents(disks: Iterable[RecordedDisk], path: Path = FILE) -> set[bytes | None]:
    return {disk.load(path) if disk.exists(path) else None for disk in disks}


def losses(disk: RecordedDisk, count: int = 200) -> Iterable[RecordedDisk]:
    return (disk.after_power_loss(Random(seed)) for seed in range(count))


def test_what_is_synced_is_there_and_what_is_not_may_be() -> None:
    disk = disk_with_file(4)
    file = disk.open(FILE, writable=True)
    file.write(0, b"ab")
    disk.sync(FILE)
    file.write(2, b"cd")
    assert contents(losses(disk)) == {b"ab\0\0", b"abcd"}
    assert disk.after_power_loss().load(FILE) == b"ab\0\0"


def test_writes_reach_the_disk_in_any_order() -> None:
    disk = disk_with_file(2)
    file = disk.open(FILE, writable=True)
    file.write(0, b"a")
    file.write(1, b"b")
    file.write(0, b"c")
    assert contents(losses(disk)) == {b"\0\0", b"a\0", b"c\0", b"\0b", b"ab", b"cb"}


def test_a_write_is_torn_at_the_borders_of_sectors() -> None:
    disk = disk_with_file(2 * SECTOR_SIZE)
    disk.open(FILE, writable=True).write(SECTOR_SIZE - 1, b"xy")
    ends = {(data[SECTOR_SIZE - 1], data[SECTOR_SIZE]) for data in contents(losses(disk)) if data}
    assert ends == {(0, 0), (0, ord("y")), (ord("x"), 0), (ord("x"), ord("y"))}


def test_a_name_without_its_directory_synced_may_be_gone_or_stand_for_a_file_without_its_length() -> None:
    disk = RecordedDisk()
    disk.make_directory(ROOT)
    disk.create(FILE, 3, durable=False)
    assert contents(losses(disk)) == {None, b"", bytes(3)}
    disk.sync(ROOT)
    assert contents(losses(disk)) == {b"", bytes(3)}
    disk.sync(FILE)
    assert contents(losses(disk)) == {bytes(3)}


def test_names_of_one_directory_come_in_order() -> None:
    disk = RecordedDisk()
    disk.make_directory(ROOT)
    for name in "abc":
        disk.create(ROOT / name, 1, durable=False)
    left = {"".join(name for name in state.names(ROOT) if len(name) == 1) for state in losses(disk)}
    assert left == {"", "a", "ab", "abc"}


def test_what_is_in_a_directory_that_is_lost_is_lost() -> None:
    disk = RecordedDisk()
    disk.make_directory(ROOT)
    disk.make_directory(ROOT / "a" / "b", durable=False)
    disk.create(ROOT / "a" / "b" / "file", 1)
    there = {(state.exists(ROOT / "a"), state.exists(ROOT / "a" / "b" / "file")) for state in losses(disk)}
    assert there == {(False, False), (True, False), (True, True)}


def test_a_file_is_saved_as_a_whole_whenever_the_power_fails() -> None:
    disk = RecordedDisk()
    disk.make_directory(ROOT)
    disk.save(FILE, b"old")
    first = len(disk.operations)
    disk.save(FILE, b"new")
    disk.remove(FILE)
    moments = range(first, len(disk.operations) + 1)
    left = [contents([state]) for seed in range(20) for state in disk.states(moments, Random(seed))]
    assert set().union(*left) == {b"old", b"new", None}
    assert left[len(moments) - 1] == {None}


def test_what_was_removed_or_moved_may_be_there_again() -> None:
    disk = disk_with_file(1)
    first = len(disk.operations)
    disk.rename(FILE, ROOT / "other")
    disk.remove(ROOT / "other")
    states = {
        tuple(state.names(ROOT))
        for seed in range(20)
        for state in disk.states(range(first, len(disk.operations) + 1), Random(seed))
    }
    assert states == {("file",), ("other",), ()}


@pytest.mark.parametrize("durable", [True, False])
def test_names_in_a_directory_that_was_moved_are_not_in_a_new_one_of_its_name(durable: bool) -> None:
    disk = RecordedDisk()
    disk.make_directory(ROOT)
    old, new = ROOT / "queue", ROOT / "gone"
    disk.make_directory(old, durable=False)
    disk.create(old / "a", 1, durable=False)
    disk.rename(old, new, durable=durable)
    disk.make_directory(old, durable=False)
    disk.create(old / "b", 1, durable=False)
    found = {(tuple(state.names(old)), tuple(state.names(new))) for state in losses(disk)}
    assert (("b",), ("a",)) in found
    assert not any("a" in names and "b" in names for names, _ in found)
    disk.sync_all([ROOT, old])
    assert {tuple(state.names(old)) for state in losses(disk)} == {("b",)}


def test_what_a_killed_process_wrote_may_be_lost_later_and_it_can_write_no_more() -> None:
    disk = disk_with_file(2)
    file = disk.open(FILE, writable=True)
    file.write(0, b"a")
    later = disk.after_kill()
    with pytest.raises(OSError, match="Input/output"):
        file.write(0, b"z")
    later.open(FILE, writable=True).write(1, b"b")
    assert later.load(FILE) == b"ab"
    assert contents(losses(later)) == {b"\0\0", b"a\0", b"\0b", b"ab"}
    later.sync(FILE)
    assert contents(losses(later)) == {b"ab"}


def test_states_record_in_turn() -> None:
    disk = disk_with_file(1)
    state = disk.after_power_loss()
    state.open(FILE, writable=True).write(0, b"x")
    assert contents(losses(state)) == {b"\0", b"x"}
    state.sync(FILE)
    assert state.after_power_loss().load(FILE) == b"x"
