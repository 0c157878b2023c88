"""Connections whose peers nobody knows yet: of each address only so many, and they may do less than others.

Opening a connection costs a peer nothing, and neither does saying nothing on it. So connections that wait
for their peer are a crowd, which is counted by address: when there are too many the oldest is closed, and so
it is when a server has no other place for a new one. Who comes and speaks is served, whoever else comes and
does not. What a peer has to show is for the server to say: a handshake, a signature, a whole request.

Where requests are signed, these connections are newcomers::

    accepted ─► a newcomer ─► its first request with a right signature ─► a connection like others
                    ├► begins a frame that is too long           ┐
                    ├► takes too long for its first, or any frame├► closed
                    ├► sends too many requests that are refused  │
                    └► is the oldest of too many of its address  ┘

Only a server that checks its requests has newcomers: see ``guarded.py``; of gRPC ``proxy/connection.py``.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol, cast

from cometmq.logs import get_logger
from cometmq.net.address import address_text
from cometmq.net.occasional_log import OccasionalLog

_log = get_logger(__name__)


class Crowded(Protocol):
    """A connection that can be in a crowd."""

    @property
    def peer(self) -> tuple[str, int]:
        """The peer's IP address and port; port 0 by a unix socket."""
        ...

    def cut(self) -> None:
        """Close it at once."""
        ...


class Crowd:
    """The connections of a server that wait for their peers.

    Args:
        most: such connections of one address; 0 for any number.
        lack: what their peers have not done yet, for the log.
        setting: the setting that says how many, with a space and in parentheses; empty if there is none.
    """

    def __init__(self, most: int, lack: str, setting: str = "") -> None:
        self._most = most
        self._lack = lack
        self._setting = setting
        self._by_address: dict[str, dict[int | Crowded, Crowded]] = {}  # by port, the oldest first
        self._last_cut = ""
        self._log = OccasionalLog(self._log_cut)

    def add(self, one: Crowded) -> bool:
        """Add a connection, in the place of what had its address and port.

        Returns:
            Whether the oldest of its address was closed for it.
        """
        address, port = one.peer
        neighbours = self._by_address.setdefault(address, {})
        neighbours[port or one] = one
        if not 0 < self._most < len(neighbours):
            return False
        self._cut_oldest(neighbours)
        return True

    def remove(self, one: Crowded) -> None:
        """Remove a connection if it is there: its peer has shown what it should, or it is closed."""
        address, port = one.peer
        neighbours = self._by_address.get(address, {})
        if neighbours.get(port or one) is one:
            del neighbours[port or one]
            if not neighbours:
                del self._by_address[address]

    def make_room(self) -> bool:
        """Close the oldest connection of the address that has most; return whether there was any."""
        neighbours = max(self._by_address.values(), key=len, default=None)
        if neighbours is None:
            return False
        self._cut_oldest(neighbours)
        return True

    def close(self) -> None:
        """Log what is not logged yet."""
        self._log.close()

    def _cut_oldest(self, neighbours: "dict[int | Crowded, Crowded]") -> None:
        oldest = next(iter(neighbours.values()))
        self.remove(oldest)
        self._last_cut = address_text(*oldest.peer)
        oldest.cut()
        self._log.add()

    def _log_cut(self, count: int) -> None:
        _log.warning(
            "closed %d connections at once, the last one of %s: %s, and no place was free%s",
            count,
            self._last_cut,
            self._lack,
            f", or their address has more than {self._most} such connections{self._setting}"
            if self._most
            else "",
        )


class CrowdedStream(asyncio.StreamReaderProtocol):
    """A connection as two streams, which is in a crowd until it is admitted.

    Args:
        begin: called with this and its streams when it is made.
        crowd: the crowd.
        release: called when it is lost.
        head_max: most bytes that are read ahead, and of what is read up to a separator.

    Attributes:
        peer: the peer's IP address and port.
        is_cut: whether the crowd has closed it.
    """

    def __init__(
        self,
        begin: "Callable[[CrowdedStream, asyncio.StreamReader, asyncio.StreamWriter], None]",
        crowd: Crowd,
        release: Callable[[], None],
        head_max: int = 64 * 1024,
    ) -> None:
        super().__init__(asyncio.StreamReader(head_max), partial(begin, self))
        self.peer = ("", 0)
        self.is_cut = False
        self._crowd = crowd
        self._release = release
        self._connection: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve (called by asyncio)."""
        self._connection = cast(asyncio.Transport, transport)  # what uvloop passes has the same methods
        address = transport.get_extra_info("peername")
        if not address:  # closed before it was accepted
            self._connection.abort()
            return
        self.peer = address[:2]
        self._crowd.add(self)
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Release its place (called by asyncio)."""
        self._connection = None
        self._crowd.remove(self)
        self._release()
        super().connection_lost(exc)

    def admit(self) -> None:
        """Leave the crowd: the peer has shown what it should."""
        self._crowd.remove(self)

    def wait_for_peer(self) -> None:
        """Return to the crowd, as its youngest, unless it is lost: the next step is the peer's."""
        if self._connection is not None:
            self._crowd.add(self)

    def cut(self) -> None:
        """Close it at once, for the crowd."""
        self.is_cut = True
        if self._connection is not None:
            self._connection.abort()


class NewcomerLimits(NamedTuple):
    """The limits of a connection on which no known user has signed a request yet.

    Attributes:
        frame_size_max: bytes of its longest frame.
        frame_ms_max: ms that its first frame, from when it was accepted, or a later frame may take.
        refused_max: requests that may be refused; 0 for any number.
        connections_max: such connections of one IP address; 0 for any number.
        are_settings: whether they can be set, so that messages say by which settings.
    """

    frame_size_max: int
    frame_ms_max: int
    refused_max: int
    connections_max: int
    are_settings: bool = True

    def setting(self, name: str) -> str:
        """Return what a message that ends with a limit says of the setting of that name."""
        return f" ({name})" if self.are_settings else ""


class Limited(Crowded, Protocol):
    """A connection that has these limits at first.

    Attributes:
        newcomers: its server's newcomers while it is one of them, else None.
    """

    newcomers: "Newcomers | None"

    def abort(self, reason: str) -> None:
        """Close it at once, and log the reason."""
        ...


class Newcomers:
    """The connections of a server on which no known user has signed a request yet.

    Attributes:
        limits: the limits of each.
        crowd: these connections, and those that are not accepted yet.
    """

    def __init__(self, limits: NewcomerLimits) -> None:
        self.limits = limits
        setting = limits.setting("unsignedConnectionsMax")
        self.crowd = Crowd(limits.connections_max, "no known user had signed a request on them", setting)
        self._refused: dict[Limited, int] = {}

    def add(self, session: Limited) -> None:
        """Add a connection; close the oldest one of its address if there are too many."""
        session.newcomers = self
        self._refused[session] = 0
        self.crowd.add(session)

    def remove(self, session: Limited) -> None:
        """Remove a connection: a known user has signed a request, or it is closed."""
        session.newcomers = None
        del self._refused[session]
        self.crowd.remove(session)

    def count_refused(self, session: Limited) -> None:
        """Count a refused request of a connection; close it if there are too many."""
        self._refused[session] += 1
        most = self.limits.refused_max
        if 0 < most < self._refused[session]:
            session.abort(
                f"more than {most} of its requests were refused before one was signed by a known user"
                f"{self.limits.setting('unsignedRequestsMax')}"
            )

    def close(self) -> None:
        """Log what is not logged yet."""
        self.crowd.close()
