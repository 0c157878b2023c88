"""The CommitLog: records one behind the other, over files, all of a batch or nothing."""

import errno
import re
from pathlib import Path
from typing import Any

import pytest
from tests.store.conftest import ROOT, new_message

from cometmq.errors import MessageIllegal, StoreNotWritable
from cometmq.format import layout
from cometmq.format.record import END_FILE_MIN_BLANK, MAGIC_BLANK, decode
from cometmq.format.scan import StopReason, scan
from cometmq.io.open_files import OpenFiles
from cometmq.store import Appended, NewMessage
from cometmq.store.files.spread import LogSpread
from cometmq.store.log.commit_log import CommitLog, describe
from cometmq.testing.memory_disk import BLOCK_SIZE, MemoryDisk

FILE_SIZE = 8_192
OVERHEAD = len(b"Orders") + 91
TIME = 1_700_000_000_000


def log_on(disk: MemoryDisk, file_size: int = FILE_SIZE) -> CommitLog:
    return CommitLog(OpenFiles(disk, writable=True), LogSpread((layout.commitlog_dir(ROOT),)), file_size)


def sized(size: int) -> NewMessage:
    """A message whose record takes ``size`` bytes."""
    return new_message(body=b"x" * (size - OVERHEAD))


def append(log: CommitLog, *messages: NewMessage) -> list[Appended]:
    return log.append(messages, range(len(messages)), TIME)


def content(disk: MemoryDisk, start: int = 0) -> bytes:
    return disk.load(layout.commitlog_path(ROOT, start))


def test_records_lie_one_behind_the_other_and_say_where(disk: MemoryDisk) -> None:
    log = log_on(disk)
    appended = append(log, sized(200), sized(300))
    assert appended == [Appended(0, 0, 200, TIME), Appended(200, 1, 300, TIME)]
    assert (log.written_offset, log.written_time) == (500, TIME)
    walk = scan(content(disk), base_offset=0)
    assert [(head.physical_offset, head.queue_offset, head.store_time) for head in walk] == [
        (0, 0, TIME),
        (200, 1, TIME),
    ]
    assert walk.stop.reason is StopReason.END


def test_appending_nothing_changes_nothing(disk: MemoryDisk) -> None:
    log = log_on(disk)
    assert append(log) == []
    assert (log.written_offset, log.written_time, log.chain.starts) == (0, 0, [])


def test_a_record_fits_if_a_blank_fits_behind_it(disk: MemoryDisk) -> None:
    log = log_on(disk)
    assert append(log, sized(FILE_SIZE - END_FILE_MIN_BLANK))[0].physical_offset == 0
    assert log.chain.starts == [0]
    (following,) = append(log, sized(200))
    assert following.physical_offset == FILE_SIZE
    assert content(disk)[-8:] == (8).to_bytes(4, "big") + MAGIC_BLANK.to_bytes(4, "big")


def test_a_record_one_byte_too_long_goes_to_the_next_file(disk: MemoryDisk) -> None:
    log = log_on(disk)
    append(log, sized(200))
    (rolled,) = append(log, sized(FILE_SIZE - END_FILE_MIN_BLANK - 199))
    assert rolled.physical_offset == FILE_SIZE
    walk = scan(content(disk), base_offset=0)
    assert len(list(walk)) == 1 and walk.stop.reason is StopReason.BLANK


def test_a_batch_goes_over_as_many_files_as_it_needs(disk: MemoryDisk) -> None:
    log = log_on(disk)
    appended = append(log, *[sized(3_000)] * 5)
    assert [at.physical_offset for at in appended] == [
        0,
        3_000,
        FILE_SIZE,
        FILE_SIZE + 3_000,
        2 * FILE_SIZE,
    ]
    assert log.chain.starts == [0, FILE_SIZE, 2 * FILE_SIZE]
    assert all(log.read_record(at.physical_offset) is not None for at in appended)


def test_a_record_that_no_file_takes_is_refused_with_limit_and_setting(disk: MemoryDisk) -> None:
    log = log_on(disk)
    with pytest.raises(MessageIllegal, match=r"8185 bytes: .* at most 8184; .*mappedFileSizeCommitLog"):
        append(log, sized(200), sized(FILE_SIZE - END_FILE_MIN_BLANK + 1))
    assert (log.written_offset, log.chain.starts) == (0, [])


