"""Bulk dispatch: what recovery and rebuild put into queues and index, and what they do not."""

import pytest
from tests.store.conftest import ROOT, OpenStore, new_message

from cometmq.format import layout
from cometmq.format.record import QUEUE_ID_AT, QUEUE_OFFSET_AT, decode
from cometmq.store import MessageStore
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
