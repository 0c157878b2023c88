"""The asyncio server: receives commands, passes them to a handler, sends the responses.

All commands that arrive in one turn of the event loop are handled at its end (``turn.py``): those of one
connection go to the handler in one call, and all responses made during that call leave in one write. The
server knows frames and limits; the handler knows the meaning of commands.
"""

import asyncio
from functools import partial
from typing import Final

from cometmq.io.clock import Clock, SystemClock
from cometmq.net import inproc
from cometmq.net.accepting import Acceptor, ConnectionCount
from cometmq.net.boundary import attempt
from cometmq.net.flow import LIMITS, FlowLimits
from cometmq.net.listening import cannot_listen, listen
from cometmq.net.newcomers import NewcomerLimits, Newcomers
from cometmq.net.session import IDLE_MS_MAX, Counts, Session, SharedParts
from cometmq.net.tls.server import ServerTls
from cometmq.net.turn import BulkHandler, RequestHandler, Turn
from cometmq.net.unfinished import UnfinishedFrames

__all__ = ["RequestHandler", "Server", "Session"]

BACKLOG: Final = 1024
SWEEP_INTERVAL_MS: Final = 5_000
LATE_MS: Final = 200
"""Age, in ms, from which an unhandled request counts as late (RocketMQ: waitTimeMillsInSendQueue)."""
STOP_MS_MAX: Final = 3_000
"""How long ``stop`` waits for peers to read their responses, in ms."""


