"""What one slave of a master is sent, and what its reports mean: the protocol of a connection as a value.

``master.py`` has the sockets; a feed says what goes over one of them. ``ClassicFeed`` is RocketMQ's classic
protocol; with a controller there is another one (``controller/feed.py``).

Source: RocketMQ ``store/ha/DefaultHAConnection.java``.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from cometmq.errors import ProtocolError
from cometmq.message import Buffer
from cometmq.replication.acks import NOTHING, SlaveAcks
from cometmq.replication.frames import ReportReader, encode_frames, encode_heartbeat
from cometmq.replication.settings import ReplicationSettings
from cometmq.store.store import MessageStore

PIECE_SIZE: Final = 256 * 1024
"""Bytes of the log that are sent to one slave before other work of the loop has its turn."""


class Piece(NamedTuple):
    """Bytes of the log to send next, at most ``size`` of them."""

    offset: int
    size: int


class LogFeed(Protocol):
    """What one slave is sent."""

    @property
    def sent(self) -> int:
        """The log's offset up to which was sent."""
        ...

    @property
    def acked(self) -> int:
        """The end of the slave's log by its last report; NOTHING before the first."""
        ...

    @property
    def is_in_sync(self) -> bool:
        """Whether the slave counts as in sync."""
        ...

    def received(self, data: bytes) -> bytes:
        """Handle what the slave has sent; return what to answer at once. Raises ProtocolError."""
        ...

    def next_piece(self) -> Piece | None:
        """Return what to send next; None if there is nothing now."""
        ...

    def frames(self, piece: Piece, data: Buffer) -> Iterator[Buffer]:
        """Return the parts of the frames that carry the bytes that were read of a piece."""
        ...

    def heartbeat(self) -> bytes:
        """Return what to send if there was nothing for a while."""
        ...

    def close(self) -> None:
        """Forget the slave: its connection is closed."""
        ...


class ClassicFeed:
    """What one slave is sent without a controller: the log, from where its first report says.

    Attributes:
        sent: see ``LogFeed``.
    """

    def __init__(self, store: MessageStore, acks: SlaveAcks, settings: ReplicationSettings) -> None:
        self.sent = 0
        self._store = store
        self._acks = acks
        self._settings = settings
        self._reports = ReportReader()
        acks.put(self)

    @property
    def acked(self) -> int:
        """The end of the slave's log by its last report; NOTHING before the first."""
        return self._acks.by_slave.get(self, NOTHING)

    @property
    def is_in_sync(self) -> bool:
        """Whether the slave lags behind by less than the gap."""
        return self._acks.is_in_sync(self.acked)

    def received(self, data: bytes) -> bytes:
        """Handle reports, which nobody answers. Raises ProtocolError."""
        if (end_offset := self._reports.receive(data)) is not None:
            if self.acked == NOTHING:
                self.sent = self._begin(end_offset)
            else:
                _check_report(end_offset, self.acked, self.sent)
            self._acks.put(self, end_offset)
        return b""

    def next_piece(self) -> Piece | None:
        """Return what to send next; None if there is nothing now."""
        if self.acked == NOTHING or self.sent >= self._store.committed_offset:
            return None
        return Piece(self.sent, PIECE_SIZE)

    def frames(self, piece: Piece, data: Buffer) -> Iterator[Buffer]:
        """Return the parts of the frames that carry bytes of the log."""
        self.sent = piece.offset + len(data)
        return encode_frames(piece.offset, data, self._settings.ha_transfer_batch_size)

    def heartbeat(self) -> bytes:
        """Return a heartbeat; before the first report nothing, as nothing is sent before it."""
        return b"" if self.acked == NOTHING else encode_heartbeat(self.sent)

    def close(self) -> None:
        """Forget the slave."""
        self._acks.remove(self)

    def _begin(self, end_offset: int) -> int:
        """Return where to send from to a slave whose log ends at an offset. Raises ProtocolError."""
        store = self._store
        least, end = store.min_offset, store.written_offset
        if end_offset == 0:
            size = store.settings.mapped_file_size_commit_log
            return least if self._settings.ha_send_whole_log else max(least, end - end % size)
        if not least <= end_offset <= end:
            what = (
                "has messages that this master lacks" if end_offset > end else "lacks some that have expired"
            )
            raise ProtocolError(
                f"its log ends at {end_offset}, but the one here has {least} to {end}: it {what}, or follows "
                "another master; start it with an empty store, after what only it has was saved"
            )
        return end_offset


def _check_report(end_offset: int, acked: int, sent: int) -> None:
    """Check a slave's report against its last one and what it was sent. Raises ProtocolError."""
    if not acked <= end_offset <= sent:
        raise ProtocolError(
            f"it reports {end_offset}, but its last report was {acked} and nothing behind {sent} was sent: "
            "its log is not what it was; start it again, or with an empty store"
        )
