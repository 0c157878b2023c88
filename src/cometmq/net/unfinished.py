"""Memory for long frames that are arriving, shared by all connections of a server.

A frame is held until it is complete, and a peer can stop in the middle of it. So for each long frame
memory for its whole length is reserved before more of it is read. If there is not enough, the frame waits
unread, so that its peer waits too: the shortest goes first, or the one that has waited longest once that is
too long. A frame with reserved memory can always be finished. While others wait, a peer that stops sending
such a frame loses its connection, the longest silent one first.
"""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from cometmq.io.clock import Clock

LONG_FRAME_MIN: Final = 4_096
"""Length in bytes from which a frame needs a reservation; each connection may have one shorter frame."""
STALLED_MS: Final = 2_000
OVERTAKING_MS_MAX: Final = 10_000
"""Wait, in ms, after which a frame is no longer overtaken by shorter ones."""
CHECK_INTERVAL_S: Final = 1.0


class Receiver(Protocol):
    """A connection on which a long frame is arriving.

    Attributes:
        frame_heard_ms: monotonic time when bytes of it last arrived, in ms.
    """

    frame_heard_ms: int

    def resume_frame(self) -> None:
        """Resume reading it: memory for it is now reserved."""
        ...

    def abort(self, reason: str) -> None:
        """Close the connection at once, and log the reason."""
        ...


class _WaitingFrame(NamedTuple):
    """A frame that waits for memory: its length in bytes, and since when, in ms."""

    size: int
    since_ms: int


class UnfinishedFrames:
    """The reservations of memory for long frames.

    Args:
        size_max: most bytes that are reserved, unless one frame needs more.
        clock: measures how long frames have waited, and their peers been silent.
        is_reading_stopped: returns whether nothing is read, so that nobody can be blamed for silence.

    Attributes:
        size: bytes that are reserved.
    """

    def __init__(self, size_max: int, clock: Clock, is_reading_stopped: Callable[[], bool]) -> None:
        self.size = 0
        self._size_max = size_max
        self._clock = clock
        self._is_reading_stopped = is_reading_stopped
        self._held: dict[Receiver, int] = {}
        self._waiting: dict[Receiver, _WaitingFrame] = {}  # in the order of arrival
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, session: Receiver, size: int) -> bool:
        """Reserve memory for a session's frame; returns False if it must wait for ``resume_frame``."""
        if self._fits(size) and not self._has_waited_too_long():
            self._hold(session, size)
            return True
        self._waiting[session] = _WaitingFrame(size, self._clock.monotonic_ms())
        if self._timer is None:
            self._set_timer()
        return False

    def end(self, session: Receiver) -> None:
        """End a session's reservation, or its wait for one: the frame is complete or dropped."""
        self._waiting.pop(session, None)
        self.size -= self._held.pop(session, 0)
        self._grant()

    def cut_stalled(self) -> None:
        """Close connections that hold a reservation and are silent while others wait."""
        now_ms = self._clock.monotonic_ms()
        while self._waiting and self._held and not self._is_reading_stopped():
            session = min(self._held, key=lambda one: one.frame_heard_ms)
            silent_ms = now_ms - session.frame_heard_ms
            if silent_ms < STALLED_MS:
                return
            session.abort(
                f"received nothing for {silent_ms} ms of a frame of {self._held[session]} bytes, while "
                f"{self.size} bytes of frames are unfinished (unfinishedBytesTotalMax)"
            )
            self.end(session)

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fits(self, size: int) -> bool:
        return not self._held or self.size + size <= self._size_max

    def _hold(self, session: Receiver, size: int) -> None:
        self._held[session] = size
        self.size += size

    def _grant(self) -> None:
        """Reserve memory for waiting frames, as long as there is enough."""
        while self._waiting:
            session, place = next(iter(self._waiting.items()))
            if not self._has_waited_too_long():
                session, place = min(self._waiting.items(), key=lambda item: item[1].size)
            if not self._fits(place.size):
                return
            del self._waiting[session]
            self._hold(session, place.size)
            session.resume_frame()

    def _has_waited_too_long(self) -> bool:
        first = next(iter(self._waiting.values()), None)
        return first is not None and self._clock.monotonic_ms() - first.since_ms >= OVERTAKING_MS_MAX

    def _set_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(CHECK_INTERVAL_S, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.cut_stalled()
        if self._waiting:
            self._set_timer()
