"""What a running slave does in its set: it follows the master that the controller names.

What the master sends is carried out as ``SlaveSide`` says. A log that has to be truncated is not, as the
store is open: whoever runs the broker stops it, truncates the closed store, and starts it again; the next
handshake then finds nothing to cut.
"""

import asyncio
from collections.abc import Callable

from cometmq.errors import NetworkError
from cometmq.replication.controller.frames import MasterFrames
from cometmq.replication.controller.membership import SetMembership
from cometmq.replication.controller.slave_side import (
    AppendBytes,
    Confirm,
    SaveEpochs,
    SendReport,
    SlaveAction,
    SlaveSide,
    TruncateLog,
)
from cometmq.store.store import MessageStore


class EpochIntake:
    """What a slave does with what its master sends: see ``LogIntake``.

    Args:
        confirm: called with 0 once the log is known to be a beginning of the master's, then with the offset
            up to which records may be read.
    """

    def __init__(
        self, store: MessageStore, membership: SetMembership, confirm: Callable[[int], None]
    ) -> None:
        self.is_level = False
        self._received = store.received
        self._membership = membership
        self._confirm = confirm
        self._frames = MasterFrames()
        self._side = SlaveSide(membership.epochs.epochs, store.received.end_offset)

    def begin(self) -> bytes:
        """Return the handshake."""
        return self._side.handshake(self._membership.own_id)

    async def received(self, data: bytes) -> None:
        """Process what the master has sent: see ``LogIntake``."""
        for frame in self._frames.receive(data):
            for action in self._side.received(frame):
                await self._carry_out(action)

    def report(self) -> bytes:
        """Return the report of the log's end, once the log is known to be a beginning of the master's."""
        return self._side.report().encode() if self.is_level else b""

    async def _carry_out(self, action: SlaveAction) -> None:
        membership = self._membership
        match action:
            case TruncateLog(offset):
                membership.overseer.truncate(offset)
                raise NetworkError(f"this log is truncated at {offset} first, where the master's differs")
            case SaveEpochs(epochs):
                await asyncio.to_thread(membership.epochs.save, epochs)
                membership.overseer.log_reached(epochs.last_epoch)
            case AppendBytes(offset, data):
                self._received.append(offset, bytes(data))
            case Confirm(offset):
                self._confirm(offset)
            case SendReport() if not self.is_level:
                self.is_level = True
                self._confirm(0)


class SlavePart:
    """One slave's part in its set.

    It shows what its master says is confirmed. What was in its log when it started may be read once the log
    is known to be a beginning of the master's.

    Attributes:
        is_level: whether it was that since the broker started.
    """

    def __init__(self, store: MessageStore, membership: SetMembership) -> None:
        self.is_level = False
        self._store = store
        self._membership = membership
        self._confirmed = 0
        store.limit_reads(lambda: self._confirmed)

    def make_intake(self) -> EpochIntake:
        """Return the intake of a new connection to the master."""
        return EpochIntake(self._store, self._membership, self._confirm)

    def _confirm(self, offset: int) -> None:
        """Raise the offset up to which records may be read."""
        self.is_level = True
        if offset > self._confirmed:
            self._confirmed = offset
            self._store.limit_moved()
