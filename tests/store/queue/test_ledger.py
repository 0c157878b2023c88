"""What the store remembers of its queues besides their files."""

import logging
from typing import Any

import pytest
from msgspec.structs import replace
from tests.store.conftest import ROOT, SMALL, OpenStore, new_message

from cometmq.errors import StoreNotWritable
from cometmq.format import layout
from cometmq.format.record import decode
from cometmq.io.clock import ManualClock
from cometmq.io.open_files import OpenFiles
from cometmq.store import FlushDiskType, MessageStore
from cometmq.store.queue import deletion_notes
from cometmq.store.queue.consume_queue import ConsumeQueue
from cometmq.store.queue.ledger import NAME, Ledger
from cometmq.store.queue.queues import QueueKey, Queues
from cometmq.store.reading import run
from cometmq.testing.memory_disk import MemoryDisk

PATH = layout.config_path(ROOT, NAME)
DELETIONS = layout.config_path(ROOT, deletion_notes.NAME)


def ledger_on(disk: MemoryDisk) -> Ledger:
    ledger = Ledger(disk, ROOT)
    ledger.load()
    return ledger


def delete(ledger: Ledger, topic: str, written_offset: int, min_offset: int = 0) -> None:
    run(ledger.record_deleted_topics([topic], written_offset, min_offset))


def delete_unused(store: MessageStore) -> list[QueueKey]:
    deleted: list[QueueKey] = []
    run(store.deletions.unused(lambda topic, _: topic == "Other", deleted.extend))
    return deleted


def queue_to(end: int, topic: str = "Orders", queue_id: int = 0) -> ConsumeQueue:
    """Return a queue with two entries, which are in its file."""
    queue = Queues(OpenFiles(MemoryDisk(), writable=True), ROOT, 400).find_or_create(topic, queue_id)
    queue.skip_to(2)
    queue.physical_end = end
    queue.write_back()
    return queue


def bodies(store: MessageStore, topic: str = "Orders", queue_id: int = 0) -> list[bytes]:
    result = store.get(topic, queue_id, store.min_queue_offset(topic, queue_id))
    return [decode(record).body for record in result.records]


def remove_queue(disk: MemoryDisk, topic: str, queue_id: int = 0) -> None:
    directory = layout.consume_queue_dir(ROOT, topic, queue_id)
    for name in disk.names(directory):
        disk.remove(directory / name)
    disk.remove_directory(directory)


def expire(open_store: OpenStore, disk: MemoryDisk) -> MemoryDisk:
    """Remove all files of the log but the last; give the disk of the closed store."""
    state = disk.after_kill()
    store = open_store(replace(SMALL, file_reserved_time=0), files=state)
    store.retention.ask()
    assert store.retention.run()
    store.close()
    return state.after_kill()


def test_ends_and_deletions_are_read_again(disk: MemoryDisk) -> None:
    ledger = ledger_on(disk)
    ledger.record_files([queue_to(500), queue_to(700, "Other", 12)], {"20261121062808657": 650}, 0)
    delete(ledger, "Gone", 600)
    again = ledger_on(disk)
    assert again.index_files == {"20261121062808657": 650}
    assert again.ends == {("Orders", 0): 500, ("Other", 12): 700}
    assert again.offsets == {("Orders", 0): 2, ("Other", 12): 2}
    assert again.deleted == {"Gone": 600}


def test_keys_without_quotes_are_read_too(disk: MemoryDisk) -> None:
    disk.make_directory(PATH.parent)
    disk.save(PATH, b'{"queueEnds":{"Orders":{0:500,3:700}}}')
    assert ledger_on(disk).ends == {("Orders", 0): 500, ("Orders", 3): 700}


def test_a_deleted_topic_has_no_ends(disk: MemoryDisk) -> None:
    ledger = ledger_on(disk)
    ledger.record_files([queue_to(500), queue_to(700, "Other")], {}, 0)
    delete(ledger, "Orders", 800)
    assert ledger_on(disk).ends == {("Other", 0): 700}


def test_a_deletion_is_forgotten_once_its_records_have_expired(disk: MemoryDisk) -> None:
    ledger = ledger_on(disk)
    delete(ledger, "A", 600)
    delete(ledger, "B", 601)
    ledger.record_files([], {}, 600)
    assert ledger_on(disk).deleted == {"B": 601}


def test_a_deletion_that_the_disk_refuses_is_none(disk: MemoryDisk) -> None:
    ledger = ledger_on(disk)
    ledger.record_files([queue_to(500)], {}, 0)
    disk.space_bytes = 0
    with pytest.raises(OSError, match="No space"):
        delete(ledger, "Orders", 600)
    assert (ledger.deleted, ledger.ends) == ({}, {("Orders", 0): 500})
    disk.space_bytes = 2**40
    delete(ledger, "Orders", 550)
    disk.space_bytes = 0
    with pytest.raises(OSError, match="No space"):
        delete(ledger, "Orders", 600)
    assert ledger.deleted == ledger_on(disk).deleted == {"Orders": 550}


