"""What proxies have not read of requests: how much they hold of it, all connections together.

A call that reads one request after the other, such as Telemetry, leaves what comes meanwhile unread. HTTP/2
lets each connection send a window of it; above a bound for all together, the connection with most is closed.
"""

from collections.abc import Callable
from typing import Final

UNREAD_BYTES_MAX: Final = 64 << 20
"""Most bytes of requests that wait unread, of all connections together."""


class UnreadRequests:
    """The unread requests of all connections of a server.

    Attributes:
        bytes: their size.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._requesters: set[Requester] = set()  # those that have some

    def change(self, requester: "Requester", size: int) -> None:
        """Count more bytes of a connection, or fewer; close those that have most if there are too many."""
        self.bytes += size
        requester.bytes += size
        if requester.bytes:
            self._requesters.add(requester)
        else:
            self._requesters.discard(requester)
        while self.bytes > UNREAD_BYTES_MAX:
            largest = max(self._requesters, key=lambda one: one.bytes)
            text = f"{largest.bytes} bytes of its requests wait unread, of all connections {self.bytes}"
            largest.end()
            largest.close(f"{text}, at most {UNREAD_BYTES_MAX} may")


class Requester:
    """The unread requests of one connection.

    Args:
        unread: those of all connections.
        close: closes the connection for a reason.

    Attributes:
        bytes: their size.
        close: the same.
    """

    def __init__(self, unread: UnreadRequests, close: Callable[[str], None]) -> None:
        self.bytes = 0
        self.close = close
        self._unread = unread
        self._is_closed = False

    def add(self, size: int) -> None:
        """Count bytes that have come."""
        if not self._is_closed:
            self._unread.change(self, size)

    def remove(self, size: int) -> None:
        """Count bytes no more: they are read, or awaited."""
        self.add(-size)

    def end(self) -> None:
        """Count nothing of a connection that is closed."""
        self.remove(self.bytes)
        self._is_closed = True
