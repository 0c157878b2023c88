from pathlib import Path

import pytest

from cometmq.errors import StoreDamaged
from cometmq.format.timer.log import BLANK_SIZE, SIZE, Unit, blank
from cometmq.io.open_files import OpenFiles
from cometmq.store.timer.timer_log import TimerLog
from cometmq.testing.memory_disk import MemoryDisk

DIRECTORY = Path("/disk/store/timerlog")
FILE_SIZE = 4096
IN_FILE = (FILE_SIZE - BLANK_SIZE) // SIZE


def opened(disk: MemoryDisk) -> TimerLog:
    log = TimerLog(OpenFiles(disk, writable=True), DIRECTORY, FILE_SIZE)
    log.load()
    return log


def unit(number: int, previous: int = -1) -> Unit:
    return Unit(previous, 1, 1000, 0, 100 * number, 100, 7)


def filled(disk: MemoryDisk, count: int) -> tuple[TimerLog, list[int]]:
    """Return a log of so many units of one slot, and their positions."""
    log = opened(disk)
    positions = log.next_positions(count)
    log.append(positions, [unit(number, ([-1, *positions])[number]) for number in range(count)])
    return log, positions


def test_units_go_on_in_the_next_file_behind_a_blank() -> None:
    disk = MemoryDisk()
    log, positions = filled(disk, 2 * IN_FILE + 3)
    assert positions[IN_FILE - 1 : IN_FILE + 1] == [SIZE * (IN_FILE - 1), FILE_SIZE]
    left = FILE_SIZE - IN_FILE * SIZE
    assert disk.load(DIRECTORY / f"{0:020d}")[-left:] == blank(left).ljust(left, b"\0")
    assert log.end == 2 * FILE_SIZE + 3 * SIZE
    assert [at for at, _ in opened(disk).units(0)] == positions
    assert [at for at, _ in opened(disk).units(positions[5] + 1)] == positions[5:]


def test_a_slots_units_are_given_in_their_order() -> None:
    log, positions = filled(MemoryDisk(), 2 * IN_FILE + 3)
    assert [one.physical_offset for one in log.chained(positions[-1])] == list(
        range(0, 100 * len(positions), 100)
    )


def test_a_chain_that_goes_round_in_a_circle_ends() -> None:
    log = opened(MemoryDisk())
    log.append(log.next_positions(2), [unit(0, previous=SIZE), unit(1, previous=0)])
    assert [one.physical_offset for one in log.chained(SIZE)] == [0, 100]


def test_units_end_at_the_first_that_is_none() -> None:
    disk = MemoryDisk()
    _, positions = filled(disk, 2 * IN_FILE)
    file = disk.open(DIRECTORY / f"{0:020d}", writable=True)
    file.write(positions[10], bytes(4))
    assert [at for at, _ in opened(disk).units(0)] == positions[:10]


def test_what_is_cut_is_gone() -> None:
    disk = MemoryDisk()
    log, positions = filled(disk, 2 * IN_FILE)
    log.cut(positions[10])
    assert log.next_positions(1) == [positions[10]]
    assert [at for at, _ in opened(disk).units(0)] == positions[:10]


def test_files_expire_when_the_commit_log_has_passed_all_their_messages() -> None:
    disk = MemoryDisk()
    log, positions = filled(disk, 3 * IN_FILE)
    assert log.expired(100 * (IN_FILE - 1)) == []
    assert log.expired(100 * IN_FILE) == [DIRECTORY / f"{0:020d}"]
    assert log.expired(10**9) == [DIRECTORY / f"{FILE_SIZE:020d}"], "the last one stays"
    assert len(log.chained(positions[-1])) == IN_FILE, "those before have been given out"


def test_files_that_were_written_are_given_once_to_be_synced() -> None:
    log, _ = filled(MemoryDisk(), IN_FILE + 1)
    paths = {DIRECTORY / f"{start:020d}" for start in (0, FILE_SIZE)}
    assert log.take_unsynced() == paths
    assert log.take_unsynced() == set()
    log.add_unsynced(paths)
    assert log.take_unsynced() == paths


def test_a_full_disk_appends_none() -> None:
    disk = MemoryDisk()
    log, _ = filled(disk, 3)
    disk.space_bytes = 0
    with pytest.raises(OSError, match="No space"):
        log.append(log.next_positions(IN_FILE), [unit(number) for number in range(IN_FILE)])
    assert log.end == 3 * SIZE
    disk.space_bytes = 2**20
    log.append(log.next_positions(2), [unit(3), unit(4)])
    assert [one.physical_offset for _, one in opened(disk).units(0)][:5] == [0, 100, 200, 300, 400]


def test_a_file_of_another_size_is_refused() -> None:
    disk = MemoryDisk()
    filled(disk, 1)
    with pytest.raises(StoreDamaged, match="set mappedFileSizeTimerLog to what the store was written with"):
        TimerLog(OpenFiles(disk, writable=True), DIRECTORY, 8192).load()
