"""Keeping up: what is written back when, what the checkpoint vouches for, what a bad disk does to it."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.store.conftest import ROOT, SMALL, OpenStore, new_message

from cometmq.errors import StoreNotWritable
from cometmq.format import layout
from cometmq.format.checkpoint import RECOVERY_MARGIN_MS, Checkpoint
from cometmq.format.index import SLOT_SIZE, IndexHeader
from cometmq.format.queue_entry import SIZE
from cometmq.format.record import decode
from cometmq.io.clock import ManualClock
from cometmq.io.files import File
from cometmq.store import FlushDiskType, MessageStore
from cometmq.store.settings import PAGE_SIZE
from cometmq.store.upkeep import dispatch, upkeep
from cometmq.store.upkeep.upkeep import WRITE_MS_MAX
from cometmq.testing.memory_disk import MemoryDisk

SYNC = replace(SMALL, flush_disk_type=FlushDiskType.SYNC_FLUSH)
ROUND_MS = SMALL.flush_consume_queue_thorough_interval
TICK_MS = SMALL.flush_interval_consume_queue
QUEUE = layout.consume_queue_path(ROOT, "Orders", 0, 0)


class PickyDisk(MemoryDisk):
    """A disk on which the sync of some files fails."""

    bad: Path | None = None

    def __init__(self, space_bytes: int = 2**40) -> None:
        super().__init__(space_bytes)
        self.synced: list[Path] = []

    def sync(self, path: Path) -> None:
        self.synced.append(path)
        if self.bad is not None and path.is_relative_to(self.bad):
            raise OSError(errno.EIO, "Input/output error", str(path))
        super().sync(path)


def checkpoint(disk: MemoryDisk) -> Checkpoint:
    return Checkpoint.unpack(disk.load(layout.checkpoint_path(ROOT)))


def go_round(store: MessageStore, clock: ManualClock) -> list[Path]:
    """Run a thorough round, as the broker does it; return the files that were synced."""
    clock.advance(ROUND_MS)
    paths = store.tick()
    time = store.dispatched_time
    store.sync_files(paths)
    store.vouch(time)
    return paths


def count(store: MessageStore, topic: str = "Orders") -> int:
    """How many messages of a queue can be read; each must be the one that belongs there."""
    for queue_offset in range(store.max_queue_offset(topic, 0)):
        (record, *_) = store.get(topic, 0, queue_offset).records
        assert decode(record).queue_offset == queue_offset
    return store.max_queue_offset(topic, 0)


def test_a_round_whose_sync_could_not_begin_is_made_good_by_the_next_one(clock: ManualClock) -> None:
    class Scarce(PickyDisk):
        failures = 0

        def sync(self, path: Path) -> None:
            if self.failures:
                self.failures -= 1
                raise OSError(errno.EMFILE, "Too many open files", str(path))
            super().sync(path)

    disk = Scarce()
    store = MessageStore.open(ROOT, SMALL, files=disk, clock=clock, run_soon=lambda action: action())
    store.append([new_message()])
    disk.failures = 1
    paths = go_round(store, clock)
    assert QUEUE in paths and checkpoint(disk).logics_msg_timestamp == 0
    stored = store.dispatched_time
    assert set(paths) <= set(go_round(store, clock))
    go_round(store, clock)
    assert checkpoint(disk).logics_msg_timestamp == stored
    store.close()


def test_tails_are_written_by_the_page_each_second_and_all_of_them_in_a_round(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    store = open_store(run_soon=lambda _: None)
    store.append([new_message()])
    clock.advance(TICK_MS - 1)
    assert store.tick() == []
    clock.advance(1)
    assert store.tick() == []
    assert not disk.exists(QUEUE)
    clock.advance(ROUND_MS)
    assert QUEUE in store.tick()
    assert disk.load(QUEUE)[8:12] == store.get("Orders", 0, 0).records[0][:4]


def test_a_round_syncs_all_files_that_were_written_since_the_last(
    open_store: OpenStore, clock: ManualClock
) -> None:
    disk = PickyDisk()
    store = open_store(run_soon=lambda _: None, files=disk)
    for n in range(100):
        store.append([new_message(keys=f"k{n}", tags="t")])
    files = go_round(store, clock)
    queue_files = [path for path in files if path.is_relative_to(layout.consume_queues_dir(ROOT))]
    index_files = [path for path in files if path.is_relative_to(layout.index_dir(ROOT))]
    assert {path.parent for path in queue_files + index_files} <= set(disk.synced), "names must be synced too"
    assert len(queue_files) == 5 and len(index_files) == 5
    assert go_round(store, clock) == [layout.checkpoint_path(ROOT)]


def test_a_round_vouches_for_full_index_files_as_a_java_broker_would_delete_others(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    store = open_store(run_soon=lambda _: None)
    for n in range(100):
        clock.advance(1)
        store.append([new_message(keys=f"k{n}")])
    store.wait_flushed().result(timeout=60)
    assert checkpoint(disk).index_msg_timestamp == 0
    go_round(store, clock)
    directory = layout.index_dir(ROOT)
    files = [disk.load(directory / name) for name in disk.names(directory)]
    *full, newest = map(IndexHeader.unpack, files)
    assert full and full[-1].end_time == checkpoint(disk).index_msg_timestamp < newest.end_time
    clock.set_wall(full[-1].end_time)
    store.append([new_message()])
    assert checkpoint(disk).index_msg_timestamp < full[-1].end_time, "the clock was set back"


def test_after_a_round_a_loss_of_power_takes_nothing_that_it_vouched_for(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    store = open_store(run_soon=lambda _: None)
    for n in range(200):
        store.append([new_message(body=bytes(200), keys=f"k{n}")])
    clock.advance(2 * RECOVERY_MARGIN_MS)
    store.append([new_message()])
    store.wait_flushed().result(timeout=60)
    go_round(store, clock)
    store.append([new_message(body=bytes(8_000), keys="last")])
    store.wait_flushed().result(timeout=60)
    go_round(store, clock)
    again = open_store(files=disk.after_power_loss())
    assert again.recovered.begin > 0
    assert count(again) == 202
    assert all(len(again.query("Orders", f"k{n}").records) == 1 for n in range(200))
    assert len(again.query("Orders", "last").records) == 1


class SlowDisk(MemoryDisk):
    """A disk on which making a file takes its time."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock

    def create(self, path: Path, size: int, *, durable: bool = True) -> File:
        self._clock.advance(WRITE_MS_MAX)
        return super().create(path, size, durable=durable)