class Server:
    """A server: it listens, and holds the sessions of its connections.

    Args:
        handler: answers the commands. An exception that it raises is answered with SYSTEM_ERROR; to protect
            the other commands of the same call, it draws the boundary itself (``net.boundary.attempt``).
        clock: measures the silence of peers.
        limits: the limits of bytes that wait to be sent and to be handled.
        connections_max: the limit of open connections; None derives it from the number of descriptors. A
            connection above the limit is closed at once.
        tls: decides which connections are TLS; None for plain ones only.
        late_ms: requests that have waited this long go to the handler alone: see ``Session.waited_ms``.
        idle_ms_max: silence after which a connection is closed.

    Attributes:
        newcomers: connections on which nobody has signed a request yet, if requests are checked; else None.
        sessions: its sessions.
        shared: what they share.
        turn: collects the work of the loop's current turn.
        unfinished: reserves memory for long frames that are arriving.
    """

    def __init__(
        self,
        handler: RequestHandler,
        *,
        clock: Clock | None = None,
        limits: FlowLimits = LIMITS,
        late_ms: int = LATE_MS,
        connections_max: int | None = None,
        tls: ServerTls | None = None,
        idle_ms_max: int = IDLE_MS_MAX,
    ) -> None:
        self.newcomers: Newcomers | None = None
        self.clock = clock = clock or SystemClock()
        self.sessions: set[Session] = set()
        self.turn = turn = Turn(handler, self.sessions, limits, clock, late_ms)
        self.unfinished = UnfinishedFrames(limits.unfinished_total_max, clock, lambda: turn.is_full)
        self.shared = SharedParts(
            turn,
            self.unfinished,
            clock,
            limits,
            idle_ms_max,
            add=self.add,
            remove=self.remove,
            counts=self._counts,
        )
        self._tls = tls
        limited_by = " (maxConnections; by default what `ulimit -n` leaves beside files)"
        self._connected = ConnectionCount(connections_max, limited_by)
        self._listeners: list[Acceptor | inproc.Listener] = []
        self._sweeper: asyncio.TimerHandle | None = None
        self._empty = asyncio.Event()
        self._stopping = False

    async def start(self, host: str, port: int, service: str = "server") -> int:
        """Listen on ``host:port``; port 0 means any free one. May be called for several addresses.

        At ``inproc.HOST`` only clients in this process can reach it, without sockets.

        Args:
            service: what is to be reached there, for the error.

        Returns:
            The port.

        Raises:
            SettingsError: the address cannot be used: in use, not of this machine, not permitted.
        """
        listener, bound_port = await self._listen(service, host, port)
        self._stopping = False
        self._listeners.append(listener)
        if self._sweeper is None:
            self._tick()
        if self._tls is not None:
            self._tls.start()
        return bound_port

    async def stop(self) -> None:
        """Stop listening; wait until the peers have read their responses, then close their connections."""
        self._stopping = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        self.unfinished.close()
        if self.newcomers is not None:
            self.newcomers.close()
        for listener in self._listeners:
            listener.close()
        for session in list(self.sessions):
            session.close()
        try:
            async with asyncio.timeout(STOP_MS_MAX / 1000):
                await self._all_gone()
        except TimeoutError:
            for session in list(self.sessions):
                session.abort("it does not read its responses, and the server is stopping")
            await self._all_gone()
        for listener in self._listeners:
            await listener.wait_closed()
        self._listeners.clear()
        if self._tls is not None:
            await self._tls.stop()

    @property
    def handler(self) -> RequestHandler:
        """What answers the commands."""
        return self.turn.handler

    @handler.setter
    def handler(self, handler: RequestHandler) -> None:
        self.turn.handler = handler

    @property
    def bulk(self) -> BulkHandler | None:
        """What handles received frames in bulk before the handler does, or None."""
        return self.turn.bulk

    @bulk.setter
    def bulk(self, bulk: BulkHandler | None) -> None:
        self.turn.bulk = bulk

    @property
    def connections_max(self) -> int | None:
        """The limit of open connections; None if there is none."""
        acceptors = self._acceptors()
        return acceptors[0].most if acceptors else self._connected.most

    @property
    def refused_connections(self) -> int:
        """Number of connections that were closed at once because too many were open."""
        return sum(acceptor.refused for acceptor in self._acceptors())

    def sweep(self) -> None:
        """Close the sessions that are silent or stuck; called every ``SWEEP_INTERVAL_MS``."""
        now_ms = self.clock.monotonic_ms()
        for session in list(self.sessions):
            session.sweep(now_ms)
        self.unfinished.cut_stalled()

    def limit_newcomers(self, limits: NewcomerLimits) -> None:
        """Begin to limit sessions until a check finds a right signature: see ``net.guarded``."""
        self.newcomers = Newcomers(limits)
        for acceptor in self._acceptors():
            acceptor.crowd = self.newcomers.crowd
        for session in list(self.sessions):
            self.newcomers.add(session)

    def add(self, session: Session) -> None:
        """Add a new session."""
        self.sessions.add(session)
        if self.newcomers is not None:
            self.newcomers.add(session)
        self._empty.clear()
        if self._stopping:
            session.close()

    def remove(self, session: Session) -> None:
        """Remove a session whose connection is closed, and tell the handler."""
        if session in self.sessions:
            self.sessions.remove(session)
            if session.newcomers is not None:
                session.newcomers.remove(session)
            attempt(session, (), self.handler.closed, session)
        if not self.sessions:
            self._empty.set()

    def _counts(self) -> Counts:
        return Counts(
            len(self.sessions), self.connections_max, self.refused_connections, self.shared.refused_requests
        )

    def _acceptors(self) -> list[Acceptor]:
        return [listener for listener in self._listeners if isinstance(listener, Acceptor)]

    async def _listen(self, service: str, host: str, port: int) -> tuple[Acceptor | inproc.Listener, int]:
        """Open a listener; return it and its port."""
        if host == inproc.HOST:
            try:
                within = inproc.listen(port, lambda: Session(self.shared))
            except OSError as error:
                raise cannot_listen(service, host, port, error) from error
            return within, within.port
        sockets = await listen(service, host, port, BACKLOG)
        make = partial(Session, self.shared)
        crowd = None if self.newcomers is None else self.newcomers.crowd
        acceptor = Acceptor(sockets, make, self._connected, self._tls, crowd)
        return acceptor, sockets[0].getsockname()[1]

    def _tick(self) -> None:
        self.sweep()
        loop = asyncio.get_running_loop()
        self._sweeper = loop.call_later(SWEEP_INTERVAL_MS / 1000, self._tick)

    async def _all_gone(self) -> None:
        while self.sessions:
            await self._empty.wait()
