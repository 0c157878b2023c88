"""Accept connections, as many as leave enough descriptors for files.

The kernel completes connections by itself, so a connection above the limit can only be closed again. That is
done at once: its peer learns of it, and the other connections are not affected. asyncio's own servers accept
everything before it can be counted, so this module reads the listening sockets itself.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable
from typing import Final

from cometmq.io import descriptors

ACCEPTS_MAX: Final = 64
"""Connections accepted at once, before other events have their turn."""
PAUSE_S: Final = 0.1
"""Pause of accepting, in seconds, after the system lacked resources for a connection."""
LOG_INTERVAL_S: Final = 5.0

MakeProtocol = Callable[[Callable[[], None]], asyncio.BaseProtocol]
"""Creates the protocol of a connection, which must call its argument once when the connection is lost."""

_log = logging.getLogger(__name__)


class ConnectionCount:
    """The number of open connections that the servers of this process have accepted.

    Attributes:
        count: that number.
    """

    def __init__(self) -> None:
        self.count = 0


_OF_PROCESS: Final = ConnectionCount()


class Acceptor:
    """Accept connections from listening, non-blocking sockets.

    Args:
        most: the limit of open connections; None for as many as the process can have, including those of its
            other servers.
        mine: counts the connections of one server, which may have several acceptors.

    Attributes:
        refused: number of connections that were closed at once.
    """

    def __init__(
        self,
        sockets: Iterable[socket.socket],
        make_protocol: MakeProtocol,
        most: int | None,
        mine: ConnectionCount,
    ) -> None:
        self.sockets = tuple(sockets)
        self.refused = 0
        self._make_protocol = make_protocol
        self._most = most
        self._process_most = descriptors.connections_max(descriptors.limit())
        self._mine = mine
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._pause: asyncio.TimerHandle | None = None
        self._unlogged = 0
        self._log_timer: asyncio.TimerHandle | None = None
        self._resume_accepting()

    @property
    def most(self) -> int:
        """The limit of open connections."""
        return self._process_most if self._most is None else self._most

    def close(self) -> None:
        """Stop accepting, and close the listening sockets."""
        for timer in (self._pause, self._log_timer):
            if timer is not None:
                timer.cancel()
        self._pause = None
        for listening in self.sockets:
            if listening.fileno() >= 0:
                self._loop.remove_reader(listening)
                listening.close()

    async def wait_closed(self) -> None:
        """Wait until each accepted connection has its protocol."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _resume_accepting(self) -> None:
        self._pause = None
        for listening in self.sockets:
            self._loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        """Accept the connections that have arrived, or close those above the limit."""
        for _ in range(ACCEPTS_MAX):
            try:
                connection, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause_accepting(error)
                return
            if self._is_full:
                connection.close()
                self._count_refused()
                continue
            connection.setblocking(False)
            self._count(1)
            task = self._loop.create_task(self._begin(connection))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _begin(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(
                lambda: self._make_protocol(self._count_lost), connection
            )
        except OSError as error:
            _log.warning("a connection was lost while it was being accepted: %s", error)
            connection.close()
            self._count_lost()

    @property
    def _is_full(self) -> bool:
        if self._most is not None and self._mine.count >= self._most:
            return True
        return _OF_PROCESS.count >= self._process_most

    def _count_lost(self) -> None:
        self._count(-1)

    def _count(self, change: int) -> None:
        self._mine.count += change
        _OF_PROCESS.count += change

    def _count_refused(self) -> None:
        self.refused += 1
        self._unlogged += 1
        if self._log_timer is None:
            self._log_refused()

    def _log_refused(self) -> None:
        """Log how many connections were refused since the last time; repeat later if there are more."""
        self._log_timer = None
        if not self._unlogged:
            return
        _log.warning(
            "closed %d new connections at once: %d are open, which is the limit (maxConnections; by "
            "default what `ulimit -n` leaves beside files)",
            self._unlogged,
            self._mine.count,
        )
        self._unlogged = 0
        self._log_timer = self._loop.call_later(LOG_INTERVAL_S, self._log_refused)

    def _pause_accepting(self, error: OSError) -> None:
        """Pause accepting: the system has no descriptor or no memory for a connection."""
        if self._pause is None:
            _log.warning("no connection can be accepted for now: %s", error)
            for listening in self.sockets:
                self._loop.remove_reader(listening)
            self._pause = self._loop.call_later(PAUSE_S, self._resume_accepting)


async def listen(host: str, port: int, backlog: int) -> list[socket.socket]:
    """Open listening sockets on ``host:port``, one for each address of the host. Raises OSError."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    listening: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            listening.append(one := socket.socket(family, kind, protocol))
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.setblocking(False)
            one.bind(address)
            one.listen(backlog)
    except BaseException:
        for one in listening:
            one.close()
        raise
    return listening
