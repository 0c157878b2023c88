"""Bulk dispatch: what recovery and rebuild put into queues and index, and what they do not."""

import threading
from collections.abc import Iterator

import numpy as np
import pytest
from tests.store.conftest import ROOT, SMALL, OpenStore, new_message

from cometmq.format import layout
from cometmq.format.record import QUEUE_ID_AT, QUEUE_OFFSET_AT, decode
from cometmq.store import MessageStore
from cometmq.store.queue.consume_queue import ENTRY_DTYPE
from cometmq.store.recovery.replay import keep_due_times, read_ahead
from cometmq.testing.memory_disk import MemoryDisk

FIRST = layout.commitlog_path(ROOT, 0)
TOPIC = b"Orders"


def filled(open_store: OpenStore, count: int) -> MessageStore:
    """A store with one queue of ``count`` messages."""
    store = open_store()
    for n in range(count):
        store.append([new_message(body=b"%03d" % n)])
    return store


def bodies(store: MessageStore, topic: str = "Orders") -> list[bytes]:
    """The bodies of the messages that can be read, in the order of the queue."""
    found: list[bytes] = []
    offset = store.min_queue_offset(topic, 0)
    while offset < store.max_queue_offset(topic, 0):
        result = store.get(topic, 0, offset)
        found += [decode(record).body for record in result.records]
        offset = result.next_offset
    return found


def overwritten(store: MessageStore, disk: MemoryDisk, message: int, at: int, data: bytes) -> MemoryDisk:
    """What a kill leaves, with some bytes of one message's record changed."""
    record = store.get("Orders", 0, message).records[0]
    state = disk.after_kill()
    state.open(FIRST, writable=True).write(decode(record).physical_offset + at, data)
    return state


@pytest.mark.parametrize("count_after", [1, 2, 7])
def test_a_topic_made_again_has_only_its_new_messages_after_a_kill(
    open_store: OpenStore, disk: MemoryDisk, count_after: int
) -> None:
    store = filled(open_store, 5)
    store.delete_topic("Orders")
    for n in range(count_after):
        store.append([new_message(body=b"new %d" % n)])
    again = open_store(files=disk.after_kill())
    assert bodies(again) == [b"new %d" % n for n in range(count_after)]
    assert again.append([new_message()])[0].queue_offset == count_after


def test_old_messages_of_a_topic_made_again_do_not_come_back_behind_its_new_ones(
    open_store: OpenStore, disk: MemoryDisk
) -> None:
    store = filled(open_store, 9)
    store.delete_topic("Orders")
    store.append([new_message(body=b"new")])
    store.close()
    state = disk.after_kill()
    state.put(layout.abort_path(ROOT), b"1")  # as if killed with its queues on the disk
    assert bodies(open_store(files=state)) == [b"new"]


@pytest.mark.parametrize("bit", [0, 1, 2, 10, 40, 63])
def test_a_damaged_queue_offset_costs_no_other_message(
    open_store: OpenStore, disk: MemoryDisk, bit: int
) -> None:
    store = open_store()
    for n in range(8):
        store.append([new_message(body=b"%03d" % n), new_message("Others", body=bytes(300))])
    state = overwritten(store, disk, 4, QUEUE_OFFSET_AT, (4 ^ 1 << bit).to_bytes(8, "big"))
    again = open_store(files=state)
    expected = [b"%03d" % n for n in range(8)]
    readable = bodies(again)
    assert [body for body in expected if body != b"004"] == [body for body in readable if body != b"004"]


@pytest.mark.parametrize("topic", [b"Or/ers", b"Or\0ers", b"Or\xffers"])
def test_a_damaged_topic_costs_no_other_message(
    open_store: OpenStore, disk: MemoryDisk, topic: bytes
) -> None:
    store = filled(open_store, 3)
    record = store.get("Orders", 0, 1).records[0]
    state = overwritten(store, disk, 1, record.index(TOPIC), topic)
    assert bodies(open_store(files=state)) == [b"000", b"002"]


def test_a_damaged_queue_id_costs_no_other_message(open_store: OpenStore, disk: MemoryDisk) -> None:
    store = filled(open_store, 3)
    state = overwritten(store, disk, 1, QUEUE_ID_AT, b"\x80\0\0\0")
    again = open_store(files=state)
    assert bodies(again) == [b"000", b"002"]
    again.close()
    assert bodies(open_store(files=state)) == [b"000", b"002"]


