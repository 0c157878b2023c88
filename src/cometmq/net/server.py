"""The asyncio server: connections in, commands to a handler, answers out.

What came in one turn of the loop is handled at its end (``turn.py``): all the commands that a connection's
reads completed go to the handler in one call, and all answers made during that call leave in one write. The
server knows frames and limits; what a command means is the handler's business.
"""

import asyncio
from functools import partial
from typing import Final, Protocol

from cometmq.errors import SettingsError
from cometmq.io.clock import Clock, SystemClock
from cometmq.net import inproc
from cometmq.net.accepting import Acceptor, Connected, listen
from cometmq.net.address import remedy_of
from cometmq.net.boundary import attempt
from cometmq.net.flow import LIMITS, Limits
from cometmq.net.session import Session
from cometmq.net.turn import BulkHandler, Turn
from cometmq.net.unfinished import UnfinishedFrames
from cometmq.wire.frame import Command

__all__ = ["RequestHandler", "Server", "Session"]

BACKLOG: Final = 1024
SWEEP_INTERVAL_MS: Final = 5_000
LATE_MS: Final = 200
"""What has waited for so long to be handled is late (RocketMQ: waitTimeMillsInSendQueue)."""
STOP_MS_MAX: Final = 3_000
"""How long ``stop`` lets peers take what was already answered."""


class RequestHandler(Protocol):
    """What a server does with commands."""

    def handle(self, session: Session, commands: list[Command]) -> None:
        """Answer, now or later, all the commands that one connection's reads of a turn completed."""
        ...

    def closed(self, session: Session) -> None:
        """Forget a session: its connection is gone."""
        ...


class Server:
    """Listens, and keeps the sessions.

    Args:
        handler: answers the commands. What it raises is answered with SYSTEM_ERROR; to spare the other
            commands of the same read, it draws the boundary itself (``net.boundary.attempt``).
        clock: measures silence.
        limits: how many bytes may wait, to be sent and to be handled.
        connections_max: how many connections may be open, which is said by the descriptors if it is None;
            one that comes when so many are is closed at once.
        late_ms: what has waited for so long is for the handler alone: see ``Session.waited_ms``.

    Attributes:
        bulk: sees what was read before the handler does, or None.
        turn: what waits for the end of the loop's turn.
        unfinished: gives room to long frames that are arriving.
    """

    def __init__(
        self,
        handler: RequestHandler,
        *,
        clock: Clock | None = None,
        limits: Limits = LIMITS,
        late_ms: int = LATE_MS,
        connections_max: int | None = None,
    ) -> None:
        self.handler = handler
        self.bulk: BulkHandler | None = None
        self.turn = Turn(self)
        self.unfinished = UnfinishedFrames(self)
        self.clock = clock or SystemClock()
        self.limits = limits
        self.late_ms = late_ms
        self.sessions: set[Session] = set()
        self._connections_max = connections_max
        self._connected = Connected()
        self._listeners: list[Acceptor | inproc.Listener] = []
        self._sweeper: asyncio.TimerHandle | None = None
        self._empty = asyncio.Event()
        self._stopping = False

    async def start(self, host: str, port: int) -> int:
        """Listen on ``host:port``, a port of 0 meaning any free one; may be called for several addresses.

        At ``inproc.HOST`` only this process's own clients reach it, without sockets.

        Returns:
            The port.

        Raises:
            SettingsError: the address cannot be listened on: in use, not of this machine, not permitted.
        """
        try:
            listener, bound_port = await self._listen(host, port)
        except OSError as error:
            raise SettingsError(f"cannot listen on {host}:{port}: {remedy_of(error)}") from error
        self._stopping = False
        self._listeners.append(listener)
        if self._sweeper is None:
            self._tick()
        return bound_port

    async def stop(self) -> None:
        """Listen no more; let the peers take what was answered, then close their connections."""
        self._stopping = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        self.unfinished.close()
        for listener in self._listeners:
            listener.close()
        for session in list(self.sessions):
            session.close()
        try:
            async with asyncio.timeout(STOP_MS_MAX / 1000):
                await self._all_gone()
        except TimeoutError:
            for session in list(self.sessions):
                session.abort("it does not take its answers, and the server stops")
            await self._all_gone()
        for listener in self._listeners:
            await listener.wait_closed()
        self._listeners.clear()

    @property
    def connections_max(self) -> int | None:
        """How many connections may be open; None while nothing limits them."""
        acceptors = self._acceptors()
        return acceptors[0].most if acceptors else self._connections_max

    @property
    def refused_connections(self) -> int:
        """How many connections were closed at once, since too many were open."""
        return sum(acceptor.refused for acceptor in self._acceptors())

    def sweep(self) -> None:
        """Close the sessions that are silent or stuck; called each ``SWEEP_INTERVAL_MS``."""
        now_ms = self.clock.monotonic_ms()
        for session in list(self.sessions):
            session.sweep(now_ms)
        self.unfinished.look()

    def add(self, session: Session) -> None:
        """Keep a new session."""
        self.sessions.add(session)
        self._empty.clear()
        if self._stopping:
            session.close()

    def remove(self, session: Session) -> None:
        """Let go of a session whose connection is gone."""
        if session in self.sessions:
            self.sessions.remove(session)
            attempt(session, (), self.handler.closed, session)
        if not self.sessions:
            self._empty.set()

    def _acceptors(self) -> list[Acceptor]:
        return [listener for listener in self._listeners if isinstance(listener, Acceptor)]

    async def _listen(self, host: str, port: int) -> tuple[Acceptor | inproc.Listener, int]:
        """Give what listens, and its port."""
        if host == inproc.HOST:
            within = inproc.listen(port, lambda: Session(self))
            return within, within.port
        sockets = await listen(host, port, BACKLOG)
        make = partial(Session, self)
        return Acceptor(sockets, make, self._connections_max, self._connected), sockets[0].getsockname()[1]

    def _tick(self) -> None:
        self.sweep()
        loop = asyncio.get_running_loop()
        self._sweeper = loop.call_later(SWEEP_INTERVAL_MS / 1000, self._tick)

    async def _all_gone(self) -> None:
        while self.sessions:
            await self._empty.wait()
