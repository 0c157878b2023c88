"""A master's part in its set: its epoch, and what may be read of its log."""

from pathlib import Path

import pytest
from tests.broker.conftest import SMALL
from tests.replication.controller.parts import membership_of
from tests.store.conftest import new_message

from cometmq.errors import FormatError
from cometmq.replication.controller.frames import SlaveHandshake, SlaveReport
from cometmq.replication.controller.life import MasterNews
from cometmq.replication.controller.master_part import MasterPart
from cometmq.replication.epochs import EpochList
from cometmq.replication.settings import BrokerRole, ReplicationSettings
from cometmq.store.settings import StoreSettings
from cometmq.store.store import MessageStore

ALL_ACK = ReplicationSettings(
    broker_role=BrokerRole.SYNC_MASTER, all_ack_in_sync_state_set=True, in_sync_replicas=2
)
NEWS = MasterNews(1, "m:1", 3, frozenset({1}), 5)


def open_store(root: Path) -> MessageStore:
    return MessageStore.open(root, StoreSettings(**SMALL))


async def test_an_epoch_begins_at_the_logs_end_and_is_saved_at_the_start(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.append([new_message()])
        end = store.written_offset
        membership, _ = membership_of(tmp_path, NEWS, EpochList.of((1, 0)))
        part = MasterPart(store, ALL_ACK, membership)
        assert membership.epochs.epochs == EpochList.of((1, 0))
        await part.start()
        assert membership.epochs.epochs == EpochList.of((1, 0), (3, end))
        store.append([new_message()])
        await part.go_on(NEWS._replace(epoch=4))
        later = EpochList.of((1, 0), (3, end), (4, store.written_offset))
        assert membership.epochs.epochs == later == membership.epochs.load()
        assert part.acks.in_sync.entry == later.entries[-1]


async def test_nothing_may_be_read_before_all_in_sync_have_it(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        membership, _ = membership_of(tmp_path, NEWS)
        part = MasterPart(store, ALL_ACK, membership)
        await part.start()
        store.append([new_message()])
        assert store.max_queue_offset("Orders", 0) == 1, "the master is alone"
        part.acks.settle(frozenset({1, 2}), 6)
        first_end = store.written_offset
        store.append([new_message()])
        assert store.max_queue_offset("Orders", 0) == 1 and store.confirm_offset == first_end
        feed = part.make_feed()
        feed.received(SlaveHandshake(2).encode() + SlaveReport(0).encode())
        feed.next_piece()
        feed.received(SlaveReport(store.written_offset).encode())
        assert store.max_queue_offset("Orders", 0) == 2
        assert store.confirm_offset == store.written_offset
        feed.close()
        store.append([new_message()])
        assert store.max_queue_offset("Orders", 0) == 2
    with open_store(tmp_path) as store:
        assert store.max_queue_offset("Orders", 0) == 3, "it is dispatched when the store is closed"


async def test_without_that_a_master_shows_all_that_it_has(tmp_path: Path) -> None:
    settings = ReplicationSettings(broker_role=BrokerRole.SYNC_MASTER)
    with open_store(tmp_path) as store:
        membership, _ = membership_of(tmp_path, NEWS._replace(in_sync=frozenset({1, 2})))
        part = MasterPart(store, settings, membership)
        store.append([new_message()])
        assert store.max_queue_offset("Orders", 0) == 1
        assert part.acks.replicated_offset == store.written_offset


async def test_no_epoch_begins_that_is_over(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        membership, _ = membership_of(tmp_path, NEWS, EpochList.of((4, 0)))
        with pytest.raises(FormatError, match="epoch 3 is over"):
            MasterPart(store, ALL_ACK, membership)
