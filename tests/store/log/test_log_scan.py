"""Walking the CommitLog: in chunks, across files, past damage, up to a torn tail."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.store.conftest import ROOT, SMALL, new_message

from cometmq.format import layout
from cometmq.io.clock import ManualClock
from cometmq.io.open_files import OpenFiles
from cometmq.store import MessageStore
from cometmq.store.files.spread import LogSpread
from cometmq.store.log.commit_log import CommitLog
from cometmq.store.log.log_scan import LogScan
from cometmq.testing.memory_disk import MemoryDisk

FIRST, SECOND = (layout.commitlog_path(ROOT, start) for start in (0, 8_192))
BEGIN_MS = 1_700_000_000_000
STEP_MS = 10
COUNT = 60


class Written:
    """A log of 60 records, one each 10 ms, in three files; bytes can be changed."""

    def __init__(self) -> None:
        disk, clock = MemoryDisk(), ManualClock(BEGIN_MS)
        with MessageStore.open(ROOT, SMALL, files=disk, clock=clock) as store:
            self.offsets = []
            for n in range(COUNT):
                self.offsets.append(store.append([new_message(body=b"%03d" % n * 70)])[0].physical_offset)
                clock.advance(STEP_MS)
            self.end = store.written_offset
        self.disk = disk

    @property
    def log(self) -> CommitLog:
        log = CommitLog(OpenFiles(self.disk, writable=True), LogSpread((layout.commitlog_dir(ROOT),)), 8_192)
        log.chain.load()
        return log

    def put(self, offset: int, data: bytes) -> None:
        """Overwrite bytes of the log."""
        start = offset - offset % 8_192
        self.disk.open(layout.commitlog_path(ROOT, start), writable=True).write(offset - start, data)


@pytest.fixture
def written() -> Written:
    return Written()


def walked(scan: LogScan) -> list[int]:
    """The offsets of the records met."""
    return [offset for chunk in scan for offset in chunk.scan.physical_offset.tolist()]


def test_every_record_is_met_once_in_order_and_the_end_is_found(written: Written) -> None:
    scan = LogScan(written.log, 0)
    assert walked(scan) == written.offsets
    assert (scan.end_offset, scan.damages) == (written.end, [])
    assert scan.last_time == BEGIN_MS + (COUNT - 1) * STEP_MS


def test_a_walk_begins_and_ends_at_records(written: Written) -> None:
    begin, end = written.offsets[7], written.offsets[50]
    scan = LogScan(written.log, begin, end)
    assert walked(scan) == written.offsets[7:50]
    assert scan.end_offset == end


@given(st.integers(250, 9_000))
@settings(max_examples=40, deadline=None)
def test_the_length_of_a_chunk_does_not_matter(chunk_bytes: int) -> None:
    written = Written()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cometmq.store.log.log_scan.CHUNK_BYTES", max(chunk_bytes, 320))
        scan = LogScan(written.log, 0)
        assert walked(scan) == written.offsets
        assert (scan.end_offset, scan.damages) == (written.end, [])


def test_damage_in_a_file_is_passed_over_and_reported(written: Written) -> None:
    third, sixth = written.offsets[3], written.offsets[6]
    written.put(third + 100, b"\xff" * (sixth - third - 150))
    scan = LogScan(written.log, 0)
    assert walked(scan) == [*written.offsets[:3], *written.offsets[6:]]
    (damage,) = scan.damages
    assert damage[:3] == (FIRST, third, sixth - third)
    assert damage.reason


def test_damage_up_to_a_files_end_leads_to_the_next_file(written: Written) -> None:
    last = max(offset for offset in written.offsets if offset < 8_192)
    written.put(last + 4, b"\0" * 4)
    scan = LogScan(written.log, 0)
    assert walked(scan) == [offset for offset in written.offsets if offset != last]
    assert [damage[:3] for damage in scan.damages] == [(FIRST, last, 8_192 - last)]


def test_a_file_whose_beginning_is_damaged_is_read_behind_that(written: Written) -> None:
    first = min(offset for offset in written.offsets if offset >= 8_192)
    assert first == 8_192
    written.put(first, bytes(8))
    scan = LogScan(written.log, 0)
    assert walked(scan) == [offset for offset in written.offsets if offset != first]
    assert scan.damages[0].path == SECOND
    assert "zeros" in scan.damages[0].reason


def test_a_torn_last_record_ends_the_log(written: Written) -> None:
    written.put(written.end - 30, bytes(30))
    scan = LogScan(written.log, 0)
    assert walked(scan) == written.offsets[:-1]
    assert (scan.end_offset, scan.damages) == (written.offsets[-1], [])


def test_true_records_that_nobody_vouches_for_do_not_count_behind_damage(written: Written) -> None:
    written.put(written.offsets[40] + 100, b"\xff")
    vouched = BEGIN_MS + 40 * STEP_MS
    scan = LogScan(written.log, 0, vouched_time=vouched)
    assert walked(scan) == written.offsets[:40]
    scan = LogScan(written.log, 0, vouched_time=vouched + STEP_MS)
    assert walked(scan) == [*written.offsets[:40], *written.offsets[41:]]


def test_records_of_an_earlier_life_do_not_count_behind_damage(written: Written) -> None:
    """They are older than the one before the damage."""
    earlier = MemoryDisk()
    with MessageStore.open(ROOT, SMALL, files=earlier, clock=ManualClock(BEGIN_MS - 10**6)) as store:
        for n in range(COUNT):
            store.append([new_message(body=b"%03d" % n * 70)])
    end = written.offsets[20]
    assert end < 8_192
    written.put(end, earlier.load(FIRST)[end:])
    written.put(8_192, earlier.load(SECOND))
    written.put(end, b"\xff" * 10)
    assert walked(LogScan(written.log, 0, 16_384)) == written.offsets[:20]


def test_bodies_are_checked_only_if_asked_for(written: Written) -> None:
    written.put(written.offsets[5] + 100, b"\xff")
    assert len(walked(LogScan(written.log, 0, verify_crc=False))) == COUNT


def test_an_empty_log_has_no_records() -> None:
    log = CommitLog(OpenFiles(MemoryDisk(), writable=True), LogSpread((Path("/log"),)), 8_192)
    scan = LogScan(log, 0)
    assert (walked(scan), scan.end_offset, scan.last_time) == ([], 0, 0)
