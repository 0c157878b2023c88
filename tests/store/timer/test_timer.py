from collections.abc import Callable, Mapping
from pathlib import Path
from shutil import copytree

import pytest
from msgspec.structs import replace

from cometmq.format import layout
from cometmq.format.timer import wheel
from cometmq.format.timer.checkpoint import TimerCheckpoint
from cometmq.format.timer.log import DELETE, ROLL, SIZE
from cometmq.io.files import Disk, FileLayer
from cometmq.io.open_files import OpenFiles
from cometmq.store.settings import StoreSettings
from cometmq.store.timer.timer import Timed, Timer
from cometmq.testing.memory_disk import MemoryDisk

ROOT = Path("/disk/store")
NOW = 1_795_000_000_000
WINDOW = 1_000
SETTINGS = StoreSettings(mapped_file_size_timer_log=4096, timer_roll_window_slot=WINDOW)
LOG_END = 2**40


def opened(
    disk: FileLayer, log_end: int = LOG_END, root: Path = ROOT, settings: StoreSettings = SETTINGS
) -> Timer:
    timer = Timer(OpenFiles(disk, writable=True), root, settings)
    timer.load(log_end)
    return timer


def put(timer: Timer, *after_s: int, now: int = NOW, is_delete: bool = False) -> None:
    """Add messages that are due after so many seconds; they are told apart by their offsets, from 0 on."""
    first = timer.queue_offset
    messages = [
        Timed(NOW + 1000 * seconds, first + number, 100, "T", is_delete)
        for number, seconds in enumerate(after_s)
    ]
    timer.put(messages, first + len(messages), now)


def given_out(timer: Timer, now: int) -> list[int]:
    """Remove all slots that are due at a time; return the messages of each, in their order."""
    found = []
    while (slot := timer.take(now)) is not None:
        found += [unit.physical_offset for unit in timer.units(slot)]
        timer.mark_done()
    return found


def save(timer: Timer, now: int = NOW) -> None:
    changes = timer.take_changes(now)
    assert changes is not None
    timer.save(changes)


def test_messages_come_by_their_seconds_and_in_each_in_their_order() -> None:
    timer = opened(MemoryDisk())
    put(timer, 5, 3, 5, 3, 4)
    put(timer, 3, 1)
    assert timer.next_time() == NOW + 1_000
    assert given_out(timer, NOW + 1_999) == []
    assert given_out(timer, NOW + 2_000) == [6]
    assert given_out(timer, NOW + 5_999) == [1, 3, 5, 4]
    assert given_out(timer, NOW + 99_000) == [0, 2]
    assert timer.next_time() is None


def test_what_is_due_already_comes_when_this_second_has_passed() -> None:
    timer = opened(MemoryDisk())
    put(timer, -5, 0)
    assert given_out(timer, NOW + 999) == []
    assert given_out(timer, NOW + 1_000) == [0, 1]


def test_what_comes_in_while_its_slot_is_given_out_comes_with_a_later_one() -> None:
    timer = opened(MemoryDisk())
    put(timer, 0)
    slot = timer.take(NOW + 1_000)
    assert slot is not None
    put(timer, 0, now=NOW)  # the clock was put back
    timer.mark_done()
    assert given_out(timer, NOW + 1_999) == []
    assert given_out(timer, NOW + 2_000) == [1]


