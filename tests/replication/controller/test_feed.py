"""What a slave is sent under a controller."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.broker.conftest import SMALL
from tests.replication.controller.parts import OverseerOfTest
from tests.store.conftest import new_message

from cometmq.errors import ProtocolError
from cometmq.replication.acks import NOTHING
from cometmq.replication.controller.feed import EpochFeed
from cometmq.replication.controller.frames import (
    MasterData,
    MasterFrames,
    MasterHandshake,
    SlaveHandshake,
    SlaveReport,
)
from cometmq.replication.controller.in_sync_set import InSyncSet
from cometmq.replication.controller.set_acks import SetAcks
from cometmq.replication.epochs import EpochEntry, EpochList
from cometmq.store.reading import run
from cometmq.store.settings import StoreSettings
from cometmq.store.store import MessageStore

BATCH = 100


class Desk:
    """A master's store of two epochs, and the feed of one slave."""

    def __init__(self, store: MessageStore) -> None:
        self.store = store
        store.append([new_message()])
        self.begin = store.written_offset
        store.append([new_message()] * 2)
        self.end = store.written_offset
        self.epochs = EpochList.of((1, 0), (4, self.begin))
        entry = self.epochs.entries[-1]
        in_sync = InSyncSet(1, entry, frozenset({1, 2}), 1, all_ack=True)
        overseer = OverseerOfTest()
        self.acks = SetAcks(in_sync, None, lambda: store.written_offset, lambda: 0, overseer.propose)
        self.feed = EpochFeed(store, self.acks, lambda: self.epochs, BATCH)

    def sent(self) -> list[MasterData]:
        """Return the frames of the next piece."""
        piece = self.feed.next_piece()
        assert piece is not None
        data = run(self.store.readings.log_bytes(*piece))
        assert data is not None
        frames = list(MasterFrames().receive(b"".join(self.feed.frames(piece, data))))
        return [frame for frame in frames if isinstance(frame, MasterData)]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with MessageStore.open(tmp_path, StoreSettings(**SMALL)) as store:
        yield Desk(store)


async def test_a_handshake_is_answered_and_the_log_sent_epoch_by_epoch(desk: Desk) -> None:
    feed = desk.feed
    assert feed.next_piece() is None and feed.heartbeat() == b"" and not feed.is_in_sync
    (answer,) = MasterFrames().receive(feed.received(SlaveHandshake(2).encode()))
    assert answer == MasterHandshake(desk.end, desk.epochs)
    assert feed.acked == NOTHING and feed.is_in_sync and feed.next_piece() is None
    assert feed.received(SlaveReport(0).encode()) == b""
    first, later = desk.sent(), desk.sent()
    assert {frame.entry for frame in first} == {EpochEntry(1, 0)}
    assert {frame.entry for frame in later} == {EpochEntry(4, desk.begin)}
    frames = [*first, *later]
    assert all(len(frame.data) <= BATCH and frame.confirm_offset == 0 for frame in frames)
    files = run(desk.store.readings.log_bytes(0, desk.end))
    assert b"".join(bytes(frame.data) for frame in frames) == files
    assert feed.sent == desk.end and feed.next_piece() is None
    feed.received(SlaveReport(desk.end).encode())
    assert feed.acked == desk.acks.replicated_offset == desk.end
    (beat,) = MasterFrames().receive(feed.heartbeat())
    assert beat == MasterData(desk.end, EpochEntry(4, desk.begin), desk.end)
    feed.close()
    assert not desk.acks.by_slave


async def test_a_second_handshake_begins_anew(desk: Desk) -> None:
    for _ in range(2):
        desk.feed.received(SlaveHandshake(2).encode() + SlaveReport(desk.begin).encode())
        assert desk.feed.acked == desk.begin
        assert desk.sent()[0].offset == desk.begin
        assert desk.acks.by_slave == {2: desk.begin}


async def test_a_piece_that_has_expired_ends_the_connection(desk: Desk) -> None:
    desk.feed.received(SlaveHandshake(2).encode() + SlaveReport(0).encode())
    piece = desk.feed.next_piece()
    assert piece is not None
    with pytest.raises(ProtocolError, match="from 0 on, has expired"):
        list(desk.feed.frames(piece, b"less"))
