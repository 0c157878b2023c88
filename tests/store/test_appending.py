from pathlib import Path

import msgspec
import pytest
from tests.kernels.reading import frames_in
from tests.kernels.sending import USUAL, Reader, json_frame

from cometmq import kernels
from cometmq.errors import StoreNotWritable
from cometmq.format.host import pack_host, sized_host
from cometmq.format.record import decode
from cometmq.io.clock import ManualClock
from cometmq.store.append import NewMessage
from cometmq.store.settings import StoreSettings
from cometmq.store.store import MessageStore
from cometmq.testing.memory_disk import MemoryDisk

ROOT = Path("/disk/store")
V4 = pack_host("127.0.0.1", 10911)
SMALL = StoreSettings(mapped_file_size_commit_log=1000, mapped_file_size_consume_queue=20 * 100)


def message(queue_id: int) -> NewMessage:
    return NewMessage("T", queue_id, b"plain", USUAL["i"].encode(), 0, V4, V4, "TagA")


def bodies(store: MessageStore, queue_id: int) -> list[bytes]:
    records: list[bytes] = []
    while records_of_a_file := store.get("T", queue_id, len(records)).records:
        records += records_of_a_file
    return [decode(record).body for record in records]


@pytest.fixture
def reader() -> Reader:
    return Reader(kernels.load())


def append(reader: Reader, store: MessageStore, count: int, queue_id: int) -> int:
    """Append sends to a queue; give how many were taken."""
    frames = frames_in(kernels.load(), json_frame({"e": str(queue_id)}) * count)
    return store.appending.sends(kernels.load().sends, reader.batch, frames, sized_host(V4))


@pytest.mark.parametrize(
    "path",
    [{}, {"write_without_mmap": False}, {"transient_store_pool_enable": True}],
    ids=["channel", "mapped", "pool"],
)
def test_both_ways_of_appending_number_messages_together_and_one_makes_files(
    reader: Reader, path: dict[str, bool]
) -> None:
    disk = MemoryDisk()
    settings = msgspec.structs.replace(SMALL, **path)
    with MessageStore.open(ROOT, settings, files=disk, clock=ManualClock()) as store:
        assert [store.appending.queue_number("T", queue_id) for queue_id in range(4)] == [0, 1, 2, 3]
        assert append(reader, store, 1, 1) == 0  # there is no file yet
        told: list[int] = []
        store.on_arrival(lambda arrivals: told.extend(arrival.next_offset for arrival in arrivals))
        store.append([message(1)])
        fit = append(reader, store, 9, 1)
        assert 0 < fit < 9
        store.append([message(1)])
        assert store.get("T", 1, 0).max_offset == fit + 2
        assert bodies(store, 1) == [b"plain", *[b"body"] * fit, b"plain"]
        assert told == list(range(1, fit + 3))
        assert len(store.query("T", "abc", 100).records) == fit + 2
    with MessageStore.open(ROOT, settings, files=disk, clock=ManualClock()) as again:
        assert bodies(again, 1) == [b"plain", *[b"body"] * fit, b"plain"]


def test_a_full_disk_leaves_no_gap_in_the_queue(reader: Reader) -> None:
    disk = MemoryDisk()
    settings = msgspec.structs.replace(SMALL, mapped_file_size_commit_log=1 << 20)
    with MessageStore.open(ROOT, settings, files=disk, clock=ManualClock()) as store:
        for queue_id in range(2):
            store.append([message(queue_id)])
        disk.space_bytes = 0
        with pytest.raises(StoreNotWritable, match="disk full"):
            append(reader, store, 50, 1)
        assert [queue.next_offset for queue in store._queues] == [1, 1]
        disk.space_bytes = 1 << 40
        assert append(reader, store, 2, 1) == 2
        assert bodies(store, 1) == [b"plain", b"body", b"body"]


def test_an_error_that_is_raised_for_each_append_does_not_grow() -> None:
    disk, clock = MemoryDisk(), ManualClock()
    with MessageStore.open(ROOT, SMALL, files=disk, clock=clock, run_soon=lambda _: None) as store:
        store.append([message(1)])
        disk.fail_sync = True
        with pytest.raises(StoreNotWritable, match="sync failed"):
            store.wait_flushed().result(60)
        for _ in range(3):
            with pytest.raises(StoreNotWritable, match="sync failed") as raised:
                store.append([message(1)])
        assert raised.value is store.not_writable
        assert len(raised.traceback) <= 4


def test_a_message_that_is_sent_on_does_not_claim_places_in_light_queues(reader: Reader) -> None:
    light = USUAL["i"] + "INNER_MULTI_DISPATCH\x01%LMQ%a\x02INNER_MULTI_QUEUE_OFFSET\x0190\x02"
    sent_on = message(0)._replace(properties=light.encode())
    with MessageStore.open(ROOT, SMALL, files=MemoryDisk(), clock=ManualClock()) as store:
        store.append([message(0), sent_on])
        frames = frames_in(kernels.load(), json_frame({"e": "0", "i": light}))
        appended = store.appending.sends(kernels.load().sends, reader.batch, frames, sized_host(V4))
        assert appended == 0  # it is left to be appended as a message
        stored = [decode(data).properties for data in store.get("T", 0, 0).records]
        assert stored == [USUAL["i"].encode(), USUAL["i"].encode() + b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02"]
