"""Accepting connections, as many as leave descriptors for files.

The kernel completes connections by itself, so one that is too many can only be closed again. That is done
at once: its peer learns of it, and those who are connected go on. asyncio's own servers accept all
that has come before anybody can look, so listening sockets are read here.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable
from typing import Final

from cometmq.io import descriptors

ACCEPTS_MAX: Final = 64
"""So many connections are accepted before others have their turn."""
PAUSE_S: Final = 0.1
"""How long none is accepted after the system could not give one."""
LOG_INTERVAL_S: Final = 5.0

MakeProtocol = Callable[[Callable[[], None]], asyncio.BaseProtocol]
"""Makes the protocol of a connection, which must call its argument once when the connection is lost."""

_log = logging.getLogger(__name__)


class Connected:
    """How many connections the servers of this process have accepted that are not closed.

    Attributes:
        count: so many.
    """

    def __init__(self) -> None:
        self.count = 0


_OF_PROCESS: Final = Connected()


class Acceptor:
    """Accepts connections from listening sockets, which are not blocking.

    Args:
        most: how many may be open; None for as many as the process can have, its other servers' included.
        mine: counts those of one server, which may have several acceptors.

    Attributes:
        refused: how many connections were closed at once.
    """

    def __init__(
        self, sockets: Iterable[socket.socket], make_protocol: MakeProtocol, most: int | None, mine: Connected
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
        self._untold = 0
        self._telling: asyncio.TimerHandle | None = None
        self._read()

    @property
    def most(self) -> int:
        """How many connections may be open."""
        return self._process_most if self._most is None else self._most

    def close(self) -> None:
        """Accept no more."""
        for timer in (self._pause, self._telling):
            if timer is not None:
                timer.cancel()
        self._pause = None
        for listening in self.sockets:
            if listening.fileno() >= 0:
                self._loop.remove_reader(listening)
                listening.close()

    async def wait_closed(self) -> None:
        """Wait until each connection that was accepted has its protocol."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _read(self) -> None:
        self._pause = None
        for listening in self.sockets:
            self._loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        """Accept the connections that have come, or close them."""
        for _ in range(ACCEPTS_MAX):
            try:
                connection, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._rest(error)
                return
            if self._is_full:
                connection.close()
                self._note_refused()
                continue
            connection.setblocking(False)
            self._count(1)
            task = self._loop.create_task(self._begin(connection))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _begin(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: self._make_protocol(self._note_lost), connection)
        except OSError as error:
            _log.warning("a connection was lost as it was accepted: %s", error)
            connection.close()
            self._note_lost()

    @property
    def _is_full(self) -> bool:
        if self._most is not None and self._mine.count >= self._most:
            return True
        return _OF_PROCESS.count >= self._process_most

    def _note_lost(self) -> None:
        self._count(-1)

    def _count(self, change: int) -> None:
        self._mine.count += change
        _OF_PROCESS.count += change

    def _note_refused(self) -> None:
        self.refused += 1
        self._untold += 1
        if self._telling is None:
            self._tell()

    def _tell(self) -> None:
        """Log what was closed since the last time, and again after a while if there is more."""
        self._telling = None
        if not self._untold:
            return
        _log.warning(
            "closed %d new connections at once: %d are open here, and no more may be (maxConnections; by "
            "default what `ulimit -n` leaves beside files)",
            self._untold,
            self._mine.count,
        )
        self._untold = 0
        self._telling = self._loop.call_later(LOG_INTERVAL_S, self._tell)

    def _rest(self, error: OSError) -> None:
        """Accept nothing for a while: the system has no descriptor or no memory for a connection."""
        if self._pause is None:
            _log.warning("no connection can be accepted for now: %s", error)
            for listening in self.sockets:
                self._loop.remove_reader(listening)
            self._pause = self._loop.call_later(PAUSE_S, self._read)


async def listen(host: str, port: int, backlog: int) -> list[socket.socket]:
    """Open sockets that listen on ``host:port``, one for each address of the host. Raises OSError."""
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
