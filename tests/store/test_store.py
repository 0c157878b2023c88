import queue
from collections.abc import Callable
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.store.conftest import ROOT, SMALL, OpenStore, new_message

from cometmq.errors import MessageIllegal, SettingsError, StoreLocked, StoreNotWritable
from cometmq.format import layout
from cometmq.format.checkpoint import Checkpoint
from cometmq.format.record import decode
from cometmq.io.clock import ManualClock
from cometmq.store import FlushDiskType, GetStatus, MessageStore, StoreSettings
from cometmq.store.upkeep.dispatch import Arrival
from cometmq.testing.memory_disk import MemoryDisk

SYNC = replace(SMALL, flush_disk_type=FlushDiskType.SYNC_FLUSH)
DUPLICATED = replace(SMALL, duplication_enable=True)


def bodies(store: MessageStore, topic: str = "Orders", queue_id: int = 0) -> list[bytes]:
    """All messages of a queue, read as a consumer does."""
    found: list[bytes] = []
    offset = store.min_queue_offset(topic, queue_id)
    while (result := store.get(topic, queue_id, offset)).status is GetStatus.FOUND:
        found += [decode(record).body for record in result.records]
        offset = result.next_offset
    return found


def test_what_is_appended_is_read_in_order(open_store: OpenStore) -> None:
    store = open_store()
    appended = store.append([new_message(body=b"%d" % n) for n in range(5)])
    assert [at.queue_offset for at in appended] == [0, 1, 2, 3, 4]
    assert bodies(store) == [b"0", b"1", b"2", b"3", b"4"]


def test_each_queue_counts_for_itself(open_store: OpenStore) -> None:
    store = open_store()
    appended = store.append([new_message(queue_id=n % 2) for n in range(4)])
    assert [at.queue_offset for at in appended] == [0, 0, 1, 1]
    assert sorted(store.queues()) == [("Orders", 0), ("Orders", 1)]


def test_messages_roll_over_files_of_every_kind_and_stay_readable(open_store: OpenStore) -> None:
    store = open_store()
    for n in range(200):
        store.append([new_message(body=b"%d" % n * 10, keys=f"k{n}")])
    assert store.written_offset > 3 * SMALL.mapped_file_size_commit_log
    assert bodies(store) == [b"%d" % n * 10 for n in range(200)]
    assert [decode(r).body for n in (0, 99, 199) for r in store.query("Orders", f"k{n}").records] == [
        b"%d" % n * 10 for n in (0, 99, 199)
    ]


def test_an_arrival_is_told_for_each_message_that_can_be_read(open_store: OpenStore) -> None:
    store = open_store()
    told: list[Arrival] = []
    store.on_arrival(told.extend)
    store.append([new_message(tags="TagA"), new_message(queue_id=3)])
    assert told == [Arrival("Orders", 0, 1, 2598919), Arrival("Orders", 3, 1, 0)]


def test_each_of_several_listeners_gets_every_arrival(open_store: OpenStore) -> None:
    store = open_store()
    first: list[Arrival] = []
    second: list[Arrival] = []
    store.on_arrival(first.extend, [()])
    store.on_arrival(second.extend, [(), (1,)])
    assert any(store._dispatcher.awaiting)
    store.append([new_message()])
    assert first == second == [Arrival("Orders", 0, 1, 0)]


def test_prepared_and_rolled_back_messages_get_no_queue_offset(open_store: OpenStore) -> None:
    store = open_store()
    prepared, rolled_back, normal = store.append([new_message(sys_flag=flag) for flag in (4, 12, 0)])
    assert (prepared.queue_offset, rolled_back.queue_offset, normal.queue_offset) == (0, 0, 0)
    assert store.max_queue_offset("Orders", 0) == 1


def test_a_message_that_no_file_can_hold_is_refused_and_nothing_of_its_batch_is_stored(
    open_store: OpenStore,
) -> None:
    store = open_store()
    with pytest.raises(MessageIllegal, match=r"record of \d+ bytes: a CommitLog file takes at most 8184"):
        store.append([new_message(), new_message(body=b"x" * 9_000)])
    assert store.written_offset == 0
    assert store.append([new_message()])[0].queue_offset == 0


def test_a_store_that_is_open_cannot_be_opened_again(open_store: OpenStore) -> None:
    open_store()
    with pytest.raises(StoreLocked, match="another process"):
        open_store()


