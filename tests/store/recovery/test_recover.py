"""What recovery does with stores that a kill, a loss of power or a bad disk left behind."""

import random
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.kit.stores import FIRST, numbers
from tests.store.conftest import ROOT, SMALL, OpenStore, damaged, new_message

from cometmq.errors import StoreDamaged
from cometmq.format import layout
from cometmq.format.record import MAGIC_BLANK, decode
from cometmq.io.clock import ManualClock
from cometmq.store import MessageStore
from cometmq.testing.memory_disk import MemoryDisk
from cometmq.testing.recorded_disk import RecordedDisk


def filled(open_store: OpenStore, count: int = 40) -> MessageStore:
    """A store with one queue of ``count`` messages, some hundred bytes each."""
    store = open_store()
    for n in range(count):
        store.append([new_message(body=b"%03d" % n * 30, keys=f"k{n}")])
    return store


def test_an_empty_directory_opens_as_an_empty_store(open_store: OpenStore) -> None:
    store = open_store()
    assert (store.written_offset, store.queues(), store.recovered.messages) == (0, [], 0)


@pytest.mark.parametrize("cut", [20, 50, 100, 180])
def test_a_torn_last_record_is_set_aside_and_all_before_it_served(
    open_store: OpenStore, disk: MemoryDisk, cut: int
) -> None:
    store = filled(open_store, 20)
    end = store.written_offset
    torn = damaged(disk.after_kill(), FIRST, end - cut, bytes(cut))
    again = open_store(files=torn)
    assert numbers(again) == list(range(19))
    assert not again.recovered.damages
    assert again.append([new_message(body=b"100")])[0].queue_offset == 19
    assert again.recovered.set_aside is not None
    assert torn.exists(again.recovered.set_aside)


def test_records_of_an_earlier_life_behind_the_end_do_not_come_back(
    open_store: OpenStore, disk: MemoryDisk
) -> None:
    store = filled(open_store, 20)
    sizes = store.written_offset // 20
    torn = damaged(disk.after_kill(), FIRST, 10 * sizes + 100, b"\xff")  # the rest of them is true
    torn.put(layout.abort_path(ROOT), b"1")  # the machine has stopped since, and nothing vouches for them
    again = open_store(files=torn)
    assert numbers(again) == list(range(10))
    again.append([new_message(body=b"010" * 30, keys="k10")])
    last = open_store(files=torn.after_kill())
    assert numbers(last) == list(range(11))


def test_damage_before_the_end_is_reported_and_what_follows_stays_readable(
    open_store: OpenStore, disk: MemoryDisk
) -> None:
    filled(open_store, 40).close()
    size = decode_size(disk)
    broken = damaged(disk.after_kill(), FIRST, 5 * size + 100, b"\xff")
    broken.put(layout.abort_path(ROOT), b"1")
    again = open_store(files=broken)
    (damage,) = again.recovered.damages
    assert (damage.path, damage.position, damage.size) == (FIRST, 5 * size, size)
    assert "BODYCRC" in damage.reason
    assert [decode(again.get("Orders", 0, n).records[0]).queue_offset for n in (0, 4, 6, 39)] == [0, 4, 6, 39]
    assert again.max_queue_offset("Orders", 0) == 40


def decode_size(disk: MemoryDisk) -> int:
    """The size of the first record."""
    return int.from_bytes(disk.load(FIRST)[:4], "big")


def test_damage_leaves_a_hole_in_a_rebuilt_queue_and_moves_no_other_message(
    open_store: OpenStore, disk: MemoryDisk
) -> None:
    filled(open_store, 40).close()
    broken = damaged(disk.after_kill(), FIRST, 5 * decode_size(disk) + 100, b"\xff")
    for start in (0, 400):
        broken.remove(layout.consume_queue_path(ROOT, "Orders", 0, start))
    broken.put(layout.abort_path(ROOT), b"1")
    again = open_store(files=broken)
    (gap,) = again.recovered.gaps
    assert (gap.first, gap.missing) == (5, 1)
    assert numbers(again) == [n for n in range(40) if n != 5]
    assert decode(again.get("Orders", 0, 6).records[0]).queue_offset == 6
    assert again.get("Orders", 0, 5, max_count=1).next_offset == 7


