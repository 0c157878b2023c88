"""A master's side of one connection to a slave: which frame is sent next. No sockets, no files, no clock.

The slave's handshake is answered with the master's epochs; its first report says from where it wants data,
the next ones what it has. Each frame of data is of one epoch and one file.

A RocketMQ master goes on with heartbeats alone when it has no data for a slave: at an offset before its log,
behind it, or of no epoch. Here that is an error with its remedy, which closes the connection.

Source: RocketMQ ``store/ha/autoswitch/AutoSwitchHAConnection.java``.
"""

from typing import Final, NamedTuple

from cometmq.errors import ProtocolError
from cometmq.replication.controller.frames import (
    MasterData,
    MasterHandshake,
    SlaveHandshake,
    SlaveReport,
)
from cometmq.replication.epochs import NO_EPOCH, EpochEntry, EpochList

BATCH_BYTES: Final = 32 * 1024
"""Most data of one frame (RocketMQ: ``haTransferBatchSize``)."""

_NO_OFFSET: Final = -1
_REMEDY: Final = "empty the slave's store: it then copies the log from its beginning"


class LogBounds(NamedTuple):
    """The master's log: offset of its first byte, behind its last one, and the length of its files."""

    begin: int
    end: int
    file_size: int


class Span(NamedTuple):
    """Bytes of the log to send next, and the epoch that they belong to."""

    offset: int
    size: int
    entry: EpochEntry


class MasterSide:
    """The state of one connection.

    Attributes:
        slave: the slave's handshake; None before it.
        ack: the end of the slave's log, by its last report; None before the first.
    """

    def __init__(self) -> None:
        self.slave: SlaveHandshake | None = None
        self.ack: int | None = None
        self._next_offset: int | None = None

    def received(
        self, frame: SlaveHandshake | SlaveReport, epochs: EpochList, log: LogBounds
    ) -> MasterHandshake | None:
        """Handle a frame of the slave; return the answer to a handshake.

        Raises:
            ProtocolError: there is no data for the slave, or it says what cannot be; the text has the remedy.
        """
        if isinstance(frame, SlaveHandshake):
            self.slave, self.ack, self._next_offset = frame, None, None
            return MasterHandshake(log.end, epochs)
        if self.slave is None:
            raise ProtocolError("a slave reported before its handshake")
        if self._next_offset is None:
            self._begin(frame.max_offset, epochs, log)
        elif frame.max_offset > self._next_offset:
            raise ProtocolError(
                f"slave {self.slave.broker_id} reports {frame.max_offset}, but was sent nothing behind "
                f"{self._next_offset}; {_REMEDY}"
            )
        elif self.ack is not None and frame.max_offset < self.ack:
            raise ProtocolError(
                f"slave {self.slave.broker_id} reports {frame.max_offset} after {self.ack}: its log has lost "
                f"its end; {_REMEDY}"
            )
        self.ack = frame.max_offset
        return None

    def next_span(self, epochs: EpochList, log: LogBounds, size_max: int = BATCH_BYTES) -> Span | None:
        """Return the next bytes to send, at most ``size_max``, and count them as sent; None for none."""
        offset = self._next_offset
        if offset is None or offset >= log.end or (entry := epochs.at(offset)) is None:
            return None
        file_end = offset - offset % log.file_size + log.file_size
        end = min(log.end, file_end, epochs.end_of(entry.epoch), offset + size_max)
        self._next_offset = end
        return Span(offset, end - offset, entry)

    def heartbeat(self, epochs: EpochList, confirm_offset: int) -> MasterData | None:
        """Return a frame without data, which says how far all is confirmed; None before the first report."""
        if self._next_offset is None:
            return None
        entry = epochs.at(self._next_offset) or EpochEntry(NO_EPOCH, 0)
        offset = self._next_offset if epochs.entries else _NO_OFFSET
        return MasterData(offset, entry, confirm_offset)

    def _begin(self, offset: int, epochs: EpochList, log: LogBounds) -> None:
        """Set where to begin: at the slave's end, for an empty slave at a file's begin."""
        assert self.slave is not None
        if offset == 0 and self.slave.sync_from_last_file:
            offset = max(log.begin, log.end - log.end % log.file_size)
        elif offset == 0:
            offset = log.begin
        if not log.begin <= offset <= log.end:
            raise ProtocolError(
                f"slave {self.slave.broker_id} wants data from {offset}, but the log is from {log.begin} to "
                f"{log.end}; {_REMEDY}"
            )
        if log.end > 0 and epochs.at(offset) is None:
            raise ProtocolError(
                f"slave {self.slave.broker_id} wants data from {offset}, which is of no epoch: the log was "
                "written without a controller before; copy its files to the slave before it starts"
            )
        self._next_offset = offset
