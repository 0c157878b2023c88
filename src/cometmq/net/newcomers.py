"""Connections on which no known user has signed a request yet: they may do less than others.

::

    accepted ─► a newcomer ─► its first request with a right signature ─► a connection like others
                    ├► begins a frame that is too long           ┐
                    ├► takes too long for its first, or any frame├► closed
                    ├► sends too many requests that are refused  │
                    └► is the oldest of too many of its address  ┘

Only a server that checks its requests has newcomers: see ``guarded.py``; of gRPC ``proxy/connection.py``.
"""

from typing import NamedTuple, Protocol

from cometmq.logs import get_logger
from cometmq.net.occasional_log import OccasionalLog

_log = get_logger(__name__)


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


class Limited(Protocol):
    """A connection that has these limits at first.

    Attributes:
        newcomers: its server's newcomers while it is one of them, else None.
    """

    newcomers: "Newcomers | None"

    @property
    def peer(self) -> tuple[str, int]:
        """The peer's IP address and port."""
        ...

    def cut(self) -> None:
        """Close it at once."""
        ...

    def abort(self, reason: str) -> None:
        """Close it at once, and log the reason."""
        ...


class Newcomers:
    """The connections of a server on which no known user has signed a request yet.

    Attributes:
        limits: the limits of each.
    """

    def __init__(self, limits: NewcomerLimits) -> None:
        self.limits = limits
        self._refused: dict[str, dict[Limited, int]] = {}  # by address, the oldest first
        self._last_cut = ""
        self._cut_log = OccasionalLog(self._log_cut)

    def add(self, session: Limited) -> None:
        """Add a connection; close the oldest one of its address if there are too many."""
        session.newcomers = self
        neighbours = self._refused.setdefault(session.peer[0], {})
        neighbours[session] = 0
        most = self.limits.connections_max
        if 0 < most < len(neighbours):
            oldest = next(iter(neighbours))
            self.remove(oldest)
            oldest.cut()
            self._last_cut = str(oldest)
            self._cut_log.add()

    def remove(self, session: Limited) -> None:
        """Remove a connection: a known user has signed a request, or it is closed."""
        session.newcomers = None
        neighbours = self._refused[session.peer[0]]
        del neighbours[session]
        if not neighbours:
            del self._refused[session.peer[0]]

    def count_refused(self, session: Limited) -> None:
        """Count a refused request of a connection; close it if there are too many."""
        neighbours = self._refused[session.peer[0]]
        neighbours[session] += 1
        most = self.limits.refused_max
        if 0 < most < neighbours[session]:
            session.abort(
                f"more than {most} of its requests were refused before one was signed by a known user"
                f"{self.limits.setting('unsignedRequestsMax')}"
            )

    def close(self) -> None:
        """Log what is not logged yet."""
        self._cut_log.close()

    def _log_cut(self, count: int) -> None:
        _log.warning(
            "closed %d connections at once, the last one of %s: no known user had signed a request on "
            "them, and their address has more than %d such connections%s",
            count,
            self._last_cut,
            self.limits.connections_max,
            self.limits.setting("unsignedConnectionsMax"),
        )
