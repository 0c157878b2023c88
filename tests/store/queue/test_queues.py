"""The ConsumeQueues of a store: made when needed, found again, written back, removed."""

import errno
import os
from pathlib import Path

import pytest
from tests.store.conftest import ROOT

from cometmq.errors import IllegalName, StoreDamaged, StoreNotWritable
from cometmq.format import layout
from cometmq.format.queue_entry import SIZE
from cometmq.io.open_files import OpenFiles
from cometmq.store.queue.consume_queue import ConsumeQueue
from cometmq.store.queue.queues import DENSE_IDS, Queues
from cometmq.testing.memory_disk import MemoryDisk, os_error

PER_FILE = 10


def queues_on(disk: MemoryDisk) -> Queues:
    return Queues(OpenFiles(disk, writable=True), ROOT, PER_FILE * SIZE)


def fill(queue: ConsumeQueue, count: int) -> None:
    for _ in range(count):
        queue.put(queue.max_offset, queue.physical_end, 100, 0)


def loaded(disk: MemoryDisk, per_file: int) -> list[ConsumeQueue]:
    """The queues on the disk, not trusted."""
    queues = Queues(OpenFiles(disk, writable=True), ROOT, per_file * SIZE)
    queues.load(trusted=False)
    return list(queues)


def test_a_queue_is_made_once_and_found_only_after_that(disk: MemoryDisk) -> None:
    queues = queues_on(disk)
    assert queues.find("Orders", 1) is None
    queue = queues.find_or_create("Orders", 1)
    assert queues.find_or_create("Orders", 1) is queue and queues.find("Orders", 1) is queue
    assert [(queue.topic, queue.queue_id) for queue in queues] == [("Orders", 1)]


def test_the_ends_of_several_queues_are_those_of_each(disk: MemoryDisk) -> None:
    queues = queues_on(disk)
    fill(queues.find_or_create("Orders", 0), 3)
    number, offset = queues.take_offset("Orders", 2)
    queues.staged.add([(number, offset, 300, 100, 0)])
    assert queues.max_offsets("Orders", (2, 1, 0)) == [1, 0, 3]
    assert queues.max_offsets("none", (0,)) == [0]


@pytest.mark.parametrize("queue_id", [0, 7, DENSE_IDS - 1, DENSE_IDS, 2**31 - 1])
def test_offsets_are_given_out_in_order_whatever_the_id(disk: MemoryDisk, queue_id: int) -> None:
    queues = queues_on(disk)
    number, first = queues.take_offset("T", queue_id)
    assert [first, *(queues.take_offset("T", queue_id)[1] for _ in range(2))] == [0, 1, 2]
    queue = queues.find_or_create("T", queue_id)
    assert (queue.number, queue.next_offset, len(list(queues))) == (number, 3, 1)
    queues.delete("T")
    assert queues.take_offset("T", queue_id)[1] == 0
    assert queues.find_or_create("T", queue_id).number != number


def test_a_queue_that_is_only_asked_for_leaves_nothing_on_the_disk(disk: MemoryDisk) -> None:
    queues = queues_on(disk)
    queues.find_or_create("Orders", 1)
    queues.write_back()
    assert not disk.exists(layout.consume_queues_dir(ROOT))


@pytest.mark.parametrize("topic", ["", "..", "a/b", "x" * 256])
def test_a_topic_that_cannot_be_a_directory_is_refused(disk: MemoryDisk, topic: str) -> None:
    with pytest.raises(IllegalName):
        queues_on(disk).find_or_create(topic, 0)


def test_queues_are_found_again_with_their_ends(disk: MemoryDisk) -> None:
    queues = queues_on(disk)
    for queue_id, count in enumerate([1, PER_FILE, PER_FILE + 1, 5 * PER_FILE]):
        fill(queues.find_or_create("Orders", queue_id), count)
    queues.write_back()
    for trusted in (True, False):
        again = queues_on(disk)
        again.load(trusted=trusted)
        found = [(queue.queue_id, queue.max_offset, queue.next_offset) for queue in again]
        assert found == [(0, 1, 1), (1, 10, 10), (2, 11, 11), (3, 50, 50)]


def test_only_tails_that_have_grown_enough_are_written_back(disk: MemoryDisk) -> None:
    queues = queues_on(disk)
    fill(queues.find_or_create("Long", 0), 5)
    fill(queues.find_or_create("Short", 0), 1)
    queues.write_back(5 * SIZE)
    assert [queues.find_or_create(topic, 0).pending_bytes for topic in ("Long", "Short")] == [0, SIZE]


