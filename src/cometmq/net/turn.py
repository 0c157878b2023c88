"""A turn of the event loop: everything that the connections of a server receive in it is handled together.

With many connections a read brings few frames, often one, and the cost per read dominates. So
reads only collect bytes; at the end of the turn one call handles the usual frames of all connections in bulk,
and one callback sends the responses that have not left at once.

And a connection that floods its server must not take the time of others. While few bytes are unhandled, a
turn handles all of them. Else each connection gets an equal share of it: connections that sent little are
handled completely, and the rest of a flood waits for the next turns::

    unhandled, of one connection   0 ────────── unhandled_max
                                   it is read   └ it is read again once all of that is handled
    unhandled, of all together     0 ──────────────────────── turn_max ────────── unhandled_total_max
                                   a turn handles all of it   └ equal shares      └ nothing is read
"""

import asyncio
from collections.abc import Collection, Sequence
from functools import partial
from typing import Final, Protocol

from cometmq.io.clock import Clock
from cometmq.net.flow import FlowLimits, Outbox
from cometmq.net.session import Read, Session
from cometmq.wire.frame import Command

__all__ = ["BulkHandler", "Read", "RequestHandler", "Turn"]

READ_MAX: Final = 1 << 16
"""Most bytes of a connection handled in one turn: they could be requests for large responses."""
SHARE_MIN: Final = 1 << 12
"""Least bytes of a connection handled in one turn, however many connections there are."""


class RequestHandler(Protocol):
    """The handler of a server's commands."""

    def handle(self, session: Session, commands: list[Command]) -> None:
        """Answer, now or later, all commands of one connection that arrived in one turn."""
        ...

    def closed(self, session: Session) -> None:
        """Clean up after a session whose connection is closed."""
        ...


class BulkHandler(Protocol):
    """A handler of encoded frames in bulk, which decides which of them are decoded to commands."""

    def take(self, reads: Sequence[Read]) -> None:
        """Handle the frames of each read in their order, and move its ``position`` to its end.

        What is to be a command is passed to its session's ``handle``. If it raises, it must not have answered
        any frame after ``position``: all those are answered with SYSTEM_ERROR.
        """
        ...


class Turn:
    """The work collected for the end of the loop's current turn.

    Args:
        sessions: all sessions whose turn it is, whether they have received anything or not.
        limits: how much is handled in a turn, and read before it is handled.
        clock: measures how long what was received has waited.
        late_ms: requests that have waited this long go to the handler alone: see ``Session.waited_ms``.

    Attributes:
        handler: answers the commands.
        bulk: handles received frames in bulk before the handler does, or None.
        unhandled: bytes that were read and are not handled yet, except those of congested peers.
        is_full: whether reading is stopped because too many bytes are unhandled.
    """

    def __init__(
        self,
        handler: RequestHandler,
        sessions: Collection[Session],
        limits: FlowLimits,
        clock: Clock,
        late_ms: int,
    ) -> None:
        self.handler = handler
        self.bulk: BulkHandler | None = None
        self.unhandled = 0
        self.is_full = False
        self._all_sessions = sessions
        self._limits = limits
        self._clock = clock
        self._late_ms = late_ms
        self._sessions: list[Session] = []
        self._outboxes: list[Outbox] = []
        self._is_flushed_soon = False
        self._left_count = 0  # number of sessions, at the front, that have waited …
        self._left_ms = 0  # … since this monotonic time

    def add(self, session: Session) -> None:
        """Queue a session, whose received bytes are handled at the end of the turn."""
        if not self._sessions:
            asyncio.get_running_loop().call_soon(self.handle)
        self._sessions.append(session)

    def answer(self, session: Session, commands: list[Command]) -> None:
        """Pass commands to the handler."""
        self.handler.handle(session, commands)

    def flush_soon(self, outbox: Outbox) -> None:
        """Flush an outbox at the end of the turn."""
        self._outboxes.append(outbox)
        if not self._is_flushed_soon:
            self._is_flushed_soon = True
            asyncio.get_running_loop().call_soon(self.flush)

    def handle(self) -> None:
        """Handle all received bytes, or an equal share of each connection, and send the responses."""
        sessions, self._sessions = self._sessions, []
        share = self._share(len(sessions))
        late = self._mark_late(sessions) if self._left_count else ()
        self.unhandled = 0
        self._is_flushed_soon = True
        try:
            reads = [read for session in sessions if (read := session.take_read(share)) is not None]
            if self._sessions or self._left_count:
                self._mark_left()
            if late:
                reads = self._handle_late(reads)
            self._handle(reads)
        finally:
            for session in late:
                session.waited_ms = 0
            self.flush()
            if self.is_full:
                self._resume_reading()

    def finish(self, session: Session) -> None:
        """Handle all bytes that a session has received, because no more will come."""
        self._is_flushed_soon = True
        try:
            while session.has_received:
                if (read := session.take_read(READ_MAX, is_last=True)) is not None:
                    self._handle([read])
        finally:
            self.flush()

    def stop_reading(self, session: Session) -> None:
        """Stop reading from all sessions, this one in any case, until enough is handled."""
        session.stop_reading()
        if not self.is_full:
            self.is_full = True
            for other in self._all_sessions:
                other.stop_reading()

    def flush(self) -> None:
        """Send the data in all outboxes."""
        self._is_flushed_soon = False
        outboxes, self._outboxes = self._outboxes, []
        for outbox in outboxes:
            outbox.flush()

    def _resume_reading(self) -> None:
        """Resume reading from the sessions if enough is handled."""
        if self.unhandled <= self._limits.unhandled_total_max:
            self.is_full = False
            for session in self._all_sessions:
                session.resume_reading()

    def _share(self, count: int) -> int:
        """Return how many bytes of each connection to handle in this turn."""
        turn_max = self._limits.turn_max
        if self.unhandled <= turn_max:
            return READ_MAX
        return min(max(turn_max // count, SHARE_MIN), READ_MAX)

    def _mark_left(self) -> None:
        """Record the time from which the sessions that are left over wait."""
        self._left_count = len(self._sessions)
        if self._left_count:
            self._left_ms = self._clock.monotonic_ms()

    def _mark_late(self, sessions: Sequence[Session]) -> Sequence[Session]:
        """Set ``waited_ms`` of the sessions that have waited too long, and return them."""
        waited_ms = self._clock.monotonic_ms() - self._left_ms
        if waited_ms < self._late_ms:
            return ()
        late = sessions[: self._left_count]
        for session in late:
            session.waited_ms = waited_ms
        return late

    def _handle_late(self, reads: Sequence[Read]) -> list[Read]:
        """Pass late reads to the handler as commands, to be refused; return the other reads."""
        for read in reads:
            if read.session.waited_ms:
                read.session.handle(read, read.data)
        return [read for read in reads if not read.session.waited_ms]

    def _handle(self, reads: list[Read]) -> None:
        """Handle all that was read: in bulk, or as commands."""
        bulk, failed = self.bulk, None
        if bulk is not None and reads:
            try:
                bulk.take(reads)
            except Exception as error:  # noqa: BLE001 whatever it is, the boundary answers what is left
                failed = partial(_fail, error)
        for read in reads:
            if read.position < len(read.data):
                read.session.handle(read, read.data[read.position :], handle=failed)


def _fail(error: Exception, _: Session, __: list[Command]) -> None:
    """Raise the error of bulk handling, in place of the handler."""
    raise error
