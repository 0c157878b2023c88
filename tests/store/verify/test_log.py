"""The CommitLog: where damage is, and how far."""

from tests.store.conftest import ROOT
from tests.store.verify.conftest import (
    ABORT,
    FIRST_LOG,
    MESSAGES,
    checked,
    damages,
    flip,
    last_log,
    overwrite,
)

from cometmq.format import layout
from cometmq.format.record import MAGIC_BLANK
from cometmq.store.files.finding import Severity
from cometmq.store.verify import State
from cometmq.testing.memory_disk import MemoryDisk


def record_position(disk: MemoryDisk, number: int) -> int:
    """Where a record begins in the first file."""
    data, position = disk.load(FIRST_LOG), 0
    for _ in range(number):
        position += int.from_bytes(data[position : position + 4], "big")
    return position


def test_a_damaged_body_is_told_with_file_position_and_size(sound: MemoryDisk) -> None:
    flip(sound, FIRST_LOG, 100)
    verified = checked(sound)
    (finding,) = damages(verified)
    assert finding[1:4] == (FIRST_LOG, 0, record_position(sound, 1))
    assert "BODYCRC" in finding.what
    assert verified.messages == MESSAGES - 1
    (note,) = [finding for finding in verified.findings if finding.severity is Severity.NOTE]
    assert "queue offset 0" in note.what and "its record is damaged" in note.what


def test_a_damaged_stretch_of_many_records_is_one_finding(sound: MemoryDisk) -> None:
    begin, end = record_position(sound, 4), record_position(sound, 7)
    overwrite(sound, FIRST_LOG, begin, b"\xff" * (end - begin - 100))
    (finding,) = damages(checked(sound))
    assert (finding.position, finding.size) == (begin, end - begin)


def test_a_missing_file_is_told_and_the_files_behind_it_are_checked(sound: MemoryDisk) -> None:
    second, third = layout.commitlog_path(ROOT, 8_192), layout.commitlog_path(ROOT, 16_384)
    sound.remove(second)
    flip(sound, third, 100)
    verified = checked(sound)
    what = [(finding.path, finding.what) for finding in damages(verified) if finding.path == third]
    assert (third, "the file before it ends at 8192") in what
    assert any("BODYCRC" in text for _, text in what)


def test_a_file_of_the_wrong_length_is_told(sound: MemoryDisk) -> None:
    sound.put(FIRST_LOG, sound.load(FIRST_LOG)[:5_000])
    assert "has 5000 bytes, expected 8192; set mappedFileSizeCommitLog" in str(damages(checked(sound))[0])


def test_a_blank_that_does_not_fill_its_file_is_told(sound: MemoryDisk) -> None:
    position = sound.load(FIRST_LOG).index(MAGIC_BLANK.to_bytes(4, "big")) - 4
    flip(sound, FIRST_LOG, position + 3)
    (finding,) = damages(checked(sound))
    assert (finding.path, finding.position) == (FIRST_LOG, position)
    assert "are left in the file" in finding.what


def test_a_file_without_its_blank_is_told(sound: MemoryDisk) -> None:
    position = sound.load(FIRST_LOG).index(MAGIC_BLANK.to_bytes(4, "big")) - 4
    overwrite(sound, FIRST_LOG, position, bytes(8))
    (finding,) = damages(checked(sound))
    assert finding.position == position
    assert "zeros where a record should be" in finding.what


def test_zeros_at_the_end_are_damage_if_the_queues_know_better(sound: MemoryDisk) -> None:
    last = last_log(sound)
    overwrite(sound, last, 0, bytes(len(sound.load(last))))
    verified = checked(sound)
    assert any("the ConsumeQueues know records up to" in finding.what for finding in damages(verified))
    sound.put(ABORT, b"1")
    assert checked(sound).state is State.NEEDS_RECOVERY


def test_bytes_behind_the_end_that_nobody_knows_are_a_note(sound: MemoryDisk) -> None:
    last = last_log(sound)
    overwrite(sound, last, len(sound.load(last)) - 50, b"left behind")
    verified = checked(sound)
    assert verified.state is State.SOUND
    assert [finding.path for finding in verified.findings] == [last]


def test_a_log_without_any_record_left_is_damaged(sound: MemoryDisk) -> None:
    for path in [path for path in sound._files if path.parent == FIRST_LOG.parent]:
        overwrite(sound, path, 0, bytes(8_192))
    verified = checked(sound)
    assert (verified.state, verified.messages) == (State.DAMAGED, 0)
