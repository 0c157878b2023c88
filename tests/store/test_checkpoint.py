"""The checkpoint of an open store: what it vouches for, and when it takes that back."""

import logging
from pathlib import Path

import pytest
from tests.store.conftest import ROOT

from cometmq.format import layout
from cometmq.format.checkpoint import SIZE, Checkpoint
from cometmq.io.open_files import OpenFiles
from cometmq.store.checkpoint import CheckpointFile
from cometmq.testing.memory_disk import MemoryDisk

PATH = layout.checkpoint_path(ROOT)
TIME = 1_700_000_000_000


def checkpoint_on(disk: MemoryDisk, path: Path = PATH) -> CheckpointFile:
    checkpoint = CheckpointFile(OpenFiles(disk, writable=True), path)
    checkpoint.load()
    return checkpoint


@pytest.fixture
def disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_directory(ROOT)
    return disk


def test_without_a_file_nothing_is_trusted(disk: MemoryDisk) -> None:
    checkpoint = checkpoint_on(disk)
    assert (checkpoint.value, checkpoint.vouched_time) == (Checkpoint(), 0)


def test_what_is_noted_is_read_again(disk: MemoryDisk) -> None:
    checkpoint_on(disk).advance(flushed_time=TIME, dispatched_time=TIME - 5)
    again = checkpoint_on(disk)
    assert again.value[:2] == (TIME, TIME - 5)
    assert again.vouched_time == TIME
    assert disk.size(PATH) == SIZE


def test_a_file_that_is_cut_is_not_trusted(disk: MemoryDisk, caplog: pytest.LogCaptureFixture) -> None:
    disk.put(PATH, bytes(39))
    with caplog.at_level(logging.WARNING):
        assert checkpoint_on(disk).value == Checkpoint()
    assert "recovery reads the whole log" in caplog.text


def test_fields_of_others_are_kept(disk: MemoryDisk) -> None:
    disk.put(PATH, Checkpoint(1, 2, 3, 4, 5).pack())
    checkpoint_on(disk).advance(flushed_time=TIME)
    assert checkpoint_on(disk).value == Checkpoint(TIME, 2, 3, 4, 5)


def test_an_earlier_time_changes_nothing(disk: MemoryDisk) -> None:
    checkpoint = checkpoint_on(disk)
    checkpoint.advance(flushed_time=TIME, dispatched_time=TIME)
    checkpoint.advance(flushed_time=TIME - 1, dispatched_time=0)
    assert checkpoint_on(disk).value[:2] == (TIME, TIME)


def test_times_go_back_when_the_clock_does_and_stay_back_without_power(disk: MemoryDisk) -> None:
    checkpoint = checkpoint_on(disk)
    checkpoint.advance(flushed_time=TIME, dispatched_time=TIME)
    checkpoint.sync()
    checkpoint.lower(TIME - 3_600_000)
    assert checkpoint.vouched_time == TIME - 3_600_000
    again = checkpoint_on(disk.after_power_loss())
    assert again.value[:2] == (TIME - 3_600_000, TIME - 3_600_000)


def test_a_full_disk_leaves_what_was_noted(disk: MemoryDisk) -> None:
    checkpoint = checkpoint_on(disk)
    disk.space_bytes = 0
    with pytest.raises(OSError, match="No space"):
        checkpoint.advance(flushed_time=TIME)
    assert checkpoint.value == Checkpoint()


def test_what_the_file_holds_since_this_start_is_not_written_again(disk: MemoryDisk) -> None:
    checkpoint_on(disk).advance(flushed_time=TIME)
    checkpoint = checkpoint_on(disk)
    written: list[int] = []
    for flushed_time in (TIME, TIME, TIME + 1, TIME - 1):
        checkpoint._files.get(PATH).write(0, bytes(SIZE))
        checkpoint.advance(flushed_time=flushed_time)
        written.append(len(disk.load(PATH).strip(b"\0")))
    assert [bool(size) for size in written] == [True, False, True, False]
