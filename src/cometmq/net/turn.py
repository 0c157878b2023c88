"""A turn of the event loop: what all connections of a server have read in it is handled together.

With many connections a read brings few frames, often one, and what it costs beside them is most of all. So
reads only collect; at the end of the turn one call handles the usual frames of all of them in bulk, and one
callback sends all answers.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias

from cometmq.net.flow import Outbox
from cometmq.wire.frame import Command

if TYPE_CHECKING:
    from cometmq.net.server import Server, Session

Handle: TypeAlias = "Callable[[Session, list[Command]], None]"


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
    """What waits for the end of the turn that the loop is in."""

    def __init__(self, server: "Server") -> None:
        self._server = server
        self._sessions: list[Session] = []
        self._outboxes: list[Outbox] = []
        self._is_flushed_soon = False

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
        """Handle all that was received, and send the answers."""
        sessions, self._sessions = self._sessions, []
        self._is_flushed_soon = True
        try:
            reads = [read for session in sessions if (read := session.take_read()) is not None]
            while reads:
                handle = self._take(reads)
                for read in reads:
                    if read.position < read.commands_end:
                        read.session.handle(read, handle)
                reads = [read for read in reads if read.position < len(read.data)]
        finally:
            self.flush()

    def flush(self) -> None:
        """Send what is in the outboxes."""
        self._is_flushed_soon = False
        outboxes, self._outboxes = self._outboxes, []
        for outbox in outboxes:
            outbox.flush()

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