def test_a_closed_store_says_so(open_store: OpenStore) -> None:
    store = open_store()
    store.close()
    with pytest.raises(StoreNotWritable, match="closed"):
        store.append([new_message()])
    store.close()


def test_after_a_clean_stop_nothing_is_walked_but_the_last_record(
    open_store: OpenStore, disk: MemoryDisk
) -> None:
    store = open_store()
    store.append([new_message(body=b"%d" % n) for n in range(100)])
    store.close()
    assert not disk.exists(layout.abort_path(ROOT))
    store = open_store()
    assert store.recovered.clean and store.recovered.messages <= 1
    assert bodies(store) == [b"%d" % n for n in range(100)]
    assert store.append([new_message()])[0].queue_offset == 100


def test_after_a_kill_every_appended_message_is_there(open_store: OpenStore, disk: MemoryDisk) -> None:
    store = open_store()
    for n in range(100):
        store.append([new_message(body=b"%d" % n, keys=f"k{n}", queue_id=n % 3)])
    again = open_store(files=disk.after_kill())
    assert not again.recovered.clean
    assert [bodies(again, queue_id=queue_id) for queue_id in range(3)] == [
        [b"%d" % n for n in range(queue_id, 100, 3)] for queue_id in range(3)
    ]
    assert len(again.query("Orders", "k77").records) == 1
    assert again.append([new_message(queue_id=1)])[0].queue_offset == 33


def test_after_a_loss_of_power_sync_flush_has_every_acknowledged_message(
    open_store: OpenStore, disk: MemoryDisk
) -> None:
    store = open_store(SYNC)
    for n in range(60):
        store.append([new_message(body=b"%d" % n)])
    again = open_store(SYNC, files=disk.after_power_loss())
    assert bodies(again) == [b"%d" % n for n in range(60)]


def test_under_sync_flush_what_nobody_waits_for_becomes_readable_too(open_store: OpenStore) -> None:
    asked: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    store = open_store(SYNC, run_soon=asked.put)
    store.append([new_message()])
    asked.get(timeout=60)()
    assert store.max_queue_offset("Orders", 0) == 1


def test_who_waits_for_more_than_there_is_waits_for_what_there_is(open_store: OpenStore) -> None:
    store = open_store(SYNC, run_soon=lambda _: None)
    store.append([new_message()])
    store.wait_flushed(1 << 40).result(timeout=60)
    assert store.flushed_offset == store.written_offset


def test_under_sync_flush_nothing_is_readable_before_it_is_on_the_disk(open_store: OpenStore) -> None:
    asked: list[object] = []
    store = open_store(SYNC, run_soon=asked.append)
    store.append([new_message()])
    store.wait_flushed().result(timeout=60)
    assert store.max_queue_offset("Orders", 0) == 0
    for call in asked:
        assert callable(call)
        call()
    assert store.max_queue_offset("Orders", 0) == 1


def test_a_failed_sync_ends_all_sending_until_the_store_is_opened_again(
    open_store: OpenStore, disk: MemoryDisk
) -> None:
    store = open_store(SYNC, run_soon=lambda _: None)
    disk.fail_sync = True
    store.append([new_message()])
    with pytest.raises(StoreNotWritable, match="sync failed"):
        store.wait_flushed().result(timeout=60)
    disk.fail_sync = False
    with pytest.raises(StoreNotWritable, match="restart to recover"):
        store.append([new_message()])
    with pytest.raises(StoreNotWritable):
        store.wait_flushed().result(timeout=60)
    assert not isinstance(store.wait_flushed().exception(timeout=60), FutureTimeoutError)


def test_a_full_disk_refuses_messages_and_loses_none(open_store: OpenStore, disk: MemoryDisk) -> None:
    store = open_store()
    disk.space_bytes = 32_768
    stored: list[bytes] = []

    def fill() -> None:
        for n in range(500):
            store.append([new_message(body=b"%d" % n * 20)])
            stored.append(b"%d" % n * 20)

    with pytest.raises(StoreNotWritable, match="disk full"):
        fill()
    assert len(stored) > 10
    assert bodies(store) == stored
    with pytest.raises(StoreNotWritable):
        store.append([new_message()])

    disk.space_bytes = 1 << 20
    assert store.append([new_message(body=b"after")])[0].queue_offset == len(stored)
    again = open_store(files=disk.after_kill())
    assert bodies(again) == [*stored, b"after"]


