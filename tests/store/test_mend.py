"""What is derived and damaged is found when a store is opened, and made anew."""

import pytest
from msgspec.structs import replace
from tests.store.conftest import ROOT, SMALL, OpenStore, new_message

from cometmq.format import layout, properties
from cometmq.format.delay_level import SCHEDULE_TOPIC
from cometmq.format.java.java_hash import tags_code
from cometmq.format.queue_entry import SIZE
from cometmq.format.record import QUEUE_ID_AT, QUEUE_OFFSET_AT
from cometmq.store import MessageStore
from cometmq.store.mend import mend
from cometmq.store.queue import ledger
from cometmq.testing.memory_disk import MemoryDisk

MESSAGES = 40
QUEUE = layout.consume_queue_path(ROOT, "Orders", 0, 0)


@pytest.fixture
def closed(open_store: OpenStore, disk: MemoryDisk) -> MemoryDisk:
    store = open_store()
    for n in range(MESSAGES):
        store.append([new_message(body=b"%d" % n, tags="even" if n % 2 else "odd", keys=f"k{n}")])
    store.close()
    return disk


def flip(disk: MemoryDisk, position: int) -> None:
    file = disk.open(QUEUE, writable=True)
    file.write(position, bytes([file.read(position, 1)[0] ^ 1]))


def all_are_there(store: MessageStore) -> bool:
    codes = [{tags_code("odd")}, {tags_code("even")}]
    return all(
        len(store.get("Orders", 0, n, 1, tags_codes=codes[n % 2]).records) == 1
        and len(store.query("Orders", f"k{n}").records) == 1
        for n in range(MESSAGES)
    )


def test_a_sound_store_is_left_as_it_is(closed: MemoryDisk) -> None:
    assert not mend(ROOT, SMALL, closed)
    assert not closed.exists(ROOT / "setaside")


@pytest.mark.parametrize("at", [7, 11, 19], ids=["offset", "size", "tags code"])
def test_a_damaged_entry_has_its_queue_made_anew(
    closed: MemoryDisk, open_store: OpenStore, at: int, caplog: pytest.LogCaptureFixture
) -> None:
    flip(closed, 5 * SIZE + at)
    assert all_are_there(open_store(files=closed))
    assert closed.names(ROOT / "setaside") == ["consumequeue-Orders-0.0"]
    assert f"{QUEUE}, byte {5 * SIZE}" in caplog.text


OWN_LEVELS = replace(SMALL, message_delay_level="3s 40s")
DELAYED_QUEUE = layout.consume_queue_path(ROOT, SCHEDULE_TOPIC, 0, 0)


@pytest.fixture
def delayed(open_store: OpenStore, disk: MemoryDisk) -> MemoryDisk:
    store = open_store(OWN_LEVELS)
    for _ in range(3):
        named = properties.encode({"DELAY": "1"})
        store.append([new_message(SCHEDULE_TOPIC)._replace(properties=named)])
    store.close()
    return disk


def test_other_levels_than_those_of_when_a_message_came_set_no_queue_aside(delayed: MemoryDisk) -> None:
    assert not mend(ROOT, SMALL, delayed)
    assert not delayed.exists(ROOT / "setaside")


def test_a_queue_with_an_entry_that_is_no_time_when_its_message_may_be_due_is_set_aside(
    delayed: MemoryDisk,
) -> None:
    file = delayed.open(DELAYED_QUEUE, writable=True)
    file.write(SIZE + 19, bytes([file.read(SIZE + 19, 1)[0] ^ 1]))
    assert mend(ROOT, OWN_LEVELS, delayed)
    assert delayed.names(ROOT / "setaside") == [f"consumequeue-{SCHEDULE_TOPIC}-0.0"]


@pytest.mark.parametrize("at", [18, 60], ids=["where it begins", "a slot"])
def test_an_index_of_which_a_file_is_damaged_is_made_anew(
    closed: MemoryDisk, open_store: OpenStore, at: int
) -> None:
    """As flip 51187 of ``damage``: by its header the first file of a killed store was the last."""
    names = closed.names(layout.index_dir(ROOT))
    path = layout.index_dir(ROOT) / names[0]
    closed.open(path, writable=True).write(at, b"\x7f\x00")
    closed.remove(layout.config_path(ROOT, ledger.NAME))
    assert all_are_there(open_store(files=closed))
    assert len(closed.names(ROOT / "setaside")) == len(names) == 2


def test_a_record_whose_queue_offset_is_damaged_does_not_spoil_its_sound_queue(
    closed: MemoryDisk, open_store: OpenStore
) -> None:
    log = layout.commitlog_path(ROOT, 0)
    offset = int.from_bytes(closed.load(QUEUE)[5 * SIZE :][:8], "big")
    closed.open(log, writable=True).write(offset + QUEUE_OFFSET_AT, b"\x01")
    store = open_store(files=closed)
    assert [len(store.get("Orders", 0, n, 1).records) for n in (4, 5, 6)] == [1, 0, 1]
    assert not closed.exists(ROOT / "setaside")


def test_a_record_that_claims_another_ones_place_does_not_spoil_that_queue(
    open_store: OpenStore, disk: MemoryDisk
) -> None:
    """As flip 6500 of ``damage``: a damaged QUEUEID, while both queues are at the same queue offset."""
    store = open_store()
    for n in range(4):
        for queue_id in (0, 1):
            store.append([new_message(body=b"%d-%d" % (queue_id, n), queue_id=queue_id)])
    store.close()
    offset = int.from_bytes(disk.load(QUEUE)[2 * SIZE :][:8], "big")
    disk.open(layout.commitlog_path(ROOT, 0), writable=True).write(offset + QUEUE_ID_AT, bytes([0, 0, 0, 1]))
    store = open_store(files=disk)
    assert [len(store.get("Orders", queue_id, 0, 4).records) for queue_id in (0, 1)] == [4, 4]
    assert not disk.exists(ROOT / "setaside")
