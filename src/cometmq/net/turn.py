"""A turn of the event loop: what all connections of a server have read in it is handled together.

With many connections a read brings few frames, often one, and what it costs beside them is most of all. So
reads only collect; at the end of the turn one call handles the usual frames of all of them in bulk, and one
callback sends all answers.

Nor may one connection that floods its server take the others' time. While little is unhandled in all, a turn
handles everything. Else each connection has the same share of it: those who sent little are served whole, and
the rest of a flood waits for the next turns::

    unhandled, of one connection   0 ────────── unhandled_max
                                   it is read   └ it is read again once all of that is handled
    unhandled, of all together     0 ──────────────────────── turn_max ────────── unhandled_total_max
                                   a turn handles all of it   └ it is shared out  └ nothing is read
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from cometmq.net.flow import Outbox
from cometmq.wire.frame import Command

if TYPE_CHECKING:
    from cometmq.net.server import Server
    from cometmq.net.session import Session

Handle: TypeAlias = "Callable[[Session, list[Command]], None]"

READ_MAX: Final = 1 << 16
"""So many bytes of a connection are handled in a turn at most: they could be requests for large answers."""
SHARE_MIN: Final = 1 << 12
"""So many bytes of a connection are handled in a turn, however many connections there are."""


class Read:
    """What one connection has read in a turn, handled up to ``position``.

    Attributes:
        commands_end: the frames from ``position`` to there are to be handled as commands next.
    """

    __slots__ = ("commands_end", "data", "position", "session")

    def __init__(self, session: "Session", data: bytes) -> None:
        self.session = session
        self.data = data
        self.position = self.commands_end = 0


class BulkHandler(Protocol):
    """What a server does with frames as bytes, before anybody makes commands of them."""

    def take(self, reads: Sequence[Read]) -> None:
        """Handle of each read the frames that begin at its ``position``, up to one that must be a command.

        Moves ``position`` to where that one begins, and ``commands_end`` to where the frames end that are to
        be handled as commands before this is called again. Both are left alone of a read that has to wait for
        the next call; one at least gets on.

        If it raises it must not have answered any that is behind ``position``: all those are answered
        SYSTEM_ERROR.
        """
        ...


class Turn:
    """What waits for the end of the turn that the loop is in.

    Attributes:
        unhandled: bytes that were read and are not handled yet, but for those of congested peers.
        is_full: nothing is read, so much is unhandled.
    """

    def __init__(self, server: "Server") -> None:
        self.unhandled = 0
        self.is_full = False
        self._server = server
        self._sessions: list[Session] = []
        self._outboxes: list[Outbox] = []
        self._is_flushed_soon = False
        self._left_count = 0  # so many of the sessions have waited …
        self._left_ms = 0  # … since then

    def add(self, session: "Session") -> None:
        """Let what a session has received be handled at the end of the turn."""
        if not self._sessions:
            asyncio.get_running_loop().call_soon(self.handle)
        self._sessions.append(session)

    def flush_soon(self, outbox: Outbox) -> None:
        """Let what is in an outbox leave at the end of the turn."""
        self._outboxes.append(outbox)
        if not self._is_flushed_soon:
            self._is_flushed_soon = True
            asyncio.get_running_loop().call_soon(self.flush)

    def handle(self) -> None:
        """Handle what was received, or of each connection its share; send the answers."""
        sessions, self._sessions = self._sessions, []
        share = self._share(len(sessions))
        late = self._late(sessions) if self._left_count else ()
        self.unhandled = 0
        self._is_flushed_soon = True
        try:
            reads = [read for session in sessions if (read := session.take_read(share)) is not None]
            self._note_left()
            if late:
                reads = self._handle_late(reads)
            self._handle(reads)
        finally:
            for session in late:
                session.waited_ms = 0
            self.flush()
            self._read_on()

    def finish(self, session: "Session") -> None:
        """Handle all that a session has received: no more will come."""
        self._is_flushed_soon = True
        try:
            while session.has_received:
                if (read := session.take_read(READ_MAX, is_last=True)) is not None:
                    self._handle([read])
        finally:
            self.flush()

    def stop_reading(self, session: "Session") -> None:
        """Let nothing be read, this session least of all, until enough is handled."""
        session.stop_reading()
        if not self.is_full:
            self.is_full = True
            for other in self._server.sessions:
                other.stop_reading()

    def flush(self) -> None:
        """Send what is in the outboxes."""
        self._is_flushed_soon = False
        outboxes, self._outboxes = self._outboxes, []
        for outbox in outboxes:
            outbox.flush()

    def _read_on(self) -> None:
        """Let sessions be read on if enough is handled."""
        if self.is_full and self.unhandled <= self._server.limits.unhandled_total_max:
            self.is_full = False
            for session in self._server.sessions:
                session.read_on()

    def _share(self, count: int) -> int:
        """Say how many bytes of each connection are handled in this turn."""
        turn_max = self._server.limits.turn_max
        if self.unhandled <= turn_max:
            return READ_MAX
        return min(max(turn_max // count, SHARE_MIN), READ_MAX)

    def _note_left(self) -> None:
        """Note that what is left waits since now."""
        self._left_count = len(self._sessions)
        if self._left_count:
            self._left_ms = self._server.clock.monotonic_ms()

    def _late(self, sessions: Sequence["Session"]) -> Sequence["Session"]:
        """Tell those sessions that have waited too long so; give them."""
        waited_ms = self._server.clock.monotonic_ms() - self._left_ms
        if waited_ms < self._server.late_ms:
            return ()
        late = sessions[: self._left_count]
        for session in late:
            session.waited_ms = waited_ms
        return late

    def _handle_late(self, reads: Sequence[Read]) -> list[Read]:
        """Have commands made of what came too late, for the handler to refuse; give the other reads."""
        for read in reads:
            if read.session.waited_ms:
                read.commands_end = len(read.data)
                read.session.handle(read, self._server.handler.handle)
        return [read for read in reads if not read.session.waited_ms]

    def _handle(self, reads: list[Read]) -> None:
        while reads:
            handle = self._take(reads)
            for read in reads:
                if read.position < read.commands_end:
                    read.session.handle(read, handle)
            reads = [read for read in reads if read.position < len(read.data)]

    def _take(self, reads: Sequence[Read]) -> Handle:
        """Let frames be handled in bulk; give what handles the commands that follow."""
        bulk, handle = self._server.bulk, self._server.handler.handle
        if bulk is not None:
            try:
                bulk.take(reads)
            except Exception as error:  # noqa: BLE001 whatever it is: the boundary answers all that is left
                handle = partial(_fail, error)
            else:
                return handle
        for read in reads:
            read.commands_end = len(read.data)
        return handle


def _fail(error: Exception, _: "Session", __: list[Command]) -> None:
    """Stand in for a handler where handling in bulk has failed."""
    raise error