@pytest.mark.parametrize(
    "message",
    [
        new_message(topic="x" * 33_000),
        new_message(queue_id=2**31),
        new_message(queue_id=-(2**31) - 1),
        new_message(flag=2**31),
        new_message()._replace(born_time=2**63),
        new_message()._replace(properties=bytes(32_768)),
        new_message()._replace(born_host=bytes(7)),
    ],
    ids=["topic", "queue id", "negative queue id", "flag", "born time", "properties", "host"],
)
def test_what_no_field_can_hold_is_refused_and_nothing_of_its_batch_is_written(
    disk: MemoryDisk, message: NewMessage
) -> None:
    log = log_on(disk, 1 << 20)
    with pytest.raises(MessageIllegal):
        append(log, sized(200), message)
    assert (log.written_offset, log.chain.starts) == (0, [])


def test_the_largest_numbers_are_kept(disk: MemoryDisk) -> None:
    log = log_on(disk)
    most: dict[str, Any] = {"queue_id": 2**31 - 1, "flag": -(2**31), "reconsume_times": 2**31 - 1}
    append(log, new_message(**most)._replace(born_time=2**63 - 1))
    record = log.read_record(0)
    assert record is not None
    assert decode(record)._asdict().items() >= (most | {"born_time": 2**63 - 1}).items()


def test_a_record_is_read_where_one_begins_and_nowhere_else(disk: MemoryDisk) -> None:
    log = log_on(disk)
    append(log, sized(200), sized(300))
    assert decode(log.read_record(200) or b"").physical_offset == 200
    for offset in (-1, 1, 199, 201, 500, FILE_SIZE, 2**62):
        assert log.read_record(offset) is None


def test_what_is_not_written_yet_or_goes_over_a_file_is_not_read(disk: MemoryDisk) -> None:
    log = log_on(disk)
    append(log, *[sized(3_000)] * 3)
    assert log.read(0, 3_000) is not None
    assert log.read(6_000, FILE_SIZE - 6_000 + 1) is None
    assert log.read(FILE_SIZE, 3_001) is None
    assert log.read(-8, 8) is None


def filled_up(disk: MemoryDisk) -> tuple[CommitLog, list[Appended]]:
    """A log with a few records, on a disk that has no further block."""
    log = log_on(disk, 1 << 20)
    appended = append(log, sized(1_000), sized(1_000))
    disk.space_bytes = BLOCK_SIZE
    return log, appended


def test_a_full_disk_stores_nothing_of_a_batch_and_leaves_no_record_of_it(disk: MemoryDisk) -> None:
    log, stored = filled_up(disk)
    with pytest.raises(StoreNotWritable, match=r"disk full .*free some space"):
        append(log, *[sized(500)] * 10)  # four of them fit the block that there is
    assert log.written_offset == 2_000
    assert len(list(scan(content(disk), base_offset=0))) == len(stored)


def test_what_still_fits_a_full_disk_is_taken(disk: MemoryDisk) -> None:
    log, _ = filled_up(disk)
    with pytest.raises(StoreNotWritable):
        append(log, sized(100_000))
    assert append(log, sized(1_000))[0].physical_offset == 2_000


def test_writing_goes_on_where_it_was_when_space_is_freed(disk: MemoryDisk) -> None:
    log, _ = filled_up(disk)
    with pytest.raises(StoreNotWritable):
        append(log, *[sized(500)] * 10)
    disk.space_bytes = 1 << 20
    assert append(log, sized(300))[0].physical_offset == 2_000
    walk = scan(content(disk), base_offset=0)
    assert [head.size for head in walk] == [1_000, 1_000, 300]
    assert walk.stop.reason is StopReason.END


def test_a_full_disk_at_the_border_of_a_file_leaves_the_last_file_as_it_was(disk: MemoryDisk) -> None:
    log = log_on(disk)
    append(log, sized(8_000))
    disk.space_bytes = FILE_SIZE
    before = content(disk)
    with pytest.raises(StoreNotWritable):
        append(log, sized(4_000))
    assert content(disk) == before
    disk.space_bytes = 1 << 20
    assert append(log, sized(100))[0].physical_offset == 8_000
    assert append(log, sized(4_000))[0].physical_offset == FILE_SIZE


@pytest.mark.parametrize(
    ("number", "said"),
    [(errno.ENOSPC, "disk full under .*: free some space"), (errno.EACCES, "cannot write .*: Permission")],
)
def test_an_error_of_the_disk_says_what_helps(number: int, said: str) -> None:
    assert re.search(said, describe(OSError(number, ""), Path("store")))


def test_a_write_that_lacks_a_descriptor_says_where_to_get_one() -> None:
    said = describe(OSError(errno.EMFILE, "Too many open files"), Path("/store"))
    assert "ulimit -n" in said and "maxConnections" in said and "without a restart" in said
