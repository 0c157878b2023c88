"""Memory for long frames that are arriving: who may have how much of it, of all connections of a server.

A frame is held until all of it is there, and a peer can stop in the middle of it. So each long one needs
room for its whole length before more of it is read. Those that come when there is none wait, unread, so
that their peers wait, too: the shortest goes first, or the one that waits longest once that is long. What
has room can be finished always. While others wait, a peer that sends nothing of a frame that has room loses
its connection, the one that is silent longest first.
"""

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from cometmq.net.server import Server
    from cometmq.net.session import Session

LONG_FRAME_MIN: Final = 4_096
"""Shorter frames need no room: each connection may have one."""
STALLED_MS: Final = 2_000
PATIENCE_MS: Final = 10_000
"""Who has waited for so long is overtaken no more."""
LOOK_INTERVAL_S: Final = 1.0


class _Place(NamedTuple):
    """A frame that waits, and since when."""

    size: int
    since_ms: int


class UnfinishedFrames:
    """Shares out the room for frames.

    Attributes:
        size: bytes of the frames that have room.
    """

    def __init__(self, server: "Server") -> None:
        self.size = 0
        self._server = server
        self._held: dict[Session, int] = {}
        self._waiting: dict[Session, _Place] = {}  # in their order
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, session: "Session", size: int) -> bool:
        """Return whether there is room for a session's next frame; if not, it waits for ``Session.go_on``."""
        if self._fits(size) and not self._is_anybody_impatient():
            self._hold(session, size)
            return True
        self._waiting[session] = _Place(size, self._server.clock.monotonic_ms())
        if self._timer is None:
            self._look_later()
        return False

    def end(self, session: "Session") -> None:
        """Free a session's room, or its place among those that wait: its frame is no more."""
        self._waiting.pop(session, None)
        self.size -= self._held.pop(session, 0)
        self._give()

    def look(self) -> None:
        """Cut connections that are silent while others wait for their room."""
        now_ms = self._server.clock.monotonic_ms()
        while self._waiting and self._held and not self._server.turn.is_full:
            session = min(self._held, key=lambda one: one.frame_heard_ms)
            silent_ms = now_ms - session.frame_heard_ms
            if silent_ms < STALLED_MS:
                return
            session.abort(
                f"nothing came for {silent_ms} ms of a frame of {self._held[session]} bytes, and {self.size} "
                "bytes of frames are unfinished (unfinishedBytesTotalMax)"
            )
            self.end(session)

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fits(self, size: int) -> bool:
        return not self._held or self.size + size <= self._server.limits.unfinished_total_max

    def _hold(self, session: "Session", size: int) -> None:
        self._held[session] = size
        self.size += size

    def _give(self) -> None:
        """Hold room for those that wait, as long as there is some."""
        while self._waiting:
            session, place = next(iter(self._waiting.items()))
            if not self._is_anybody_impatient():
                session, place = min(self._waiting.items(), key=lambda item: item[1].size)
            if not self._fits(place.size):
                return
            del self._waiting[session]
            self._hold(session, place.size)
            session.go_on()

    def _is_anybody_impatient(self) -> bool:
        first = next(iter(self._waiting.values()), None)
        return first is not None and self._server.clock.monotonic_ms() - first.since_ms >= PATIENCE_MS

    def _look_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LOOK_INTERVAL_S, self._look_again)

    def _look_again(self) -> None:
        self._timer = None
        self.look()
        if self._waiting:
            self._look_later()