def test_a_queue_that_lags_is_caught_up_and_one_that_leads_is_cut(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    store = filled(open_store, 10)
    clock.advance(SMALL.flush_consume_queue_thorough_interval)
    store.tick()  # ten entries are in the queue's file
    for n in range(10, 20):
        store.append([new_message(body=b"%03d" % n * 30)])
    assert numbers(open_store(files=disk.after_kill())) == list(range(20))

    cut = disk.after_kill()
    damaged(
        cut, FIRST, 5 * decode_size(disk), bytes(SMALL.mapped_file_size_commit_log - 5 * decode_size(disk))
    )
    assert numbers(open_store(files=cut)) == list(range(5))


def test_an_index_that_leads_the_log_is_rebuilt(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    store = filled(open_store, 10)
    clock.advance(SMALL.flush_consume_queue_thorough_interval)
    store.tick()
    cut = disk.after_kill()
    size = decode_size(disk)
    damaged(cut, FIRST, 5 * size, bytes(SMALL.mapped_file_size_commit_log - 5 * size))
    again = open_store(files=cut)
    assert again.query("Orders", "k7").records == []
    assert len(again.query("Orders", "k4").records) == 1
    again.append([new_message(keys="new")])
    assert len(again.query("Orders", "new").records) == 1


def test_a_damaged_index_is_set_aside_and_rebuilt(open_store: OpenStore, disk: MemoryDisk) -> None:
    filled(open_store, 10).close()
    (name,) = disk.names(layout.index_dir(ROOT))
    broken = damaged(disk.after_kill(), layout.index_dir(ROOT) / name, 36, b"\x7f")
    again = open_store(files=broken)
    assert len(again.query("Orders", "k7").records) == 1
    assert broken.exists(ROOT / "setaside" / f"index-{name}.0")


@pytest.mark.parametrize("seed", range(20))
def test_recovery_killed_at_any_time_and_begun_again_ends_the_same(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock, seed: int
) -> None:
    chance = random.Random(seed)
    store = open_store()
    for n in range(60):
        store.append([new_message(body=b"%03d" % n * chance.randint(1, 40), keys=f"k{n}")])
        if chance.random() < 0.1:
            clock.advance(chance.choice([1_000, 60_000]))
            store.tick()
    state = disk.after_kill()
    for _ in range(3):
        again = open_store(files=state)
        assert numbers(again) == list(range(60))
        assert all(len(again.query("Orders", f"k{n}").records) == 1 for n in (0, 30, 59))
        state = state.after_kill()


def remove_files(disk: MemoryDisk, directory: Path) -> None:
    for name in disk.names(directory):
        disk.remove(directory / name)
    disk.remove_directory(directory)


def test_a_queue_that_is_gone_is_found_by_its_first_message_behind_the_checkpoint(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    store = filled(open_store, 60)
    clock.advance(10_000)
    store.append([new_message("Other"), new_message(body=b"060" * 30, keys="k60")])
    store.wait_flushed().result(timeout=60)
    clock.advance(SMALL.flush_consume_queue_thorough_interval)
    store.sync_files(store.tick())
    store.vouch(store.dispatched_time)
    store.append([new_message("Other", body=bytes(8_000))])  # a file of its own: the walk begins there
    store.append([new_message(body=b"061" * 30)])
    state = disk.after_kill()
    assert open_store(files=state.after_kill()).recovered.begin > 0
    remove_files(state, layout.consume_queue_dir(ROOT, "Orders", 0))
    again = open_store(files=state)
    assert again.recovered.begin == 0 and again.recovered.gaps == []
    assert numbers(again) == list(range(62))


def test_a_start_that_is_killed_leaves_no_store_that_looks_closed(
    open_store: OpenStore, disk: MemoryDisk
) -> None:
    store = open_store()
    for n in range(40):
        store.append([new_message(body=b"%03d" % n * 30), new_message("Other", body=b"%03d" % n)])
    store.close()
    state = disk.after_kill()
    remove_files(state, layout.consume_queue_dir(ROOT, "Orders", 0))
    remove_files(state, layout.consume_queue_dir(ROOT, "Other", 0))
    killed: list[tuple[int, MemoryDisk]] = []
    open_store(files=state, progress=lambda done, _: killed.append((done, state.after_kill())))
    for done, again in killed:
        is_untouched = done == 0
        assert open_store(files=again.after_kill()).recovered.clean is is_untouched
        assert numbers(open_store(files=again)) == list(range(40))


def test_what_was_recovered_is_on_the_disk_before_anyone_reads_it(
    open_store: OpenStore, disk: MemoryDisk
) -> None:
    filled(open_store, 200)
    state = disk.after_kill()
    open_store(files=state)
    assert numbers(open_store(files=state.after_power_loss())) == list(range(200))


def test_more_files_than_may_be_open_at_once_are_recovered(open_store: OpenStore) -> None:
    disk = MemoryDisk()
    settings = replace(SMALL, mapped_file_size_commit_log=4_096, message_index_enable=False)
    store = open_store(settings, files=disk)
    for n in range(600):
        store.append([new_message(body=b"%03d" % n * 1_200)])
    state = disk.after_kill()
    again = open_store(settings, files=state)
    assert len(state.names(layout.commitlog_dir(ROOT))) == 600
    assert numbers(again) == list(range(600))


def test_a_damaged_last_entry_does_not_say_where_a_closed_log_ends(
    open_store: OpenStore, disk: MemoryDisk
) -> None:
    filled(open_store, 10).close()
    size = decode_size(disk)
    path = layout.consume_queue_path(ROOT, "Orders", 0, 0)
    broken = damaged(disk.after_kill(), path, 9 * 20 + 8, (size + 1_000).to_bytes(4, "big"))
    again = open_store(files=broken)
    assert again.written_offset == 10 * size
    assert again.append([new_message(body=b"010")])[0].physical_offset == 10 * size


def test_the_keys_of_a_record_that_two_index_files_share_are_all_found_after_a_kill(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    store = open_store()
    for n in range(40):  # of 50 entries, the first file takes 49
        store.append([new_message(keys=f"a{n} b{n} c{n}")])
    store.query("Orders", "a0")
    again = open_store(files=disk.after_kill())
    keys = [f"{kind}{n}" for kind in "abc" for n in range(40)]
    assert [len(again.query("Orders", key).records) for key in keys] == [1] * 120
    clock.advance(SMALL.flush_consume_queue_thorough_interval)
    again.tick()
    again.close()
    again = open_store(files=disk.after_kill())
    assert [len(again.query("Orders", key).records) for key in keys] == [1] * 120


@pytest.mark.parametrize("clean", [True, False])
def test_an_index_made_while_the_clock_was_put_back_is_neither_damaged_nor_out_of_order(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock, *, clean: bool
) -> None:
    store = open_store()
    for n in range(120):
        if n in (20, 70):  # within the first file, and before the third is made
            clock.set_wall(clock.now_ms() - 3_600_000)
        store.append([new_message(keys=f"k{n}")])
    if clean:
        store.close()
    state = disk.after_kill()
    again = open_store(files=state)
    assert not [name for name in state.names(ROOT) if "damaged" in name]
    again.append([new_message(keys="k120")])
    assert [len(again.query("Orders", f"k{n}").records) for n in range(121)] == [1] * 121


@pytest.mark.parametrize("seed", range(20))
def test_of_an_index_that_a_loss_of_power_left_in_pieces_only_what_was_synced_is_taken(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock, seed: int
) -> None:
    settings = replace(SMALL, max_hash_slot_num=4_000, max_index_num=2_000)
    store = open_store(settings)
    for n in range(300):
        if n in (100, 200):
            clock.advance(SMALL.flush_consume_queue_thorough_interval)
        store.append([new_message(keys=f"k{n}")])
    store.wait_flushed().result(timeout=60)
    again = open_store(settings, files=disk.after_power_loss(random.Random(seed)))
    assert [len(again.query("Orders", f"k{n}").records) for n in range(300)] == [1] * 300


def test_a_start_that_fails_leaves_nothing_locked_and_a_closed_store_closed(open_store: OpenStore) -> None:
    filled(open_store, 10).close()
    other = replace(SMALL, mapped_file_size_commit_log=16_384)
    with pytest.raises(StoreDamaged, match="set mappedFileSizeCommitLog to what the store was written with"):
        open_store(other)
    assert open_store().recovered.clean


def test_a_store_that_was_killed_on_a_full_disk_opens_there(open_store: OpenStore, disk: MemoryDisk) -> None:
    filled(open_store, 10)
    state = disk.after_kill()
    state.space_bytes = 0
    again = open_store(files=state)
    assert numbers(again) == list(range(10))
    state.space_bytes = 1 << 20


def test_a_blank_that_a_loss_of_power_took_is_put_back(open_store: OpenStore, disk: MemoryDisk) -> None:
    filled(open_store, 100).close()
    state = disk.after_kill()
    end = disk.load(FIRST).index(MAGIC_BLANK.to_bytes(4, "big")) - 4
    damaged(state, FIRST, end, bytes(SMALL.mapped_file_size_commit_log - end))
    state.put(layout.abort_path(ROOT), b"1")
    again = open_store(files=state)
    assert [(damage.position, damage.reason) for damage in again.recovered.damages] == [
        (end, "zeros where a record should be")
    ]
    assert numbers(again) == list(range(100))
    assert open_store(files=state.after_kill()).recovered.damages == []


def test_records_that_are_zeros_are_reported_and_what_follows_them_in_the_file_stays(
    open_store: OpenStore, disk: MemoryDisk
) -> None:
    filled(open_store, 100).close()
    state = disk.after_kill()
    size = decode_size(disk)
    damaged(state, FIRST, 5 * size, bytes(2 * size))
    state.put(layout.abort_path(ROOT), b"1")
    for _ in range(2):
        again = open_store(files=state)
        assert [damage.position for damage in again.recovered.damages] == [5 * size]
        assert again.get("Orders", 0, 7).records
        state = state.after_kill()


def test_a_message_of_the_millisecond_of_a_sync_is_no_damage_if_the_power_takes_it(
    open_store: OpenStore,
) -> None:
    disk = RecordedDisk()
    store = open_store(files=disk)
    store.append([new_message(body=b"000")])
    store.wait_flushed().result(60)
    end = store.written_offset
    store.append([new_message(body=b"001"), new_message(body=b"002")])  # the clock stands still
    store.sync_files(store.tick())
    store.vouch(store.dispatched_time)
    file = disk.open(FIRST, writable=True)
    file.write(end, bytes((store.written_offset - end) // 2))
    again = open_store(files=disk.after_kill())
    assert (numbers(again), again.recovered.damages, again.recovered.gaps) == ([0], [], [])


def test_what_a_killed_process_did_not_sync_is_synced_by_the_next_before_it_is_vouched_for(
    open_store: OpenStore, clock: ManualClock
) -> None:
    disk = RecordedDisk()
    store = filled_on(open_store, disk)
    clock.advance(SMALL.flush_consume_queue_thorough_interval)
    store.tick()  # written back, not synced
    killed = disk.after_kill()
    with open_store(files=killed) as next_store:
        next_store.append([new_message(body=b"040")])  # begins the next file
    after = killed.after_power_loss()
    assert not after.exists(layout.abort_path(ROOT))
    assert numbers(open_store(files=after)) == list(range(41))


def test_entries_of_a_tail_that_is_gone_do_not_come_back_with_the_next_loss_of_power(
    open_store: OpenStore, clock: ManualClock
) -> None:
    disk = RecordedDisk()
    store = filled_on(open_store, disk)
    clock.advance(SMALL.flush_consume_queue_thorough_interval)
    store.sync_files(store.tick())  # the queue is on the disk, the log is not, and nobody vouches for them
    first = disk.after_power_loss()
    open_store(files=first)
    killed = first.after_kill()
    with open_store(files=killed) as next_store:
        next_store.append([new_message(queue_id=1, body=bytes(1_000)) for _ in range(20)])
    again = open_store(files=killed.after_power_loss())
    again.append([new_message(body=b"100")])
    assert numbers(again) == [100]


def test_queue_files_whose_length_never_came_to_the_disk_are_made_again(
    open_store: OpenStore, disk: MemoryDisk
) -> None:
    store = filled(open_store)
    store.close()
    disk.put(layout.abort_path(ROOT), b"1")
    path = layout.consume_queue_dir(ROOT, "Orders", 0) / layout.offset_name(0)
    disk.put(path, b"")
    again = open_store(files=disk.after_kill())
    assert numbers(again) == list(range(40))


def filled_on(open_store: OpenStore, disk: RecordedDisk) -> MessageStore:
    """A store like ``filled``, on a disk of its own whose log nobody has synced."""
    store = open_store(replace(SMALL, flush_interval_commit_log=10**9), files=disk)
    for n in range(40):
        store.append([new_message(body=b"%03d" % n * 30)])
    return store
