"""What one slave of a master under a controller is sent: epochs, then the log, by ``MasterSide``'s rules."""

from collections.abc import Callable, Iterator

from cometmq.errors import ProtocolError
from cometmq.message import Buffer
from cometmq.replication.acks import NOTHING
from cometmq.replication.controller.frames import MasterData, SlaveFrames, SlaveHandshake
from cometmq.replication.controller.in_sync_set import Follower
from cometmq.replication.controller.master_side import LogBounds, MasterSide, Span
from cometmq.replication.controller.set_acks import SetAcks
from cometmq.replication.epochs import EpochList
from cometmq.replication.feeds import PIECE_SIZE, Piece
from cometmq.store.store import MessageStore


class EpochFeed:
    """What one slave is sent: see ``LogFeed``.

    Args:
        epochs: returns the epochs of the log.
        batch_size: most bytes of the log in one frame.

    Attributes:
        sent: the log's offset up to which was sent.
    """

    def __init__(
        self, store: MessageStore, acks: SetAcks, epochs: Callable[[], EpochList], batch_size: int
    ) -> None:
        self.sent = 0
        self._store = store
        self._acks = acks
        self._epochs = epochs
        self._batch_size = batch_size
        self._frames = SlaveFrames()
        self._side = MasterSide()
        self._follower: Follower | None = None
        self._span: Span | None = None  # what is read to be sent

    @property
    def acked(self) -> int:
        """The end of the slave's log by its last report; NOTHING before the first."""
        return NOTHING if self._side.ack is None else self._side.ack

    @property
    def is_in_sync(self) -> bool:
        """Whether the slave is in the sync state set."""
        return self._follower is not None and self._acks.is_in_sync(self._follower)

    def received(self, data: bytes) -> bytes:
        """Handle a handshake, which is answered, and reports. Raises ProtocolError."""
        answers = b""
        for frame in self._frames.receive(data):
            answer = self._side.received(frame, self._epochs(), self._bounds())
            if isinstance(frame, SlaveHandshake):
                self.close()
                self._follower = self._acks.connect(frame.broker_id, is_learner=frame.async_learner)
            elif self._follower is not None:
                self._acks.acked(self._follower, frame.max_offset)
            if answer is not None:
                answers += answer.encode()
        return answers

    def next_piece(self) -> Piece | None:
        """Return what to send next, of one epoch; None if there is nothing now."""
        self._span = span = self._side.next_span(self._epochs(), self._bounds(), PIECE_SIZE)
        return None if span is None else Piece(span.offset, span.size)

    def frames(self, piece: Piece, data: Buffer) -> Iterator[Buffer]:
        """Return the parts of the frames that carry all bytes of a piece. Raises ProtocolError."""
        span = self._span
        assert span is not None and span.offset == piece.offset, "it is the piece that was returned last"
        if len(data) != span.size:
            raise ProtocolError(f"what it lacks, from {span.offset} on, has expired meanwhile")
        self._note_sent()
        self.sent = span.offset + span.size
        view, confirm_offset = memoryview(data), self._acks.confirm_offset
        for at in range(0, span.size, self._batch_size):
            part = view[at : at + self._batch_size]
            yield MasterData(span.offset + at, span.entry, confirm_offset, part).header()
            yield part

    def heartbeat(self) -> bytes:
        """Return a frame without data; before the first report nothing."""
        frame = self._side.heartbeat(self._epochs(), self._acks.confirm_offset)
        if frame is None:
            return b""
        self._note_sent()
        return frame.encode()

    def close(self) -> None:
        """Forget the slave."""
        if self._follower is not None:
            self._acks.disconnect(self._follower)
            self._follower = None

    def _bounds(self) -> LogBounds:
        store = self._store
        size = store.settings.mapped_file_size_commit_log
        return LogBounds(store.min_offset, store.committed_offset, size)

    def _note_sent(self) -> None:
        if self._follower is not None:
            self._acks.sent(self._follower)