def test_long_tails_are_due_and_the_oldest_of_the_others_while_all_have_too_much(disk: MemoryDisk) -> None:
    queues = queues_on(disk)
    for topic, count in (("Oldest", 2), ("Older", 1), ("Long", 5), ("Newest", 2)):
        fill(queues.find_or_create(topic, 0), count)
    assert _due(queues, kept=10) == ["Long"]
    assert _due(queues, kept=9) == ["Oldest", "Long"]
    assert _due(queues, kept=7) == ["Oldest", "Older", "Long"]
    assert _due(queues, kept=1) == ["Oldest", "Older", "Long", "Newest"]


def _due(queues: Queues, kept: int) -> list[str]:
    return [queue.topic for queue in queues.due(5 * SIZE, kept * SIZE)]


def test_each_file_that_was_written_is_to_be_synced_once(disk: MemoryDisk) -> None:
    queues = queues_on(disk)
    queue = queues.find_or_create("Orders", 0)
    for _ in range(4):  # a write-back each second, four files until somebody syncs
        fill(queue, PER_FILE)
        queues.write_back()
    starts = range(0, 4 * PER_FILE * SIZE, PER_FILE * SIZE)
    assert queues.take_unsynced() == [queue.chain.path(start) for start in starts]
    assert queues.take_unsynced() == []
    fill(queue, 1)
    queues.write_back()
    assert queues.take_unsynced() == [queue.chain.path(4 * PER_FILE * SIZE)]


def test_what_a_cut_writes_is_to_be_synced_too(disk: MemoryDisk) -> None:
    queues = queues_on(disk)
    queue = queues.find_or_create("Orders", 0)
    fill(queue, 2 * PER_FILE)
    queues.write_back()
    queues.take_unsynced()
    fill(queue, 1)
    queue.truncate(5 * 100)
    assert queues.take_unsynced() == [queue.chain.path(start) for start in (0, 200, 400)]


def test_a_cut_finds_its_place_among_fillers(disk: MemoryDisk) -> None:
    queue = queues_on(disk).find_or_create("Orders", 0)
    for queue_offset, physical_offset in [(0, 0), (1, 500), (3, 700), (5, 900)]:  # 2 and 4 are lost
        queue.put(queue_offset, physical_offset, 100, 0)
    queue.truncate(600)
    assert (queue.max_offset, queue.physical_end) == (2, 600)


def test_a_cut_leaves_no_entry_behind_a_hole_of_zeros(disk: MemoryDisk) -> None:
    files = OpenFiles(disk, writable=True)
    queue = Queues(files, ROOT, 20_000 * SIZE).find_or_create("Orders", 0)
    fill(queue, 20_000)
    queue.write_back()
    path = queue.chain.path(0)
    files.get(path).write(10 * SIZE, bytes(10_000 * SIZE))  # pages that never reached the disk
    (again,) = loaded(disk, 20_000)
    assert again.max_offset == 10
    assert [position for position, _ in again.behind_end()] == [10 * SIZE]
    again.clear_behind_end()
    assert not disk.load(path)[10 * SIZE :].strip(b"\0")


def test_the_first_message_is_found_behind_a_file_full_of_fillers(disk: MemoryDisk) -> None:
    queue = Queues(OpenFiles(disk, writable=True), ROOT, 300_000 * SIZE).find_or_create("Orders", 0)
    queue.put(299_990, 10_000, 100, 0)  # the messages before it have expired
    queue.put(299_991, 10_100, 100, 0)
    for min_physical_offset, expected in [(0, 299_990), (10_100, 299_991), (10_101, 299_992)]:
        queue.correct_min_offset(min_physical_offset)
        assert queue.min_offset == expected


def test_a_failed_write_back_leaves_what_is_not_written_pending(disk: MemoryDisk) -> None:
    queues = queues_on(disk)
    fill(queues.find_or_create("Orders", 0), 1)
    disk.space_bytes = 0
    with pytest.raises(OSError, match="No space"):
        queues.write_back()
    assert queues.find_or_create("Orders", 0).pending_bytes == SIZE
    disk.space_bytes = 1 << 20
    queues.write_back()
    assert queues.find_or_create("Orders", 0).pending_bytes == 0


