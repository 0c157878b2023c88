"""Accept connections, as many as leave enough descriptors for files.

The kernel completes connections by itself, so a connection above the limit can only be closed again. That is
done at once: its peer learns of it, and the other connections are not affected. asyncio's own servers accept
everything before it can be counted, so this module reads the listening sockets itself. That also lets it look
at the first byte of a connection, to tell TLS from plain (``tls/server.py``); without TLS it does not.

Where a server limits the connections whose peers have shown nothing yet (``newcomers.py``), one of those is
closed for a connection above the limit. Those that are still to send their first byte, or to finish a
handshake, are among them.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from cometmq.io import descriptors
from cometmq.logs import get_logger
from cometmq.net.newcomers import Crowd
from cometmq.net.occasional_log import OccasionalLog
from cometmq.net.tls.pem import reason_of
from cometmq.net.tls.server import ServerTls

ACCEPTS_MAX: Final = 64
"""Connections accepted at once, before other events have their turn."""
PAUSE_S: Final = 0.1
"""Pause of accepting, in seconds, after the system lacked resources for a connection."""

MakeProtocol = Callable[[Callable[[], None]], asyncio.BaseProtocol]
"""Creates the protocol of a connection, which must call its argument once when the connection is lost."""

_log = get_logger(__name__)


class ConnectionCount:
    """The number of open connections that a server, or all of this process, have accepted.

    Args:
        most: their limit; None for as many as the process can have, including those of its other servers.
        limited_by: what says so, for the log: with a space and in parentheses.
        is_apart: whether they have places of their own, whatever other servers of the process have; they may
            also be accepted in another thread then.

    Attributes:
        count: that number.
    """

    def __init__(
        self,
        most: int | None = None,
        limited_by: str = " (what `ulimit -n` leaves beside files)",
        *,
        is_apart: bool = False,
    ) -> None:
        self.count = 0
        self.most = most
        self.limited_by = limited_by
        self.is_apart = is_apart


_OF_PROCESS: Final = ConnectionCount()


class Acceptor:
    """Accept connections from listening, non-blocking sockets.

    Args:
        mine: counts the connections of one server, which may have several acceptors.
        tls: decides which connections are TLS; None for none.
        crowd: the connections whose peers have shown nothing yet; None if that is not limited.

    Attributes:
        crowd: the same.
        refused: number of connections that were closed at once.
        failed: number of connections that were lost or closed before they could be used.
    """

    def __init__(
        self,
        sockets: Iterable[socket.socket],
        make_protocol: MakeProtocol,
        mine: ConnectionCount,
        tls: ServerTls | None = None,
        crowd: Crowd | None = None,
    ) -> None:
        self.sockets = tuple(sockets)
        self.crowd = crowd
        self.refused = self.failed = 0
        self._tls = tls
        self._make_protocol = make_protocol
        self._process_most = descriptors.connections_max(descriptors.limit())
        self._mine = mine
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[bool]] = set()
        self._pause: asyncio.TimerHandle | None = None
        self._refused_log = OccasionalLog(self._log_refused)
        self._failed_log = OccasionalLog(self._log_failed)
        self._last_failure = ""
        self._resume_accepting()

    @property
    def most(self) -> int:
        """The limit of open connections."""
        return self._process_most if self._mine.most is None else self._mine.most

    def close(self) -> None:
        """Stop accepting, close the listening sockets, and the connections that are not TLS or plain yet."""
        self._refused_log.close()
        self._failed_log.close()
        if self._pause is not None:
            self._pause.cancel()
        self._pause = None
        if self._tls is not None:
            for task in self._tasks:
                task.cancel()
        for listening in self.sockets:
            if listening.fileno() >= 0:
                self._loop.remove_reader(listening)
                listening.close()

    async def wait_closed(self) -> None:
        """Wait until each accepted connection has its protocol, or is closed."""
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
                connection, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause_accepting(error)
                return
            is_full = self._is_full
            if is_full and not (self.crowd is not None and self.crowd.make_room()):
                connection.close()
                self.refused += 1
                self._refused_log.add()
                continue
            if self._take(connection, address) or is_full:
                return  # what was closed for it is gone in the next turn, and what it has sent is read

    def _take(self, connection: socket.socket, address: tuple[Any, ...]) -> bool:
        """Begin to serve an accepted connection; return whether another of its address was closed for it."""
        connection.setblocking(False)
        place = _Place(self._count, address)
        place.task = task = self._loop.create_task(self._begin(connection, place))
        self._tasks.add(task)
        task.add_done_callback(partial(self._end, connection, place))
        return self.crowd is not None and self.crowd.add(place)

    async def _begin(self, connection: socket.socket, place: "_Place") -> bool:
        """Connect an accepted connection to a protocol, by TLS if it begins so; return whether that works."""
        try:
            handshake = None if self._tls is None else await self._tls.handshake(connection)
            await self._loop.connect_accepted_socket(
                lambda: self._make_protocol(place.release),
                connection,
                **({} if handshake is None else handshake._asdict()),
            )
        except OSError as error:
            reason = reason_of(error) if isinstance(error, ssl.SSLError) else str(error)
            self.failed += 1
            where = place.peer[0] or "this machine"  # by a unix socket, which names no peer
            self._last_failure = f"{where}: {reason or 'it ended the connection'}"
            self._failed_log.add()
            return False
        return True

    def _end(self, connection: socket.socket, place: "_Place", task: "asyncio.Task[bool]") -> None:
        """Close a connection that has no protocol: it was lost, or it had to go."""
        self._tasks.discard(task)
        if self.crowd is not None:
            self.crowd.remove(place)
        if task.cancelled() or not task.result():
            connection.close()
            place.release()

    @property
    def _is_full(self) -> bool:
        mine = self._mine
        if mine.most is not None and mine.count >= mine.most:
            return True
        return not mine.is_apart and _OF_PROCESS.count >= self._process_most

    def _count(self, change: int) -> None:
        self._mine.count += change
        if not self._mine.is_apart:
            _OF_PROCESS.count += change

    def _log_refused(self, count: int) -> None:
        _log.warning(
            "closed %d new connections at once: %d are open, which is the limit%s",
            count,
            self._mine.count,
            self._mine.limited_by,
        )

    def _log_failed(self, count: int) -> None:
        _log.warning(
            "%d connections were lost or closed while they were being accepted, the last one of %s",
            count,
            self._last_failure,
        )

    def _pause_accepting(self, error: OSError) -> None:
        """Pause accepting: the system has no descriptor or no memory for a connection."""
        if self._pause is None:
            _log.warning("no connection can be accepted for now: %s", error)
            for listening in self.sockets:
                self._loop.remove_reader(listening)
            self._pause = self._loop.call_later(PAUSE_S, self._resume_accepting)


class _Place:
    """The place that one connection takes among those that are counted, until it is released.

    Attributes:
        peer: the peer's IP address and port.
        task: connects it to its protocol.
    """

    __slots__ = ("_count", "_is_taken", "peer", "task")

    task: asyncio.Task[bool]

    def __init__(self, count: Callable[[int], None], address: tuple[Any, ...]) -> None:
        self._count = count
        self._is_taken = True
        self.peer: tuple[str, int] = address[:2] if address else ("", 0)
        count(1)

    def cut(self) -> None:
        """Close the connection, which has no protocol yet."""
        self.task.cancel()

    def release(self) -> None:
        """Count the connection as lost, once: a protocol and who made it may both notice that."""
        if self._is_taken:
            self._is_taken = False
            self._count(-1)