@pytest.mark.parametrize("between_ms", [TICK_MS, 1])
def test_what_many_queues_have_is_written_over_many_ticks_before_it_is_vouched_for(
    open_store: OpenStore, clock: ManualClock, between_ms: int
) -> None:
    disk = SlowDisk(clock)
    store = open_store(files=disk, run_soon=lambda _: None)
    store.append([new_message(queue_id=n) for n in range(5)])
    time = store.dispatched_time
    clock.advance(ROUND_MS)
    for n in range(5):
        assert len(disk.names(layout.topic_dir(ROOT, "Orders"))) == n
        paths = store.tick()
        assert bool(paths) == (n == 4)
        clock.advance(between_ms)
        store.append([new_message(queue_id=0)])  # is not written: it must not be vouched for
    store.sync_files(paths)
    store.vouch(store.dispatched_time)
    assert checkpoint(disk).logics_msg_timestamp == time < store.dispatched_time


def test_what_is_due_is_written_while_no_round_may_begin(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    store = open_store(run_soon=lambda _: None)
    store.append([new_message(queue_id=n) for n in range(2)])
    for _ in range(store.settings.flush_consume_queue_least_pages * PAGE_SIZE // SIZE + 1):
        store.append([new_message()])
    assert store.max_queue_offset("Orders", 0) > 1  # no longer staged
    clock.advance(ROUND_MS)
    assert store.tick(begins_round=False) == []
    assert disk.names(layout.topic_dir(ROOT, "Orders")) == ["0"]
    clock.advance(TICK_MS)
    assert QUEUE in store.tick()
    assert disk.names(layout.topic_dir(ROOT, "Orders")) == ["0", "1"]


def test_the_files_of_many_queues_and_the_index_are_told_after_some_ticks_and_vouched_for_then(
    open_store: OpenStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = MemoryDisk()
    settings = replace(SMALL, max_hash_slot_num=3 * PAGE_SIZE // SLOT_SIZE, max_index_num=1_000)
    store = open_store(settings, files=disk, run_soon=lambda _: None)
    for n in range(300):
        store.append([new_message(queue_id=n % 5, keys=f"k{n}")])
    time = store.dispatched_time
    monkeypatch.setattr("cometmq.store.index.index.PART_SIZE", PAGE_SIZE)
    monkeypatch.setattr(upkeep, "WRITE_MS_MAX", 0)  # a queue, or a page, in each tick
    clock.advance(ROUND_MS)
    ticks = 1
    while not (paths := store.tick()):
        assert store.is_behind
        clock.advance(1)
        store.append([new_message(queue_id=5, keys="later")])
        ticks += 1
    assert ticks == 5 + 4 + 2, "in the tick in which one thing is done the next begins"
    assert len({path.parent for path in paths if path.is_relative_to(layout.consume_queues_dir(ROOT))}) == 5
    assert len([path for path in paths if path.is_relative_to(layout.index_dir(ROOT))]) == 1
    store.sync_files(paths)
    store.vouch(store.dispatched_time)
    assert checkpoint(disk).logics_msg_timestamp == time
    store.wait_flushed().result(timeout=60)
    again = open_store(settings, files=disk.after_power_loss())
    assert all(len(again.query("Orders", f"k{n}").records) == 1 for n in range(300))


def test_a_tick_that_leaves_something_says_so(open_store: OpenStore, clock: ManualClock) -> None:
    disk = SlowDisk(clock)
    store = open_store(files=disk, run_soon=lambda _: None)
    store.append([new_message(queue_id=n) for n in range(2)])
    assert not store.is_behind
    clock.advance(ROUND_MS)
    assert store.tick() == [] and store.is_behind
    clock.advance(1)
    assert store.tick() and not store.is_behind


def test_many_short_tails_are_written_the_oldest_first_until_they_are_few(
    open_store: OpenStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SlowDisk(clock)
    store = open_store(files=disk, run_soon=lambda _: None)
    monkeypatch.setattr(upkeep, "TAILS_MAX_BYTES", 2 * SIZE)
    for queue_id in range(5):
        store.append([new_message(queue_id=queue_id)])
    assert store.max_queue_offset("Orders", 4) == 1  # no longer staged
    clock.advance(TICK_MS)
    for _ in range(5):
        assert store.tick() == []
        clock.advance(1)
    assert disk.names(layout.topic_dir(ROOT, "Orders")) == ["0", "1", "2"]


def test_a_topic_that_is_deleted_within_a_round_leaves_no_file(
    open_store: OpenStore, clock: ManualClock
) -> None:
    disk = SlowDisk(clock)
    store = open_store(files=disk, run_soon=lambda _: None)
    store.append([new_message(topic, n) for topic in ("Orders", "Bills") for n in range(2)])
    clock.advance(ROUND_MS)
    assert store.tick() == []
    store.delete_topic("Bills")
    for _ in range(2):
        clock.advance(TICK_MS)
        paths = store.tick()
    assert QUEUE in paths and disk.names(layout.consume_queues_dir(ROOT)) == ["Orders"]


def test_a_round_in_which_the_clock_is_put_back_vouches_for_nothing_that_came_then(
    open_store: OpenStore, clock: ManualClock
) -> None:
    disk = SlowDisk(clock)
    store = open_store(files=disk, run_soon=lambda _: None)
    store.append([new_message(queue_id=n) for n in range(2)])
    clock.advance(ROUND_MS)
    assert store.tick() == []  # within the round
    clock.set_wall(clock.now_ms() - 2 * ROUND_MS)
    (late,) = store.append([new_message(queue_id=5)])
    clock.advance(TICK_MS)
    store.sync_files(store.tick())
    store.vouch(store.dispatched_time)
    assert 0 < checkpoint(disk).logics_msg_timestamp < late.store_time


def test_under_sync_flush_and_load_a_round_vouches_for_what_is_dispatched(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    store = open_store(SYNC, run_soon=lambda _: None)
    store.append([new_message()])
    store.wait_flushed().result(timeout=60)
    store._after_sync()
    first_time = clock.now_ms()
    clock.advance(10)
    store.append([new_message()])  # there is always one on its way
    go_round(store, clock)
    assert checkpoint(disk).logics_msg_timestamp == first_time


def test_a_full_disk_stops_appends_until_what_waits_is_written(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    store = open_store(run_soon=lambda _: None)
    store.append([new_message(keys="k1")])
    disk.space_bytes = 0
    clock.advance(ROUND_MS)
    assert store.tick() == []
    assert isinstance(store.not_writable, StoreNotWritable)
    assert len(store.query("Orders", "k1").records) == 1
    disk.space_bytes = 1 << 20
    clock.advance(TICK_MS)
    assert QUEUE in store.tick()
    assert store.not_writable is None


def test_an_append_that_fills_the_disk_with_the_index_is_not_undone(
    open_store: OpenStore, disk: MemoryDisk
) -> None:
    settings = replace(SMALL, mapped_file_size_commit_log=1 << 20)
    store = open_store(settings, run_soon=lambda _: None)
    store.append([new_message(body=bytes(900_000), keys="first")])
    for n in range(60):
        store.append([new_message(keys=f"k{n}")])
    disk.space_bytes = sum(len(content.blocks) for content in disk._files.values()) * 4096
    assert len(store.query("Orders", "k1").records) == 1  # the index cannot roll to its second file
    with pytest.raises(StoreNotWritable, match="disk full"):
        store.append([new_message(keys="refused")])
    disk.space_bytes = 1 << 24
    assert store.append([new_message(keys="after")])[0].queue_offset == 61
    assert [len(store.query("Orders", f"k{n}").records) for n in range(60)] == [1] * 60


def test_a_failed_sync_of_queue_files_is_never_vouched_for(clock: ManualClock) -> None:
    disk = PickyDisk()
    with MessageStore.open(ROOT, SMALL, files=disk, clock=clock, run_soon=lambda _: None) as store:
        store.append([new_message()])
        disk.bad = layout.consume_queues_dir(ROOT)
        go_round(store, clock)
        disk.bad = None
        store.append([new_message()])
        go_round(store, clock)
        assert checkpoint(disk).logics_msg_timestamp == 0
    assert disk.exists(layout.abort_path(ROOT))
    with MessageStore.open(ROOT, SMALL, files=disk.after_power_loss(), clock=clock) as again:
        assert count(again) == 2


def test_the_files_of_a_deleted_topic_are_passed_over_by_a_sync(
    open_store: OpenStore, clock: ManualClock, disk: MemoryDisk
) -> None:
    store = open_store(run_soon=lambda _: None)
    store.append([new_message(), new_message("Other")])
    clock.advance(ROUND_MS)
    paths = store.tick()
    time = store.dispatched_time
    store.delete_topic("Orders")
    store.sync_files(paths)
    store.vouch(time)
    assert checkpoint(disk).logics_msg_timestamp == time


def test_a_clock_that_is_put_back_takes_back_what_was_vouched_for(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    store = open_store(run_soon=lambda _: None)
    store.append([new_message("Before")])
    go_round(store, clock)
    clock.advance(60_000)
    store.append([new_message("Before")])
    go_round(store, clock)
    clock.set_wall(clock.now_ms() - 3_600_000)
    for _ in range(3):  # one to each file
        store.append([new_message(body=bytes(5_000))])
    assert count(open_store(files=disk.after_kill())) == 3


def test_what_came_since_the_clock_was_put_back_is_vouched_for_once_it_is_synced(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    store = open_store(replace(SMALL, flush_interval_commit_log=1_000_000), run_soon=lambda _: None)
    store.append([new_message()])
    store.wait_flushed().result(timeout=60)
    clock.set_wall(clock.now_ms() - 3_600_000)
    (first,) = store.append([new_message()])
    clock.set_wall(clock.now_ms() - 1_000)
    (second,) = store.append([new_message()])
    clock.advance(TICK_MS * 3)
    (third,) = store.append([new_message()])
    store.tick()
    assert first.store_time < third.store_time
    assert checkpoint(disk).physic_msg_timestamp < second.store_time
    store.wait_flushed().result(timeout=60)
    store.vouch(0)
    assert checkpoint(disk).physic_msg_timestamp == third.store_time - 1


def test_a_round_that_began_before_the_clock_was_put_back_vouches_for_nothing(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    store = open_store(run_soon=lambda _: None)
    store.append([new_message()])
    go_round(store, clock)
    clock.advance(ROUND_MS)
    store.append([new_message()])
    paths = store.tick()
    time = store.dispatched_time
    clock.set_wall(clock.now_ms() - 3_600_000)
    store.append([new_message(body=bytes(5_000)), new_message(body=bytes(5_000))])
    store.sync_files(paths)
    store.vouch(time)
    assert count(open_store(files=disk.after_kill())) == 4


def test_a_closed_store_keeps_nothing_up(open_store: OpenStore, disk: MemoryDisk, clock: ManualClock) -> None:
    store = open_store(run_soon=lambda _: None)
    store.append([new_message()])
    store.close()
    before = disk.load(layout.checkpoint_path(ROOT))
    clock.advance(ROUND_MS)
    assert store.tick() == []
    store.vouch(clock.now_ms())
    assert disk.load(layout.checkpoint_path(ROOT)) == before


def test_what_the_index_read_does_not_stay_mapped_between_ticks(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "INDEX_LAG_BYTES", 1_000)
    monkeypatch.setattr(dispatch, "INDEX_LAG_BYTES", 1_000)
    monkeypatch.setattr(upkeep, "MAPPED_MAX_BYTES", 10_000)
    store = open_store()
    dropped: list[int] = []

    def note_drop() -> Callable[[], None]:
        dropped.append(store.dispatched_offset)
        return lambda: None

    monkeypatch.setattr(store._parts.files, "unused_pages", note_drop)
    while store.dispatched_offset < 50_000:
        store.append([new_message(body=bytes(500))])
    gaps = [later - earlier for earlier, later in zip([0, *dropped], dropped, strict=False)]
    assert len(dropped) >= 4 and all(10_000 <= gap < 13_000 for gap in gaps)