@pytest.mark.parametrize("bit", [0, 1, 2])
def test_a_queue_offset_damaged_at_the_end_of_a_file_costs_no_other_message(
    open_store: OpenStore, disk: MemoryDisk, bit: int
) -> None:
    """As flip 13985 of ``damage``: what goes on in the next file tells that it is damaged."""
    store = open_store()
    while not disk.exists(layout.commitlog_path(ROOT, SMALL.mapped_file_size_commit_log)):
        store.append([new_message(body=b"%03d" % store.max_queue_offset("Orders", 0))])
    last = store.max_queue_offset("Orders", 0) - 2
    for _ in range(5):
        store.append([new_message(body=b"%03d" % store.max_queue_offset("Orders", 0))])
    state = overwritten(store, disk, last, QUEUE_OFFSET_AT, (last ^ 1 << bit).to_bytes(8, "big"))
    again = open_store(files=state)
    assert [body for body in bodies(again) if body != b"%03d" % last] == [
        b"%03d" % n for n in range(last + 7) if n != last
    ]
    assert [gap[2:] for gap in again.recovered.gaps] == [(last, 1)]


@pytest.mark.parametrize("ahead", [0, 1, 2])
def test_a_message_that_names_another_queue_costs_that_one_none_of_its_own(
    open_store: OpenStore, disk: MemoryDisk, ahead: int
) -> None:
    """That one goes on as if it were not there, be the queue offset that it claims still to come or taken."""
    store = open_store()
    for n in range(9):
        store.append([new_message(body=b"%03d" % n)])
        if n >= ahead:
            store.append([new_message(body=b"other", queue_id=1)])
    record = store.get("Orders", 1, 4).records[0]
    state = disk.after_kill()
    at = decode(record).physical_offset + QUEUE_ID_AT
    state.open(FIRST, writable=True).write(at, bytes(4))
    assert bodies(open_store(files=state)) == [b"%03d" % n for n in range(9)]


def test_of_two_messages_that_claim_one_place_the_queues_file_tells_which_is_true(
    open_store: OpenStore, disk: MemoryDisk, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store()
    for n in range(9):
        store.append([new_message(body=b"other", queue_id=1)])
        store.append([new_message(body=b"%03d" % n)])
    record = store.get("Orders", 1, 4).records[0]
    at = decode(record).physical_offset
    without = disk.after_kill()
    store.close()
    disk.put(layout.abort_path(ROOT), b"1")  # as if killed with its queues on the disk
    for state in (disk, without):
        state.open(FIRST, writable=True).write(at + QUEUE_ID_AT, bytes(4))
    assert bodies(open_store(files=disk)) == [b"%03d" % n for n in range(9)]
    assert bodies(open_store(files=without)) == [b"%03d" % n if n != 4 else b"other" for n in range(9)]
    assert f"1 messages from {at + len(record)} on are skipped" in caplog.text


def test_when_a_delayed_message_is_due_stays_as_the_file_of_its_queue_says() -> None:
    stored = np.full(5, 1_700_000_000_000)
    computed, known = np.zeros(5, ENTRY_DTYPE), np.zeros(4, ENTRY_DTYPE)
    computed["size"] = known["size"] = 100
    computed["tags_code"] = stored + 20_000
    known["tags_code"] = stored[:4] + 3_000
    known["tags_code"][1] += 1
    known["physical_offset"][2] = 7
    computed["tags_code"][3] = 116
    keep_due_times(computed, stored, known)
    assert (computed["tags_code"] - stored).tolist() == [
        3_000,
        20_000,
        20_000,
        116 - 1_700_000_000_000,
        20_000,
    ]


def test_items_read_ahead_come_in_their_order() -> None:
    assert list(read_ahead(iter(range(100)))) == list(range(100))
    assert list(read_ahead(iter(()))) == []


def test_the_next_item_is_read_while_one_is_used() -> None:
    reading = threading.Event()

    def items() -> Iterator[int]:
        yield 1
        reading.set()
        yield 2

    items_read = read_ahead(items())
    assert next(items_read) == 1
    assert reading.wait(60)
    assert list(items_read) == [2]


def test_an_error_of_reading_ahead_comes_in_place_of_its_item() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise OSError("gone")

    items_read = read_ahead(items())
    assert next(items_read) == 1
    with pytest.raises(OSError, match="gone"):
        next(items_read)


def test_no_thread_stays_when_reading_ahead_is_closed() -> None:
    items_read = read_ahead(iter(range(100)))
    next(items_read)
    items_read.close()
    assert not [thread for thread in threading.enumerate() if "read-ahead" in thread.name]