def test_writing_back_goes_on_when_space_is_freed(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    store = open_store()
    store.append([new_message()])
    disk.space_bytes = 0
    clock.advance(SMALL.flush_consume_queue_thorough_interval)
    assert store.tick() == []
    with pytest.raises(StoreNotWritable, match="disk full"):
        store.append([new_message()])
    disk.space_bytes = 1 << 20
    store.append([new_message()])
    assert store.not_writable is None


def test_the_checkpoint_vouches_for_queues_only_after_a_thorough_round(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    store = open_store(run_soon=lambda _: None)
    store.append([new_message()])
    clock.advance(SMALL.flush_interval_consume_queue)
    assert store.tick() == []
    clock.advance(SMALL.flush_consume_queue_thorough_interval)
    paths = store.tick()
    assert layout.consume_queue_path(ROOT, "Orders", 0, 0) in paths
    store.sync_files(paths)
    store.vouch(store.dispatched_time)
    assert disk.load(layout.checkpoint_path(ROOT))[8:16] == (1_700_000_000_000).to_bytes(8, "big")


def test_a_deleted_topic_is_gone_and_begins_anew(open_store: OpenStore) -> None:
    store = open_store()
    store.append([new_message("A"), new_message("B")])
    store.delete_topic("A")
    assert store.queues() == [("B", 0)]
    assert store.get("A", 0, 0).status is GetStatus.NO_MATCHED_LOGIC_QUEUE


def test_queues_and_index_are_rebuilt_when_they_are_missing(tmp_path: Path, clock: ManualClock) -> None:
    with MessageStore.open(tmp_path, SMALL, clock=clock) as store:
        for n in range(100):
            store.append([new_message(body=b"%d" % n, keys=f"k{n}")])
    queue = (tmp_path / "consumequeue/Orders/0" / "0".zfill(20)).read_bytes()
    for path in [*tmp_path.glob("consumequeue/*/*/*"), *tmp_path.glob("index/*")]:
        path.unlink()
    with MessageStore.open(tmp_path, SMALL, clock=clock) as store:
        assert store.recovered.messages == 100
        assert bodies(store) == [b"%d" % n for n in range(100)]
        assert len(store.query("Orders", "k5").records) == 1
    assert (tmp_path / "consumequeue/Orders/0" / "0".zfill(20)).read_bytes() == queue


@pytest.mark.parametrize("topic", ["", "..", "a/b", "x" * 256])
def test_a_topic_that_cannot_be_stored_is_illegal_and_costs_no_queue_offset(
    open_store: OpenStore, topic: str
) -> None:
    store = open_store()
    with pytest.raises(MessageIllegal):
        store.append([new_message(), new_message(topic)])
    assert store.append([new_message()])[0].queue_offset == 0
    assert store.queues() == [("Orders", 0)]


def test_a_refused_message_makes_no_queue(open_store: OpenStore) -> None:
    store = open_store()
    with pytest.raises(MessageIllegal):
        store.append([new_message(body=b"x" * 9_000)])
    assert store.queues() == []
    assert store.append([]) == []


def test_closing_under_sync_flush_dispatches_and_keeps_everything(
    open_store: OpenStore, disk: MemoryDisk
) -> None:
    store = open_store(SYNC, run_soon=lambda _: None)
    for n in range(30):
        store.append([new_message(body=b"%d" % n, keys=f"k{n}")])
    store.close()
    again = open_store(SYNC, files=disk.after_power_loss())
    assert again.recovered.clean and again.recovered.messages == 0
    assert bodies(again) == [b"%d" % n for n in range(30)]
    assert len(again.query("Orders", "k29").records) == 1


def test_a_store_closes_after_its_loop_has_gone(open_store: OpenStore, disk: MemoryDisk) -> None:
    def closed_loop(_: object) -> None:
        raise RuntimeError("Event loop is closed")

    store = open_store(replace(SYNC, flush_interval_commit_log=1_000_000))
    store.on_arrival(closed_loop)
    store._run_soon = closed_loop
    store._log.append([new_message()], [0], 1_000)
    store.close()
    assert not disk.exists(layout.abort_path(ROOT))


def test_a_store_that_cannot_be_closed_cleanly_is_closed_all_the_same(
    open_store: OpenStore, disk: MemoryDisk
) -> None:
    store = open_store(replace(SMALL, flush_interval_commit_log=1_000_000), run_soon=lambda _: None)
    store.append([new_message(body=b"kept")])
    disk.fail_sync = True
    store.close()
    disk.fail_sync = False
    assert disk.exists(layout.abort_path(ROOT))
    assert bodies(open_store()) == [b"kept"]


def test_a_full_disk_at_the_end_loses_nothing(open_store: OpenStore, disk: MemoryDisk) -> None:
    store = open_store()
    store.append([new_message(body=b"%d" % n, keys=f"k{n}") for n in range(30)])
    disk.space_bytes = 0
    store.close()
    disk.space_bytes = 1 << 20
    again = open_store()
    assert not again.recovered.clean
    assert bodies(again) == [b"%d" % n for n in range(30)]


def test_what_a_full_disk_refused_does_not_come_back(open_store: OpenStore, disk: MemoryDisk) -> None:
    store = open_store()
    store.append([new_message(body=b"kept")])
    disk.space_bytes = 8_192
    with pytest.raises(StoreNotWritable):
        store.append([new_message(body=b"%03d" % n * 100) for n in range(60)])
    assert bodies(open_store(files=disk.after_kill())) == [b"kept"]
    disk.space_bytes = 1 << 20
    store.close()
    assert bodies(open_store()) == [b"kept"]


def test_two_stores_of_one_process_cannot_share_a_directory(tmp_path: Path, clock: ManualClock) -> None:
    with MessageStore.open(tmp_path, SMALL, clock=clock) as store:
        with pytest.raises(StoreLocked):
            MessageStore.open(tmp_path, SMALL, clock=clock)
        store.append([new_message()])
    MessageStore.open(tmp_path, SMALL, clock=clock).close()


@pytest.mark.parametrize("settings", [SMALL, SYNC])
def test_what_is_behind_a_limit_is_not_read_before_that_moves(
    open_store: OpenStore, settings: StoreSettings
) -> None:
    store = open_store(settings=settings)
    told: list[Arrival] = []
    store.on_arrival(told.extend)
    store.append([new_message(body=b"before")])
    limit = store.written_offset
    store.limit_reads(lambda: limit)
    store.append([new_message(body=b"first"), new_message(body=b"with it")])
    store.append([new_message(body=b"second")])
    assert bodies(store) == [b"before"] and len(told) == 1
    assert store.confirm_offset == limit == store.pointers.dispatched
    limit = store.written_offset - 1
    store.limit_moved()
    assert bodies(store) == [b"before", b"first", b"with it"] and len(told) == 3
    store.close()
    store = open_store(settings=settings)
    assert bodies(store) == [b"before", b"first", b"with it", b"second"], "closed, nothing is held back"


def test_with_duplication_only_what_is_confirmed_is_read(open_store: OpenStore, disk: MemoryDisk) -> None:
    store = open_store(DUPLICATED)
    first, second = (store.append([new_message(body=body)])[0] for body in (b"first", b"second"))
    assert bodies(store) == [] and store.read_record(first.physical_offset) is None
    store.confirm(second.physical_offset + second.size - 1)
    assert bodies(store) == [b"first"] and store.read_record(first.physical_offset) is not None
    store.confirm(first.physical_offset)
    assert bodies(store) == [b"first"], "what is confirmed stays so"
    store.confirm(second.physical_offset + second.size)
    assert bodies(store) == [b"first", b"second"]
    store.append([new_message(body=b"third")])
    assert Checkpoint.unpack(disk.load(layout.checkpoint_path(ROOT))).confirm_phy_offset == 0
    store.vouch(0)
    confirmed = Checkpoint.unpack(disk.load(layout.checkpoint_path(ROOT))).confirm_phy_offset
    assert confirmed == second.physical_offset + second.size == store.confirm_offset


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "killed"])
def test_a_start_with_duplication_confirms_what_it_finds(
    open_store: OpenStore, disk: MemoryDisk, *, is_closed: bool
) -> None:
    store = open_store(DUPLICATED)
    store.append([new_message(body=b"found")])
    assert bodies(store) == []
    if is_closed:
        store.close()
    again = open_store(DUPLICATED, disk.after_kill())
    again.append([new_message(body=b"later")])
    assert bodies(again) == [b"found"]


def test_without_duplication_nothing_can_be_confirmed(open_store: OpenStore) -> None:
    with pytest.raises(SettingsError, match="duplicationEnable = true"):
        open_store().confirm(0)
