"""A log that is truncated at an offset: what is kept, what is set aside, and what a crash leaves of both."""

import logging
from pathlib import Path
from random import Random

import pytest
from tests.kit.stores import FIRST, numbers
from tests.store.conftest import ROOT, SMALL, OpenStore, new_message

from cometmq.errors import StoreError, StoreLocked
from cometmq.format import layout
from cometmq.format.record import decode
from cometmq.io.clock import ManualClock
from cometmq.io.files import Disk
from cometmq.store import MessageStore, mend
from cometmq.store.directory import StoreDirectory
from cometmq.store.inspect.file import open_file
from cometmq.store.offline.find import FindQuery, find
from cometmq.store.recovery.truncate import Truncated, truncate_log
from cometmq.testing.memory_disk import MemoryDisk
from cometmq.testing.recorded_disk import RecordedDisk

COUNT = 90


def fill(store: MessageStore, clock: ManualClock, count: int = COUNT) -> list[int]:
    """Store messages and close; return the offset behind each, after 0."""
    ends = [0]
    for n in range(count):
        store.append([new_message(body=b"%03d" % n * 60, keys=f"k{n}")])
        ends.append(store.written_offset)
        clock.advance(7)
    store.close()
    return ends


def truncate(disk: MemoryDisk, clock: ManualClock, offset: int) -> Truncated | None:
    return truncate_log(ROOT, SMALL, offset, files=disk, clock=clock)


def set_aside(disk: MemoryDisk, truncated: Truncated | None) -> list[int]:
    """The numbers of the messages that the tools find in what was cut off."""
    assert truncated is not None
    return found_in(disk, truncated.folder)


def found_in(disk: MemoryDisk, folder: Path) -> list[int]:
    with StoreDirectory(folder, SMALL, disk) as store:
        return [int(found.record.body[:3]) for found in find(store, FindQuery(topic="Orders"))]


@pytest.mark.parametrize("kept", [0, 1, 20, 25, 26, 27, 60, COUNT - 1])
def test_the_log_ends_where_it_is_truncated_and_the_rest_can_be_found(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock, kept: int
) -> None:
    ends = fill(open_store(), clock)
    truncated = truncate(disk, clock, ends[kept])
    assert set_aside(disk, truncated) == list(range(kept, COUNT))
    store = open_store()
    assert store.recovered.end == store.written_offset == ends[kept]
    assert not store.recovered.damages and store.recovered.set_aside is None
    assert numbers(store) == list(range(kept))
    assert store.max_queue_offset("Orders", 0) == kept
    assert set(store.pointers[1:]) == {ends[kept]}


def test_queues_and_index_go_on_from_there(
    open_store: OpenStore,
    disk: MemoryDisk,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mend, "CHECKED_BYTES", 0)  # as in a large store; in a small one the index is rebuilt
    ends = fill(open_store(), clock)
    truncate(disk, clock, ends[30])
    assert "truncated at" in caplog.text and "setaside/truncated-" in caplog.text
    caplog.clear()
    store = open_store()
    warnings = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert [
        text.partition(f" have no records in the log, which ends at {ends[30]}")[0] for text in warnings
    ] == [
        "index entries",
        "queue entries",
    ]
    assert store.query("Orders", "k29").records and not store.query("Orders", "k30").records
    (appended,) = store.append([new_message(body=b"999" * 60, keys="new")])
    assert (appended.physical_offset, appended.queue_offset) == (ends[30], 30)
    assert numbers(store) == [*range(30), 999]
    assert len(store.query("Orders", "new").records) == 1
    store.close()
    assert numbers(open_store()) == [*range(30), 999]