def test_a_deleted_topic_leaves_neither_queues_nor_files(disk: MemoryDisk) -> None:
    queues = queues_on(disk)
    for topic in ("A", "B"):
        for queue_id in range(2):
            fill(queues.find_or_create(topic, queue_id), 2 * PER_FILE)
    queues.write_back()
    queues.delete("A")
    assert ({queue.topic for queue in queues}, queues.topics()) == ({"B"}, ["B"])
    assert not disk.exists(layout.topic_dir(ROOT, "A"))
    queues.delete("unknown")
    queues.discarded.close()
    assert disk.names(layout.consume_queues_dir(ROOT)) == ["B"]


def test_the_files_of_a_topic_made_anew_are_not_those_that_wait_to_be_removed(disk: MemoryDisk) -> None:
    queues = queues_on(disk)
    fill(queues.find_or_create("A", 0), 2 * PER_FILE)
    queues.write_back()
    queues.delete("A")
    fill(queues.find_or_create("A", 0), 1)
    queues.write_back()
    queues.discarded.remove()
    assert [queue.max_offset for queue in loaded(disk, PER_FILE)] == [1]


def test_files_of_a_deleted_queue_that_cannot_be_moved_are_left_to_the_next_try(
    disk: MemoryDisk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    queues = queues_on(disk)
    for topic in "AB":
        fill(queues.find_or_create(topic, 0), 1)
    queues.write_back()
    stuck = layout.topic_dir(ROOT, "A")
    rename = disk.rename

    def refuse(old: Path, new: Path, *, durable: bool = True) -> None:
        if old == stuck:
            raise os_error(errno.EBUSY, old)
        rename(old, new, durable=durable)

    with monkeypatch.context() as patch:
        patch.setattr(disk, "rename", refuse)
        queues.delete("A")
        queues.delete("B")
        queues.retry_discard()
        assert (list(queues), queues.find("A", 0), queues.by_number) == ([], None, {})
        why = os.strerror(errno.EBUSY)
        assert caplog.messages == [f"{stuck}: cannot be moved, and is tried again: {why}"]
        for make in (queues.find_or_create, queues.take_offset):
            with pytest.raises(StoreNotWritable, match="the deleted queue A-1 and cannot be moved"):
                make("A", 1)
        assert queues.take_offset("B", 0)[1] == 0
    assert queues.take_offset("A", 1)[1] == 0
    assert not disk.exists(stuck)


def test_of_a_topic_whose_other_queues_stay_the_directories_of_queues_go(disk: MemoryDisk) -> None:
    queues = queues_on(disk)
    for queue_id in range(3):
        fill(queues.find_or_create("A", queue_id), 1)
    queues.write_back()
    queues.remove([queues.find_or_create("A", 0), queues.find_or_create("A", 2)])
    queues.discard("A", [0, 2])
    assert (disk.names(layout.topic_dir(ROOT, "A")), queues.find("A", 1) is not None) == (["1"], True)
    assert queues.take_offset("A", 2)[1] == 0


@pytest.mark.parametrize("name", ["01", "-1", "x", "0.tmp"])
def test_a_file_among_the_queues_is_told_with_the_remedy(disk: MemoryDisk, name: str) -> None:
    disk.make_directory(layout.topic_dir(ROOT, "Orders"))
    disk.put(layout.topic_dir(ROOT, "Orders") / name, b"?")
    with pytest.raises(StoreDamaged, match=f"Orders/{name}: .*move it out of the store"):
        queues_on(disk).load(trusted=True)


def test_a_file_among_the_topics_is_told_with_the_remedy(disk: MemoryDisk) -> None:
    disk.make_directory(layout.consume_queues_dir(ROOT))
    disk.put(layout.consume_queues_dir(ROOT) / "notes.txt", b"?")
    with pytest.raises(StoreDamaged, match=r"notes\.txt: is no topic's directory; move it"):
        queues_on(disk).load(trusted=True)


def test_a_file_behind_a_gap_is_set_aside_after_a_kill_but_not_an_empty_one(disk: MemoryDisk) -> None:
    queue = Queues(OpenFiles(disk, writable=True), ROOT, 10 * SIZE).find_or_create("Orders", 0)
    fill(queue, 25)
    queue.write_back()
    second, third = (queue.chain.path(number * 10 * SIZE) for number in (1, 2))
    kept = disk.load(third)
    disk.save(second, b"")
    (again,) = loaded(disk, 10)
    assert again.max_offset == 10
    (name,) = disk.names(ROOT / "setaside")
    assert third.name in name and disk.load(ROOT / "setaside" / name) == kept
