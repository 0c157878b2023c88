"""A slave's side of the connection to its master: what to do with each frame. No sockets, no files, no clock.

After the handshake the log is truncated at the consistent point, if it goes beyond. From then on each frame
of data continues the log: what was received is reported, which asks for more and acknowledges. The slave
keeps its master's epochs, so that it knows later which master wrote which record.

A RocketMQ master sends the last data of an epoch with the number of the next one, whose start is then behind
the data: so an entry may start behind the log's end.

Source: RocketMQ ``store/ha/autoswitch/AutoSwitchHAClient.java``.
"""

from dataclasses import dataclass
from typing import TypeAlias

from cometmq.errors import FormatError, ProtocolError, StoreError
from cometmq.message import Buffer
from cometmq.replication.controller.frames import (
    MasterData,
    MasterHandshake,
    SlaveHandshake,
    SlaveReport,
)
from cometmq.replication.epochs import EpochEntry, EpochList, consistent_point


@dataclass(frozen=True)
class TruncateLog:
    """Truncate the log at an offset and set aside what is behind; then call ``SlaveSide.truncated``."""

    offset: int


@dataclass(frozen=True)
class SaveEpochs:
    """Save the list of epochs, durably, before what follows."""

    epochs: EpochList


@dataclass(frozen=True)
class AppendBytes:
    """Append bytes to the log at its end, which is ``offset``; an empty log then begins there."""

    offset: int
    data: Buffer


@dataclass(frozen=True)
class Confirm:
    """Set up to where records may be read: all in-sync replicas have them."""

    offset: int


@dataclass(frozen=True)
class SendReport:
    """Send the end of the log to the master."""

    report: SlaveReport


SlaveAction: TypeAlias = TruncateLog | SaveEpochs | AppendBytes | Confirm | SendReport


class SlaveSide:
    """The state of one connection.

    Args:
        epochs: of the own log.
        log_end: offset behind the last whole record of the own log; 0 for an empty one.

    Attributes:
        epochs: the own epochs, with those that were received.
        log_end: offset behind the last byte, with those that were received.
    """

    def __init__(self, epochs: EpochList, log_end: int) -> None:
        self.epochs = epochs
        self.log_end = log_end
        self._is_level: bool | None = None  # whether the log is truncated; None before the master's handshake

    def handshake(self, broker_id: int, *, from_last_file: bool = False, learner: bool = False) -> bytes:
        """Return the first frame to send."""
        return SlaveHandshake(broker_id, from_last_file, learner).encode()

    def report(self) -> SlaveReport:
        """Return the report to send, also when nothing was received for a while."""
        return SlaveReport(self.log_end)

    def received(self, frame: MasterHandshake | MasterData) -> list[SlaveAction]:
        """Return what to do with a frame of the master, in this order.

        Raises:
            ProtocolError: the frame does not continue the log: the connection must be closed.
            StoreError: the logs have no epoch in common; the text has the remedy.
        """
        if isinstance(frame, MasterHandshake):
            if self._is_level is not None:
                raise ProtocolError("the master sent a second handshake")
            return self._meet(frame)
        if not self._is_level:
            raise ProtocolError("the master sent data before the slave's first report")
        return self._continue(frame)

    def truncated(self) -> list[SlaveAction]:
        """Return what to do once the log is truncated."""
        self._is_level = True
        return [SaveEpochs(self.epochs), SendReport(self.report())]

    def _meet(self, frame: MasterHandshake) -> list[SlaveAction]:
        self._is_level = False
        if not self.epochs.entries:
            self._is_level = True
            return [SendReport(self.report())]
        point = consistent_point(self.epochs, self.log_end, frame.epochs, frame.max_offset)
        if self.log_end == 0:
            point = 0
        if point is None:
            raise StoreError(
                f"this log (epochs {_shown(self.epochs)}, to {self.log_end}) and the master's (epochs "
                f"{_shown(frame.epochs)}, to {frame.max_offset}) have no epoch in common, so they are not of "
                "one set of brokers: empty this store to copy the master's log"
            )
        self.epochs = self.epochs.cut_from(point)
        if point < self.log_end:
            self.log_end = point
            return [TruncateLog(point)]
        return self.truncated()

    def _continue(self, frame: MasterData) -> list[SlaveAction]:
        if self.log_end not in (0, frame.offset):
            raise ProtocolError(f"the master's data is at {frame.offset}, but the log ends at {self.log_end}")
        actions: list[SlaveAction] = []
        epochs = self._with(frame.entry, strict=len(frame.data) > 0)
        if epochs is not self.epochs:
            self.epochs = epochs
            actions.append(SaveEpochs(epochs))
        if len(frame.data):
            actions.append(AppendBytes(frame.offset, frame.data))
            self.log_end = frame.offset + len(frame.data)
        actions.append(Confirm(min(frame.confirm_offset, self.log_end)))
        if len(frame.data):
            actions.append(SendReport(self.report()))
        return actions

    def _with(self, entry: EpochEntry, *, strict: bool) -> EpochList:
        """Return the epochs with the one of a frame; that of a heartbeat may be any. Raises ProtocolError."""
        known = self.epochs.find(entry.epoch)
        if known == entry and entry.epoch == self.epochs.last_epoch:
            return self.epochs
        try:
            return self.epochs.append(*entry)
        except FormatError as error:
            if not strict:
                return self.epochs
            raise ProtocolError(f"the master's data contradicts this log's epochs: {error}") from None


def _shown(epochs: EpochList) -> str:
    return ", ".join(f"{entry.epoch} from {entry.start_offset}" for entry in epochs.entries[-5:]) or "none"