@pytest.mark.parametrize(
    ("after_s", "comes_after_s"),
    [(WINDOW - 1, WINDOW - 1), (WINDOW, WINDOW // 2), (WINDOW + 332, WINDOW // 2), (WINDOW + 333, WINDOW)],
)
def test_what_is_far_off_comes_sooner_to_wait_on(after_s: int, comes_after_s: int) -> None:
    timer = opened(MemoryDisk())
    put(timer, after_s)
    slot = timer.take(NOW + 10_000 * WINDOW)
    assert slot is not None and slot.time == NOW // 1000 + comes_after_s
    (unit,) = timer.units(slot)
    assert bool(unit.magic & ROLL) == (after_s >= WINDOW)


def test_what_takes_another_one_back_is_not_counted() -> None:
    timer = opened(MemoryDisk())
    put(timer, 1, 1)
    put(timer, 1, is_delete=True)
    slot = timer.take(NOW + 2_000)
    assert slot is not None and slot.unit_count == 1
    assert [bool(unit.magic & DELETE) for unit in timer.units(slot)] == [False, False, True]


def test_what_comes_in_late_goes_to_others_of_its_second_that_still_wait() -> None:
    disk = MemoryDisk()
    timer = opened(disk)
    put(timer, 1, 2)
    save(timer)
    put(timer, 1, 0, now=NOW + 5_000)
    put(timer, 1, 0, now=NOW + 5_000, is_delete=True)
    for each in (opened(disk.after_kill()), timer):
        assert given_out(each, NOW + 5_999) == [0, 2, 4, 1]
        assert given_out(each, NOW + 6_000) == [3, 5]


@pytest.mark.parametrize("is_saved", [True, False])
def test_after_a_kill_all_that_was_put_waits_and_nothing_else(*, is_saved: bool) -> None:
    disk = MemoryDisk()
    timer = opened(disk)
    put(timer, *range(200))
    save(timer)
    put(timer, *range(200))
    given_out(timer, NOW + 50_000)
    if is_saved:
        save(timer, NOW + 50_000)
    after = Timer(OpenFiles(disk.after_kill(), writable=True), ROOT, SETTINGS)
    last = after.load(LOG_END)
    assert (None if last is None else last.physical_offset) == (None if is_saved else 399)
    found = given_out(after, NOW + 999_000)
    expected = [first + number for number in range(50 if is_saved else 0, 200) for first in (0, 200)]
    assert found == expected


def test_a_slot_that_is_being_given_out_at_a_save_comes_again_after_a_kill() -> None:
    disk = MemoryDisk()
    timer = opened(disk)
    put(timer, 1, 1, 2)
    assert timer.take(NOW + 9_000) is not None
    save(timer, NOW + 9_000)
    assert given_out(opened(disk.after_kill()), NOW + 9_000) == [0, 1, 2]


def test_a_kill_while_slots_are_saved_leaves_later_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, states = MemoryDisk(), list[MemoryDisk]()
    timer, position_of = opened(disk), wheel.position_of
    put(timer, 3, 1, 2)
    save(timer)
    assert given_out(timer, NOW + 9_000) == [1, 2, 0]

    def killed_before(time: int) -> int:
        states.append(disk.after_kill())
        return position_of(time)

    monkeypatch.setattr(wheel, "position_of", killed_before)
    save(timer, NOW + 9_000)
    monkeypatch.undo()
    assert [given_out(opened(state), NOW + 9_000) for state in states] == [[1, 2, 0], [2, 0], [0]]


def test_units_of_messages_that_the_commit_log_lost_are_cut_off() -> None:
    disk = MemoryDisk()
    timer = opened(disk)
    put(timer, 1, 2, 3)
    save(timer)
    put(timer, 1, 2, 3)
    assert given_out(opened(disk.after_kill(), log_end=5), NOW + 9_000) == [0, 3, 1, 4, 2]
    assert given_out(opened(disk.after_kill(), log_end=5), NOW + 9_000) == [0, 3, 1, 4, 2]


def lose_wheel(disk: MemoryDisk) -> None:
    disk.remove(layout.timer_wheel_path(ROOT))


def cut_wheel(disk: MemoryDisk) -> None:
    disk.put(layout.timer_wheel_path(ROOT), bytes(100))


def lose_log(disk: MemoryDisk) -> None:
    disk.remove(layout.timer_log_dir(ROOT) / layout.offset_name(0))


def tear_log(disk: MemoryDisk) -> None:
    file = disk.open(layout.timer_log_dir(ROOT) / layout.offset_name(0), writable=True)
    file.write(3 * SIZE, bytes(SIZE))


@pytest.mark.parametrize("damage", [lose_wheel, cut_wheel, lose_log, tear_log])
def test_if_the_files_do_not_fit_together_all_that_was_not_given_out_is_put_anew(
    damage: Callable[[MemoryDisk], None],
) -> None:
    disk = MemoryDisk()
    timer = opened(disk)
    put(timer, 1, 2, 4, 5)
    assert given_out(timer, NOW + 3_000) == [0, 1]
    save(timer, NOW + 3_000)
    damage(disk)
    again = opened(disk)
    assert again.queue_offset == 0
    put(again, 1, 2, 4, now=NOW + 3_000)
    put(again, 5, 1, now=NOW + 3_000)
    assert given_out(again, NOW + 3_999) == []
    assert given_out(again, NOW + 9_000) == [4, 2, 3]
    save(again, NOW + 9_000)
    assert given_out(opened(disk), NOW + 99_000) == []


@pytest.mark.parametrize(("before_ms", "now_ms"), [(1_000, 100), (100, 1_000), (500, 200)])
def test_with_another_precision_all_that_was_not_given_out_is_put_anew(before_ms: int, now_ms: int) -> None:
    disk = MemoryDisk()
    timer = opened(disk, settings=replace(SETTINGS, timer_precision_ms=before_ms))
    put(timer, 1, 5, 7)
    assert given_out(timer, NOW + 2_000) == [0]
    save(timer, NOW + 2_000)
    timer.close()
    timer = opened(disk, settings=replace(SETTINGS, timer_precision_ms=now_ms))
    assert timer.queue_offset == 0
    put(timer, 1, 5, 7, now=NOW + 2_000)
    assert given_out(timer, NOW + 9_000) == [1, 2]


def test_a_cut_checkpoint_counts_as_none() -> None:
    disk = MemoryDisk()
    timer = opened(disk)
    put(timer, 1, 2, 3)
    save(timer)
    disk.put(layout.timer_checkpoint_path(ROOT), b"short")
    again = opened(disk)
    assert (again.queue_offset, given_out(again, NOW + 9_000)) == (0, [])
    save(again)
    assert given_out(opened(disk), NOW + 9_000) == []


def test_nothing_is_saved_while_nothing_changes_but_the_time_now_and_then() -> None:
    disk = MemoryDisk()
    timer = opened(disk)
    put(timer, 1)
    save(timer)
    assert timer.take_changes(NOW) is None
    assert given_out(timer, NOW + 3_000) == [0]
    save(timer, NOW + 3_000)
    assert timer.take_changes(NOW + 63_000) is None
    save(timer, NOW + 64_000)
    data = disk.load(layout.timer_checkpoint_path(ROOT))
    assert TimerCheckpoint.unpack(data) == (NOW + 64_000, SIZE, 1, 1, 0, NOW + 64_000, 3)


def test_what_could_not_be_saved_is_saved_with_the_next() -> None:
    disk = MemoryDisk()
    timer = opened(disk)
    put(timer, 1, 2)
    changes = timer.take_changes(NOW)
    assert changes is not None
    disk.fail_sync = True
    with pytest.raises(OSError, match="Input/output error"):
        timer.save(changes)
    timer.restore_changes(changes)
    disk.fail_sync = False
    again = timer.take_changes(NOW)
    assert again is not None and (again.slots, again.log_paths) == (changes.slots, changes.log_paths)


def test_before_it_is_loaded_nothing_is_saved() -> None:
    timer = Timer(OpenFiles(MemoryDisk(), writable=True), ROOT, SETTINGS)
    assert timer.take_changes(NOW) is None


def test_what_waits_in_a_real_brokers_store_waits_on(golden: Mapping[str, Path], tmp_path: Path) -> None:
    root = tmp_path / "store"
    copytree(golden["store-clean"], root)
    timer = opened(Disk(), root=root, settings=StoreSettings())
    slots = []
    while (slot := timer.take(2**42)) is not None:
        slots.append(slot)
        timer.mark_done()
    assert [slot.unit_count for slot in slots] == [1] * 10
    assert timer.queue_offset == 20
    timer.close()
