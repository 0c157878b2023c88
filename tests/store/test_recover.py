"""What recovery does with stores that a kill, a loss of power or a bad disk left behind."""

import random
from pathlib import Path

import pytest
from tests.store.conftest import ROOT, SMALL, OpenStore, new_message

from cometmq.format import layout
from cometmq.format.record import decode
from cometmq.io.clock import ManualClock
from cometmq.store import GetStatus, MessageStore
from cometmq.testing.memory_disk import MemoryDisk

FIRST = layout.commitlog_path(ROOT, 0)


def filled(open_store: OpenStore, count: int = 40) -> MessageStore:
    """A store with one queue of ``count`` messages, some hundred bytes each."""
    store = open_store()
    for n in range(count):
        store.append([new_message(body=b"%03d" % n * 30, keys=f"k{n}")])
    return store


def numbers(store: MessageStore) -> list[int]:
    """The numbers of the messages that can be read."""
    found: list[int] = []
    offset = store.min_queue_offset("Orders", 0)
    while offset < store.max_queue_offset("Orders", 0):
        result = store.get("Orders", 0, offset)
        found += [int(decode(record).body[:3]) for record in result.records]
        offset = result.next_offset
    return found


def damaged(disk: MemoryDisk, path: Path, position: int, data: bytes) -> MemoryDisk:
    """The disk with some bytes of a file overwritten."""
    disk.open(path, writable=True).write(position, data)
    return disk


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
    assert not torn.exists(layout.checkpoint_path(ROOT))  # and nothing vouches for them
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
    assert again.get("Orders", 0, 5, max_count=1).status is GetStatus.MESSAGE_WAS_REMOVING


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
    assert broken.exists(ROOT / f"{name}.damaged")


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