def test_an_unclean_store_is_truncated_too(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    store = open_store()
    offsets = [store.append([new_message(body=b"%03d" % n * 60)])[0].physical_offset for n in range(40)]
    killed = disk.after_kill()
    assert set_aside(killed, truncate(killed, clock, offsets[33])) == list(range(33, 40))
    assert numbers(open_store(files=killed)) == list(range(33))


def test_a_log_that_ends_there_already_stays_as_it_is(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    ends = fill(open_store(), clock)
    assert truncate(disk, clock, ends[-1]) is None
    assert truncate(disk, clock, ends[-1] + 500_000) is None
    assert not disk.exists(ROOT / "setaside") and not disk.exists(layout.abort_path(ROOT))


def test_an_offset_within_a_record_is_refused_and_nothing_changed(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    ends = fill(open_store(), clock)
    with pytest.raises(StoreError, match=f"no record ends at {ends[3] + 5}, but one at {ends[3]}.*empty the"):
        truncate(disk, clock, ends[3] + 5)
    assert numbers(open_store()) == list(range(COUNT))


def test_an_offset_before_the_log_is_refused(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    fill(open_store(), clock)
    disk.remove(FIRST)
    with pytest.raises(StoreError, match="cannot be truncated at 100, as it begins at 8192"):
        truncate(disk, clock, 100)


def test_an_open_store_is_refused(open_store: OpenStore, disk: MemoryDisk, clock: ManualClock) -> None:
    open_store().append([new_message()])
    with pytest.raises(StoreLocked):
        truncate(disk, clock, 0)


def test_two_truncations_at_once_have_folders_of_their_own(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    ends = fill(open_store(), clock)
    first = truncate(disk, clock, ends[60])
    second = truncate(disk, clock, ends[50])
    assert first is not None and second is not None and first.folder != second.folder
    assert set_aside(disk, second) == list(range(50, 60))
    store = open_store()
    fill(store, clock, 20)
    third = truncate(disk, clock, ends[50])
    assert set_aside(disk, third) == list(range(20))


@pytest.mark.parametrize("kept", [20, 28])
def test_after_a_crash_at_any_moment_the_log_is_a_beginning_and_no_record_is_lost(
    clock: ManualClock, kept: int
) -> None:
    disk = RecordedDisk()
    count = 60
    ends = fill(MessageStore.open(ROOT, SMALL, files=disk, clock=clock), clock, count)
    begin = len(disk.operations)
    truncate(disk, clock, ends[kept])
    moments = range(begin, len(disk.operations) + 1)
    assert len(moments) > 10
    for states in (disk.states(moments, Random(kept)), disk.states(moments)):
        for state in states:
            folders = [ROOT / "setaside" / name for name in state.names(ROOT / "setaside")]
            begun = [folder for folder in folders if state.exists(layout.commitlog_dir(folder))]
            aside = [number for folder in begun for number in found_in(state, folder)]
            with MessageStore.open(ROOT, SMALL, files=state, clock=clock) as store:
                left = numbers(store)
                assert left == list(range(len(left))) and len(left) >= kept
                assert {*left, *aside} == set(range(count))
                assert not store.recovered.damages
            truncate(state, clock, ends[kept])
            with MessageStore.open(ROOT, SMALL, files=state, clock=clock) as store:
                assert numbers(store) == list(range(kept))


def test_on_a_real_disk_inspect_reads_what_was_cut_off(tmp_path: Path, clock: ManualClock) -> None:
    root = tmp_path / "store"
    ends = fill(MessageStore.open(root, SMALL, clock=clock), clock)
    truncated = truncate_log(root, SMALL, ends[40], clock=clock)
    assert truncated is not None and truncated.cut_bytes == ends[-1] - ends[40]
    start = ends[40] - ends[40] % SMALL.mapped_file_size_commit_log
    with open_file(Disk(), layout.commitlog_path(truncated.folder, start), SMALL) as view:
        rows = list(view.rows(ends[40]))
    assert f"{ends[40]}" in str(rows[0])
    with MessageStore.open(root, SMALL, clock=clock) as store:
        assert [decode(record).body[:3] for record in store.get("Orders", 0, 39).records] == [b"039"]
        assert store.written_offset == ends[40]
