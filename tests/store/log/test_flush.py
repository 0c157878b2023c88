"""The flusher: whom one sync answers, when it syncs unasked, what a failed sync means."""

import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.store.conftest import ROOT, SMALL, OpenStore, new_message

from cometmq.errors import StoreNotWritable
from cometmq.format import layout
from cometmq.io.clock import ManualClock
from cometmq.io.descriptors import SCARCE, SyncFailed
from cometmq.io.files import Disk, File
from cometmq.io.open_files import OpenFiles
from cometmq.store.files.spread import LogSpread
from cometmq.store.log.commit_log import CommitLog
from cometmq.store.log.flush import Flusher
from cometmq.store.settings import PAGE_SIZE, StoreSettings
from cometmq.testing.memory_disk import MemoryDisk

WAIT_S = 60
QUICK = replace(SMALL, mapped_file_size_commit_log=65_536, flush_interval_commit_log=1)
RARELY = replace(QUICK, flush_interval_commit_log=1_000_000)
"""A flusher that does nothing unless it is told to."""
PAGES_FULL = QUICK.flush_commit_log_least_pages * PAGE_SIZE
WOKEN = replace(RARELY, flush_commit_log_timed=False, wake_flush_when_put_message=True)


class GatedDisk(MemoryDisk):
    """A disk that syncs only while its gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()
        self.is_syncing = threading.Event()
        self.synced: list[Path] = []
        self.errors: list[OSError] = []

    def sync(self, path: Path) -> None:
        self.is_syncing.set()
        assert self.gate.wait(WAIT_S)
        if self.errors:
            raise self.errors.pop()
        super().sync(path)
        self.synced.append(path)


class Bench:
    """A CommitLog with a flusher."""

    def __init__(self, disk: MemoryDisk, clock: ManualClock) -> None:
        self.flushed = threading.Semaphore(0)
        self.log = CommitLog(
            OpenFiles(disk, writable=True),
            LogSpread((layout.commitlog_dir(ROOT),)),
            QUICK.mapped_file_size_commit_log,
        )
        self._clock = clock
        self._flusher: Flusher | None = None

    def start(self, settings: StoreSettings = RARELY) -> Flusher:
        flusher = Flusher(self.log, settings, self._clock, self.flushed.release)
        self._flusher = flusher
        flusher.start()
        return flusher

    def append(self, size: int = 10) -> int:
        self.log.append([new_message(body=bytes(size))], [0], self._clock.now_ms())
        return self.log.written_offset

    def stop(self) -> None:
        if self._flusher is not None:
            self._flusher.stop()


@pytest.fixture
def disk() -> GatedDisk:
    return GatedDisk()


@pytest.fixture
def bench(disk: GatedDisk, clock: ManualClock) -> Iterator[Bench]:
    bench = Bench(disk, clock)
    yield bench
    disk.gate.set()
    bench.stop()


def test_who_waits_for_what_is_on_the_disk_is_answered_at_once(bench: Bench) -> None:
    end = bench.append()
    flusher = bench.start()
    assert flusher.wait(end).done()


def test_all_who_wait_when_a_sync_begins_are_answered_by_it(bench: Bench, disk: GatedDisk) -> None:
    flusher = bench.start()
    disk.gate.clear()
    first = flusher.wait(bench.append())
    assert disk.is_syncing.wait(WAIT_S)
    others = [flusher.wait(bench.append()) for _ in range(50)]
    assert not first.done() and not any(other.done() for other in others)
    disk.gate.set()
    for waiter in [first, *others]:
        waiter.result(WAIT_S)
    assert len(disk.synced) == 2
    assert flusher.flushed_offset == bench.log.written_offset


def test_who_comes_during_a_sync_that_covers_him_needs_no_other(bench: Bench, disk: GatedDisk) -> None:
    flusher = bench.start()
    end = bench.append()
    disk.gate.clear()
    flusher.sync_soon()
    assert disk.is_syncing.wait(WAIT_S)
    waiter = flusher.wait(end)
    disk.gate.set()
    waiter.result(WAIT_S)
    assert len(disk.synced) == 1


def test_the_flushed_offset_has_moved_when_the_owner_is_told_and_both_before_the_waiter(bench: Bench) -> None:
    flusher = bench.start()
    end = bench.append()
    flusher.wait(end).result(WAIT_S)
    assert flusher.flushed_offset == end
    assert bench.flushed.acquire(blocking=False)


def test_a_sync_can_be_asked_for_without_waiting(bench: Bench) -> None:
    flusher = bench.start()
    end = bench.append()
    flusher.sync_soon()
    assert bench.flushed.acquire(timeout=WAIT_S)
    assert flusher.flushed_offset == end


def test_every_file_between_the_two_offsets_is_synced_and_no_other(bench: Bench, disk: GatedDisk) -> None:
    flusher = bench.start()
    flusher.wait(bench.append(60_000)).result(WAIT_S)
    flusher.wait(bench.append(60_000)).result(WAIT_S)
    bench.append(60_000)
    flusher.wait(bench.append(60_000)).result(WAIT_S)
    names = [int(path.name) // QUICK.mapped_file_size_commit_log for path in disk.synced]
    assert names == [0, 0, 1, 1, 2, 3]  # the first file again: a blank has closed it


def test_enough_pages_are_synced_without_anyone_asking(bench: Bench) -> None:
    flusher = bench.start(QUICK)
    end = bench.append(PAGES_FULL)
    assert bench.flushed.acquire(timeout=WAIT_S)
    assert flusher.flushed_offset == end


def test_little_is_synced_once_enough_time_has_passed(bench: Bench, clock: ManualClock) -> None:
    flusher = bench.start(QUICK)
    end = bench.append()
    assert flusher.flushed_offset == 0
    clock.advance(QUICK.flush_commit_log_thorough_interval)
    assert bench.flushed.acquire(timeout=WAIT_S)
    assert flusher.flushed_offset == end


def test_appends_end_the_interval_of_a_flush_that_is_not_timed(bench: Bench) -> None:
    flusher = bench.start(WOKEN)
    for number in range(1, 4):
        end = bench.append(PAGES_FULL)
        flusher.keep_up()
        assert bench.flushed.acquire(timeout=WAIT_S)
        assert (flusher.flushed_offset, flusher.sync_count) == (end, number)
    bench.append()
    flusher.keep_up()
    assert not flusher._has_pages, "a few bytes wait for the interval"


@pytest.mark.parametrize(
    "timed",
    [replace(WOKEN, flush_commit_log_timed=True), replace(WOKEN, wake_flush_when_put_message=False)],
    ids=["timed", "woken by nobody"],
)
def test_a_flush_sleeps_its_interval_through_whatever_is_appended(
    bench: Bench, disk: GatedDisk, clock: ManualClock, timed: StoreSettings
) -> None:
    flusher = bench.start(timed)
    for _ in range(3):
        end = bench.append(PAGES_FULL)
        clock.advance(timed.flush_commit_log_thorough_interval)
        flusher.keep_up()
        assert not disk.is_syncing.wait(0.05)
    flusher.wait(end).result(WAIT_S)
    assert disk.synced == [bench.log.chain.path(0)], "one sync for all"


def test_a_commit_of_the_pool_ends_the_interval_of_a_flush_that_is_not_timed(
    open_store: OpenStore, disk: GatedDisk
) -> None:
    pool = replace(RARELY, transient_store_pool_enable=True, commit_interval_commit_log=1)
    for timed in (True, False):
        store = open_store(replace(pool, flush_commit_log_timed=timed), run_soon=lambda _: None)
        disk.is_syncing.clear()
        store.append([new_message(body=bytes(PAGES_FULL))])
        assert disk.is_syncing.wait(0.2 if timed else WAIT_S) is not timed
        store.close()


@pytest.mark.parametrize("run_soon", [None, lambda _: None], ids=["library", "broker"])
def test_an_append_to_the_store_wakes_the_flush(
    open_store: OpenStore, disk: GatedDisk, run_soon: Callable[[Callable[[], None]], None] | None
) -> None:
    store = open_store(WOKEN, run_soon=run_soon)
    disk.is_syncing.clear()
    store.append([new_message(body=bytes(PAGES_FULL))])
    assert disk.is_syncing.wait(WAIT_S)


def test_who_gives_up_waiting_does_not_end_the_thread(bench: Bench, disk: GatedDisk) -> None:
    flusher = bench.start()
    disk.gate.clear()
    waiter = flusher.wait(bench.append())
    assert not waiter.cancel()
    disk.gate.set()
    waiter.result(WAIT_S)
    flusher.wait(bench.append()).result(WAIT_S)


def test_a_failed_sync_fails_those_who_wait_and_all_who_come_later(bench: Bench, disk: GatedDisk) -> None:
    flusher = bench.start()
    disk.fail_sync = True
    disk.gate.clear()
    first = flusher.wait(bench.append())
    assert disk.is_syncing.wait(WAIT_S)
    second = flusher.wait(bench.append())
    disk.gate.set()
    for waiter in (first, second, flusher.wait(bench.append())):
        with pytest.raises(StoreNotWritable, match=r"sync failed: .*Input/output error.*since offset 0"):
            waiter.result(WAIT_S)
    assert flusher.failed is not None
    assert flusher.flushed_offset == 0
    assert bench.flushed.acquire(timeout=WAIT_S), "the failure was not told"


def test_a_failed_sync_is_not_tried_again(bench: Bench, disk: GatedDisk) -> None:
    flusher = bench.start()
    disk.fail_sync = True
    with pytest.raises(StoreNotWritable):
        flusher.wait(bench.append()).result(WAIT_S)
    disk.fail_sync = False
    flusher.stop()
    assert disk.synced == []


@pytest.mark.parametrize("number", sorted(SCARCE), ids=errno.errorcode.__getitem__)
def test_a_sync_that_could_not_begin_is_tried_again(bench: Bench, disk: GatedDisk, number: int) -> None:
    flusher = bench.start()
    disk.errors = [OSError(number, os.strerror(number)) for _ in range(3)]
    flusher.wait(bench.append()).result(WAIT_S)
    assert (disk.errors, flusher.failed) == ([], None)
    assert flusher.flushed_offset == bench.log.written_offset


def test_a_sync_that_began_and_failed_is_not_tried_again_whatever_its_number(
    bench: Bench, disk: GatedDisk
) -> None:
    flusher = bench.start()
    disk.errors = [SyncFailed(errno.ENOMEM, os.strerror(errno.ENOMEM))]
    with pytest.raises(StoreNotWritable, match="sync failed"):
        flusher.wait(bench.append()).result(WAIT_S)
    assert disk.synced == []


def test_stopping_tries_again_what_could_not_begin(bench: Bench, disk: GatedDisk) -> None:
    flusher = bench.start()
    bench.append()
    disk.errors = [OSError(errno.EMFILE, os.strerror(errno.EMFILE)) for _ in range(3)]
    flusher.stop()
    assert flusher.flushed_offset == bench.log.written_offset


def test_a_sync_opens_no_file(tmp_path: Path, clock: ManualClock) -> None:
    opened: list[Path] = []

    class Watched(Disk):
        def open(self, path: Path, *, writable: bool) -> File:
            opened.append(path)
            return super().open(path, writable=writable)

        def sync(self, path: Path) -> None:
            opened.append(path)
            super().sync(path)

    files = OpenFiles(Watched(), writable=True)
    log = CommitLog(files, LogSpread((layout.commitlog_dir(tmp_path),)), QUICK.mapped_file_size_commit_log)
    flusher = Flusher(log, RARELY, clock, lambda: None)
    log.append([new_message()], [0], clock.now_ms())
    flusher.start()
    opened.clear()
    for _ in range(3):
        flusher.wait(log.written_offset).result(WAIT_S)
        log.append([new_message()], [0], clock.now_ms())
    flusher.stop()
    assert (opened, flusher.sync_count) == ([], 4)
    log.close()
    files.close()


def test_stopping_syncs_what_is_left_and_answers_who_waits(bench: Bench, disk: GatedDisk) -> None:
    flusher = bench.start()
    disk.gate.clear()
    waiters = [flusher.wait(bench.append())]
    assert disk.is_syncing.wait(WAIT_S)
    waiters.append(flusher.wait(bench.append()))
    disk.gate.set()
    flusher.stop()
    assert all(waiter.done() and waiter.exception() is None for waiter in waiters)
    assert flusher.flushed_offset == bench.log.written_offset


def test_who_comes_after_the_stop_is_told(bench: Bench) -> None:
    flusher = bench.start()
    end = bench.append()
    flusher.stop()
    assert flusher.wait(end).exception() is None
    with pytest.raises(StoreNotWritable, match="closed"):
        flusher.wait(bench.append()).result(WAIT_S)
