"""What a slave is sent without a controller; over sockets: ``test_master.py``."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.broker.conftest import SMALL
from tests.store.conftest import new_message

from cometmq.errors import ProtocolError
from cometmq.replication.acks import NOTHING, SlaveAcks
from cometmq.replication.feeds import PIECE_SIZE, ClassicFeed, Piece
from cometmq.replication.frames import LogFrame, LogFrameReader, encode_heartbeat, encode_report
from cometmq.replication.settings import ReplicationSettings
from cometmq.store.settings import StoreSettings
from cometmq.store.store import MessageStore


class Desk:
    """A master's store of three messages, and the feed of one slave."""

    def __init__(self, store: MessageStore) -> None:
        store.append([new_message()] * 3)
        self.end = store.written_offset
        self.acks = SlaveAcks(1, 10, lambda: store.written_offset)
        self.feed = ClassicFeed(store, self.acks, ReplicationSettings(ha_transfer_batch_size=1024))


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with MessageStore.open(tmp_path, StoreSettings(**SMALL)) as store:
        yield Desk(store)


def test_nothing_is_sent_before_the_first_report(desk: Desk) -> None:
    assert desk.feed.next_piece() is None and desk.feed.heartbeat() == b""
    assert desk.feed.acked == NOTHING and not desk.feed.is_in_sync
    assert list(desk.acks.by_slave.values()) == [NOTHING]


def test_the_log_is_sent_from_where_the_first_report_says(desk: Desk) -> None:
    feed = desk.feed
    assert feed.received(encode_report(0)) == b""
    piece = feed.next_piece()
    assert piece == Piece(0, PIECE_SIZE)
    data = b"x" * desk.end
    frames = LogFrameReader(1 << 20).receive(b"".join(feed.frames(piece, data)))
    assert frames == [LogFrame(0, data)]
    assert feed.sent == desk.end and feed.next_piece() is None
    assert feed.heartbeat() == encode_heartbeat(desk.end)
    feed.received(encode_report(desk.end))
    assert feed.acked == desk.acks.replicated_offset == desk.end and feed.is_in_sync
    feed.close()
    assert not desk.acks.by_slave


def test_a_slave_with_more_than_its_master_gets_nothing(desk: Desk) -> None:
    with pytest.raises(ProtocolError, match="has messages that this master lacks"):
        desk.feed.received(encode_report(desk.end + 1))


@pytest.mark.parametrize("reported", [1 << 60, -5, 0])
def test_a_report_beyond_what_was_sent_or_backwards_acknowledges_nothing(desk: Desk, reported: int) -> None:
    desk.feed.received(encode_report(desk.end))
    with pytest.raises(ProtocolError, match=f"reports {reported}, but its last report was {desk.end}"):
        desk.feed.received(encode_report(reported))
    assert desk.acks.replicated_offset == desk.end
