"""The transient store pool: what is in it is neither safe nor readable yet."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.store.conftest import SMALL, OpenStore

from cometmq.broker import settings as broker_settings
from cometmq.errors import SettingsError
from cometmq.store import FlushDiskType, Message, MessageStore, StoreSettings
from cometmq.testing.memory_disk import MemoryDisk

HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
RARELY = replace(
    SMALL,
    transient_store_pool_enable=True,
    commit_interval_commit_log=1_000_000,
    wake_commit_when_put_message=False,
)


def never(_: Any) -> None:
    """An owner that is asked to work, and does not."""


def test_sync_flush_with_the_transient_pool_is_refused_before_anything_starts(tmp_path: Path) -> None:
    """RocketMQ #7523 (and #5960, where controllers wait for a copy in place of the disk).

    Group commit synced the file while the message was still in the pool, and waited for what could not come:
    each send ended in FLUSH_DISK_TIMEOUT. Both could be set, and the broker started.
    """
    config = tmp_path / "broker.conf"
    config.write_text(
        f"storePathRootDir={tmp_path / 'store'}\nflushDiskType=SYNC_FLUSH\ntransientStorePoolEnable=true\n"
    )
    with pytest.raises(SettingsError, match=r"transientStorePoolEnable.*flushDiskType"):
        broker_settings.load(config)
    with pytest.raises(SettingsError, match=r"transientStorePoolEnable.*flushDiskType"):
        StoreSettings(transient_store_pool_enable=True, flush_disk_type=FlushDiskType.SYNC_FLUSH)
    assert not (tmp_path / "store").exists()


def test_a_half_message_in_the_pool_is_not_there_yet_and_then_is_whole(open_store: OpenStore) -> None:
    """RocketMQ #2098.

    Who ended a transaction asked for its half message by its place in the log; it was in the pool only, and
    the transaction could not be ended.
    """
    store = open_store(RARELY, run_soon=never)
    receipts = [store.append_message(Message(HALF_TOPIC, b"%d" % n * 50)) for n in range(100)]  # over files
    assert store.pointers.dispatched == store.committed_offset == 0
    assert list(store.messages(HALF_TOPIC)) == []
    assert [store.read_record(receipt.physical_offset) for receipt in receipts] == [None] * 100
    store.wait_flushed().result()
    store._after_sync()
    assert [message.body for message in store.messages(HALF_TOPIC)] == [b"%d" % n * 50 for n in range(100)]
    found = [store.message_by_id(receipt.offset_id) for receipt in receipts]
    assert [message and message.body for message in found] == [b"%d" % n * 50 for n in range(100)]


def test_what_the_pool_loses_with_its_process_leaves_no_hole_in_queues_or_log(
    open_store: OpenStore, disk: MemoryDisk
) -> None:
    """RocketMQ #495.

    After each of two crashes the log lost a tail. Queue entries of the first one's lost messages were still
    in the queue's file, and after the second one counted as true.
    """

    def put(store: MessageStore, number: int) -> None:
        store.append_message(Message("Orders", b"%d" % number, keys=(f"k{number}",)))

    state = disk
    expected: list[int] = []
    for first in (0, 100, 200):
        store = open_store(RARELY, files=state, run_soon=never)
        assert [int(message.body) for message in store.messages("Orders")] == expected
        assert store.recovered.damages == [] and store.recovered.gaps == []
        for number in range(first, first + 30):
            put(store, number)
        store.wait_flushed().result()
        for number in range(first + 30, first + 60):
            put(store, number)
        store._after_sync()
        store.query("Orders", "k0")
        store._queues.write_back()
        expected += range(first, first + 30)
        state = state.after_kill()
    store = open_store(RARELY, files=state)
    assert [int(message.body) for message in store.messages("Orders")] == expected
    assert store.messages_by_key("Orders", "k45") == store.messages_by_key("Orders", "k145") == []