def test_a_deletion_is_written_without_what_is_known_of_the_other_queues(disk: MemoryDisk) -> None:
    ledger = ledger_on(disk)
    ledger.record_files([queue_to(500 + n, f"T{n}") for n in range(20)], {}, 0)
    before, size = disk.load(PATH), len(disk.load(PATH))
    delete(ledger, "T7", 900)
    run(ledger.record_deleted_queues([("T8", 0), ("T9", 5)], 900))
    assert disk.load(PATH) == before
    assert len(disk.load(DELETIONS)) < size / 10
    again = ledger_on(disk)
    assert again.deleted == {"T7": 900}
    assert again.ends.keys() == {(f"T{n}", 0) for n in range(20) if n not in (7, 8)}


def test_a_queue_that_goes_on_behind_a_deletion_keeps_its_end(disk: MemoryDisk) -> None:
    ledger = ledger_on(disk)
    delete(ledger, "A", 600)
    ledger.record_files([queue_to(600, "A"), queue_to(700, "A", 1)], {}, 0)
    assert ledger_on(disk).ends == {("A", 1): 700}


def test_the_small_file_begins_anew_once_the_large_one_says_the_same(disk: MemoryDisk) -> None:
    ledger = ledger_on(disk)
    ledger.record_files([queue_to(500, "A"), queue_to(500, "B")], {}, 0)
    delete(ledger, "A", 600)
    run(ledger.record_deleted_queues([("B", 0)], 600))
    ledger.record_files([], {}, 0)
    assert b"A" not in disk.load(DELETIONS) and b"B" not in disk.load(DELETIONS)
    again = ledger_on(disk)
    assert (again.deleted, again.ends) == ({"A": 600}, {})


def test_a_deletion_that_has_expired_is_kept_as_long_as_the_large_file_has_an_end_of_its_topic(
    disk: MemoryDisk,
) -> None:
    """Else the queue would go on where it was before."""
    ledger = ledger_on(disk)
    ledger.record_files([queue_to(500, "A")], {}, 0)
    delete(ledger, "A", 600)
    delete(ledger, "B", 610)
    delete(ledger, "C", 900, min_offset=700)
    again = ledger_on(disk)
    assert (again.deleted, again.ends) == ({"A": 600, "C": 900}, {})


def test_an_end_from_before_a_deletion_is_not_kept_for_a_queue_whose_entries_are_in_no_file(
    disk: MemoryDisk,
) -> None:
    ledger = ledger_on(disk)
    ledger.record_files([queue_to(500)], {}, 0)
    delete(ledger, "Orders", 600)
    anew = queue_to(0)
    anew.put(2, 650, 100, 0)
    ledger.record_files([anew], {}, 700)
    assert ledger_on(disk).ends == {}


def test_nothing_is_written_for_a_store_without_queues(disk: MemoryDisk) -> None:
    ledger_on(disk).record_files([], {}, 0)
    assert not disk.exists(PATH)


def test_a_topic_from_a_damaged_record_is_left_out(disk: MemoryDisk) -> None:
    ledger_on(disk).record_files([queue_to(500), queue_to(600, "Or\udcffers")], {}, 0)
    assert ledger_on(disk).ends == {("Orders", 0): 500}


def test_of_entries_that_are_in_no_file_nothing_is_noted(disk: MemoryDisk) -> None:
    ledger = ledger_on(disk)
    ledger.record_files([queue_to(500)], {}, 0)
    known, new = queue_to(500), queue_to(600, "New")
    for queue in (known, new):
        queue.put(2, queue.physical_end, 100, 0)
    ledger.record_files([known, new, queue_to(700, "Other")], {}, 0)
    assert ledger_on(disk).ends == {("Orders", 0): 500, ("Other", 0): 700}
    for queue in (known, new):
        queue.write_back()
    ledger.record_files([known, new], {}, 0)
    assert ledger_on(disk).ends == {("Orders", 0): 600, ("New", 0): 700}
    assert ledger_on(disk).offsets == {("Orders", 0): 3, ("New", 0): 3}


def test_queues_that_a_kill_right_after_a_start_leaves_without_files_do_not_lack_them(
    open_store: OpenStore, disk: MemoryDisk, caplog: pytest.LogCaptureFixture
) -> None:
    open_store().append([new_message(body=b"%d" % n, queue_id=n % 9) for n in range(20)])
    state = disk.after_kill()
    assert open_store(files=state).recovered.messages == 20
    again = open_store(files=state.after_kill())
    assert bodies(again, queue_id=1) == [b"1", b"10", b"19"]
    assert "lack files" not in caplog.text


def test_of_many_queues_without_files_some_are_named(
    open_store: OpenStore, disk: MemoryDisk, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store()
    store.append([new_message(queue_id=n) for n in range(9)])
    store.close()
    state = disk.after_kill()
    for queue_id in range(9):
        remove_queue(state, "Orders", queue_id)
    assert open_store(files=state).max_queue_offset("Orders", 8) == 1
    told = ", ".join(f"Orders-{queue_id}" for queue_id in range(5))
    assert f"9 queues lack files ({told}, …): their messages" in caplog.text


@pytest.mark.parametrize("content", [b"", b'{"queueEnds":5}', b'{"deletedTopics":{"A":"x"}}'])
def test_a_file_of_something_else_counts_as_none(
    disk: MemoryDisk, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    disk.make_directory(PATH.parent)
    disk.put(PATH, content)
    with caplog.at_level(logging.WARNING):
        ledger = ledger_on(disk)
    assert (ledger.ends, ledger.deleted) == ({}, {})
    assert PATH.name in caplog.text


@pytest.mark.parametrize("clean", [True, False])
def test_a_queue_whose_files_are_gone_goes_on_where_it_was(
    open_store: OpenStore, disk: MemoryDisk, *, clean: bool
) -> None:
    store = open_store()
    store.append([new_message(body=b"%d" % n) for n in range(5)])
    store.append([new_message("Other") for _ in range(5)])
    store.close()
    state = disk.after_kill()
    remove_queue(state, "Orders")
    if not clean:
        state.put(layout.abort_path(ROOT), b"1")
    again = open_store(files=state)
    assert bodies(again) == [b"%d" % n for n in range(5)]
    assert again.append([new_message()])[0].queue_offset == 5
    assert again.append([new_message("Other")])[0].queue_offset == 5


def test_a_queue_whose_last_file_is_gone_goes_on_where_it_was(
    open_store: OpenStore, disk: MemoryDisk
) -> None:
    store = open_store()
    per_file = SMALL.queue_file_size // 20
    store.append([new_message(body=b"%d" % n) for n in range(per_file + 5)])
    store.append([new_message("Other")])
    store.close()
    state = disk.after_kill()
    state.remove(layout.consume_queue_path(ROOT, "Orders", 0, SMALL.queue_file_size))
    again = open_store(files=state)
    assert again.append([new_message()])[0].queue_offset == per_file + 5
    assert again.get("Orders", 0, per_file + 4).records


@pytest.mark.parametrize("clean", [True, False])
def test_a_queue_goes_on_where_it_was_though_its_files_are_gone_and_its_messages_expired(
    open_store: OpenStore, disk: MemoryDisk, *, clean: bool
) -> None:
    store = open_store()
    store.append([new_message(body=bytes(1_000)) for _ in range(10)])
    store.append([new_message("Other", body=bytes(1_000)) for _ in range(10)])
    store.close()
    state = expire(open_store, disk)
    remove_queue(state, "Orders")
    for _ in range(2):  # what it was is known at the next start, too
        if not clean:
            state.put(layout.abort_path(ROOT), b"1")
        again = open_store(files=state)
        assert (again.min_queue_offset("Orders", 0), again.max_queue_offset("Orders", 0)) == (10, 10)
        again.close()
        state = state.after_kill()
    again = open_store(files=state)
    assert again.append([new_message(body=b"new")])[0].queue_offset == 10
    assert bodies(again) == [b"new"]
    assert again.append([new_message("Other")])[0].queue_offset == 10


def test_a_name_that_no_queue_can_have_is_passed_over(
    open_store: OpenStore, disk: MemoryDisk, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store()
    store.append([new_message(body=bytes(1_000)) for _ in range(20)])
    store.close()
    state = expire(open_store, disk)
    state.put(PATH, b'{"queueEnds":{"../T":{"0":1}},"queueOffsets":{"../T":{"0":5}}}')
    caplog.clear()
    assert open_store(files=state).max_queue_offset("Orders", 0) == 20
    assert "../T" in caplog.text


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("clean", [True, False])
def test_keys_that_a_missing_index_file_held_are_found_in_the_log(
    open_store: OpenStore, disk: MemoryDisk, number: int, *, clean: bool
) -> None:
    store = open_store()
    for n in range(120):  # 49 to a file
        store.append([new_message(keys=f"k{n}")])
    store.close()
    state = disk.after_kill()
    state.remove(layout.index_dir(ROOT) / state.names(layout.index_dir(ROOT))[number])
    if not clean:
        state.put(layout.abort_path(ROOT), b"1")
    again = open_store(files=state)
    assert [len(again.query("Orders", f"k{n}").records) for n in range(120)] == [1] * 120


def test_an_index_whose_known_files_have_all_expired_is_not_made_anew_after_a_kill(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    expires = replace(SMALL, file_reserved_time=0)
    with open_store(expires) as store:
        store.append([new_message(body=bytes(900), keys=f"k{n}") for n in range(60)])
    store = open_store(expires)
    for begin in (60, 240, 420):
        store.append([new_message(body=bytes(900), keys=f"k{n}") for n in range(begin, begin + 180)])
        clock.advance(SMALL.flush_consume_queue_thorough_interval)
        paths = store.tick()
        store.sync_files(paths)
        store.wait_flushed().result()
        store.vouch(store.dispatched_time)
        if begin == 60:
            store.retention.ask()
            while store.retention.run():
                pass
    again = open_store(expires, disk.after_kill())
    assert again.recovered.begin > again.min_offset
    assert [len(again.query("Orders", f"k{n}").records) for n in (60, 239, 240, 599)] == [0, 1, 1, 1]


@pytest.mark.parametrize("clean", [True, False])
def test_a_deleted_topic_does_not_come_back(open_store: OpenStore, disk: MemoryDisk, *, clean: bool) -> None:
    store = open_store()
    store.append([new_message("Other"), *[new_message()] * 5])
    store.delete_topic("Orders")
    if clean:
        store.close()
    state = disk.after_kill()
    again = open_store(files=state)
    assert again.recovered.clean is clean
    assert again.queues() == [("Other", 0)]
    assert again.append([new_message()])[0].queue_offset == 0
    last = open_store(files=state.after_kill())
    assert [len(bodies(last, topic)) for topic in ("Orders", "Other")] == [1, 1]


def test_a_queue_that_nobody_used_does_not_come_back(open_store: OpenStore, disk: MemoryDisk) -> None:
    with open_store() as store:
        store.append([new_message("Unused")] * 5)
        store.append([new_message("Other", body=bytes(900)) for _ in range(30)])
    state = expire(open_store, disk)
    store = open_store(files=state)
    assert store.queues() == [("Other", 0), ("Unused", 0)]
    state.space_bytes = 0
    with pytest.raises(StoreNotWritable, match="disk full"):
        delete_unused(store)
    state.space_bytes = 2**40
    assert delete_unused(store) == [("Unused", 0)]
    again = open_store(files=state.after_kill())
    assert again.queues() == [("Other", 0)]
    assert again.append([new_message("Unused")])[0].queue_offset == 0


def test_a_deletion_that_a_kill_interrupts_is_completed_at_the_next_start(
    open_store: OpenStore, disk: MemoryDisk
) -> None:
    store = open_store()
    store.append([new_message(), new_message(queue_id=1)])
    store.close()
    state = disk.after_kill()
    delete(ledger_on(state), "Orders", store.written_offset)  # and killed before it removed the files
    assert open_store(files=state).queues() == []
    assert not state.exists(layout.topic_dir(ROOT, "Orders"))


def test_a_deletion_behind_a_log_that_lost_its_tail_takes_no_new_messages(
    open_store: OpenStore, disk: MemoryDisk
) -> None:
    store = open_store(replace(SMALL, flush_interval_commit_log=1_000_000), run_soon=lambda _: None)
    store.append([new_message(body=b"never synced" * 20)])
    store.delete_topic("Orders")
    state = disk.after_power_loss()
    again = open_store(files=state)
    assert again.written_offset == 0
    again.append([new_message(body=b"new")])
    assert bodies(open_store(files=state.after_kill())) == [b"new"]


def test_messages_that_wait_for_the_disk_go_with_their_topic(open_store: OpenStore) -> None:
    asked: list[Any] = []
    sync = replace(SMALL, flush_disk_type=FlushDiskType.SYNC_FLUSH)
    store = open_store(sync, run_soon=asked.append)
    store.append([new_message(body=b"old")])
    store.delete_topic("Orders")
    store.append([new_message(body=b"new")])
    store.wait_flushed().result(timeout=60)
    for call in asked:
        call()
    assert bodies(store) == [b"new"]


def test_a_topic_is_not_deleted_where_the_disk_refuses(open_store: OpenStore, disk: MemoryDisk) -> None:
    store = open_store()
    store.append([new_message(body=b"kept")])
    disk.space_bytes = 0
    with pytest.raises(StoreNotWritable, match="disk full"):
        store.delete_topic("Orders")
    assert bodies(store) == [b"kept"]
    store.close()
    with pytest.raises(StoreNotWritable, match="closed"):
        store.delete_topic("Orders")


def test_ends_behind_a_truncated_log_are_forgotten(disk: MemoryDisk) -> None:
    ledger = ledger_on(disk)
    ledger.record_files([queue_to(100), queue_to(300, "Bills")], {}, 0)
    ledger.forget_behind(299)
    again = ledger_on(disk)
    assert (again.ends, again.offsets) == ({("Orders", 0): 100}, {("Orders", 0): 2})
