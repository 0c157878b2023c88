"""Back-pressure: limits on the bytes that wait to be sent and to be handled.

Unsent bytes of a connection::

    unsent bytes   0 ────────── LOW_WATER ────────── HIGH_WATER ──────────────── UNSENT_MAX
                   all is read  └ reading resumes    └ reading stops,            └ the connection
                   and answered   and deferred         large answers can           is closed
                                  answers are sent     be deferred

So a peer that never reads can make a server hold at most ``UNSENT_MAX`` and one more answer; over TLS twice
that, as a transport counts either what is not encrypted or what the socket has not accepted. Bytes that were
read and are not handled yet are limited too: see ``turn.py``.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from cometmq.message import Buffer

HIGH_WATER: Final = 1 << 19
LOW_WATER: Final = 1 << 17
UNSENT_MAX: Final = 1 << 25
"""Twice the size of the largest frame, in bytes."""

UNHANDLED_MAX: Final = 1 << 16
UNHANDLED_TOTAL_MAX: Final = 1 << 26
TURN_MAX: Final = 1 << 19
UNFINISHED_TOTAL_MAX: Final = 1 << 26


class FlowLimits(NamedTuple):
    """The limits of the bytes that a server holds for its connections.

    Attributes:
        low_water: see the diagram above, as for ``high_water`` and ``unsent_max``; each per connection.
        unhandled_max: a connection with this many unhandled bytes, or with some after a turn, is not read
            until all of them are handled.
        unhandled_total_max: while all connections together have this many, none is read.
        turn_max: if all connections together have at most this many unhandled bytes, one turn of the loop
            handles all of them; else an equal share of each connection.
        unfinished_total_max: while unfinished long frames of all connections together need this many bytes,
            no further long frame is read.
    """

    low_water: int = LOW_WATER
    high_water: int = HIGH_WATER
    unsent_max: int = UNSENT_MAX
    unhandled_max: int = UNHANDLED_MAX
    unhandled_total_max: int = UNHANDLED_TOTAL_MAX
    turn_max: int = TURN_MAX
    unfinished_total_max: int = UNFINISHED_TOTAL_MAX


LIMITS: Final = FlowLimits()

JOIN_MAX: Final = 1 << 16
"""Up to this many bytes are joined to one buffer; more go to the socket as a list of buffers."""


class Intake:
    """The received and not yet handled bytes of one connection, from whose front shares are taken."""

    __slots__ = ("_begin", "_data")

    def __init__(self) -> None:
        self._data = b""
        self._begin = 0

    def __len__(self) -> int:
        return len(self._data) - self._begin

    @property
    def is_begun(self) -> bool:
        """Whether a share was taken and bytes are left."""
        return self._begin > 0

    def add(self, data: bytes) -> None:
        """Append received bytes."""
        self._data = self._data[self._begin :] + data if self._data else data
        self._begin = 0

    def take(self, size_max: int) -> bytes:
        """Remove and return up to ``size_max`` bytes from the front."""
        data, begin = self._data, self._begin
        end = begin + size_max
        if end < len(data):
            self._begin = end
            return data[begin:end]
        self.clear()
        return data[begin:] if begin else data

    def clear(self) -> None:
        """Drop all bytes."""
        self._data, self._begin = b"", 0


class Outbox:
    """The unsent data of one connection: joined, counted and limited.

    Everything put in during one turn of the event loop leaves in one transport write: between ``cork`` and
    ``flush``, or else at the end of the turn.

    Args:
        transport: the connection's transport.
        limits: bytes above which the peer counts as congested, and above which ``put`` refuses.
        flush_soon: calls ``flush`` at the end of the turn; by default by the event loop.
    """

    __slots__ = (
        "_corked",
        "_deferred",
        "_flush_soon",
        "_high_water",
        "_pending",
        "_pending_size",
        "_transport",
        "_unsent_max",
        "congested",
    )

    def __init__(
        self,
        transport: asyncio.Transport,
        limits: FlowLimits = LIMITS,
        *,
        flush_soon: "Callable[[Outbox], object] | None" = None,
    ) -> None:
        self.congested = False
        self._transport = transport
        self._high_water = limits.high_water
        self._unsent_max = limits.unsent_max
        self._flush_soon = flush_soon or _flush_by_loop
        self._pending: list[Buffer] = []
        self._pending_size = 0
        self._corked = False
        self._deferred: deque[Callable[[], None]] = deque()
        transport.set_write_buffer_limits(high=limits.high_water, low=limits.low_water)

    @property
    def unsent(self) -> int:
        """Bytes that the operating system has not accepted yet."""
        return self._pending_size + self._transport.get_write_buffer_size()

    def put(self, data: Buffer) -> bool:
        """Send ``data`` soon; returns False and drops it if the peer has left too much unread."""
        size = len(data)
        if self.congested and self.unsent + size > self._unsent_max:
            return False
        self._pending.append(data)
        self._pending_size += size
        if self._pending_size >= self._high_water:
            self.flush()  # so that the next answer is made knowing of the congestion
        elif not self._corked:
            self._corked = True
            self._flush_soon(self)
        return True

    def write(self, data: Buffer) -> bool:
        """Send ``data`` at once, unless other data waits before it; else like ``put``."""
        if self._pending or self.congested or self._transport.is_closing():
            return self.put(data)
        self._transport.write(data)
        return True

    def cork(self) -> None:
        """Collect data until ``flush``, which the caller must call in the same turn."""
        self._corked = True

    def flush(self) -> None:
        """Write all collected data to the transport, in one call."""
        self._corked = False
        pending, size = self._pending, self._pending_size
        if not pending:
            return
        self._pending, self._pending_size = [], 0
        if self._transport.is_closing():
            return
        if len(pending) == 1:
            self._transport.write(pending[0])
        elif size <= JOIN_MAX:
            self._transport.write(b"".join(pending))
        else:
            self._transport.writelines(pending)

    def when_drained(self, action: Callable[[], None]) -> None:
        """Call ``action`` now, or once the peer has read enough; never if the connection ends before."""
        if self.congested:
            self._deferred.append(action)
        else:
            action()

    def congest(self) -> None:
        """Mark as congested: the transport's buffer is above its high-water mark."""
        self.congested = True

    def drain(self) -> None:
        """Mark as not congested: the buffer is below its low-water mark; run the deferred actions."""
        self.congested = False
        while self._deferred and not self.congested:
            self._deferred.popleft()()

    def close(self) -> None:
        """Send the collected data, then close; deferred actions are dropped."""
        self.flush()
        self._deferred.clear()
        self._transport.close()

    def abort(self) -> None:
        """Close at once, and drop all unsent data."""
        self.discard()
        self._transport.abort()

    def discard(self) -> None:
        """Drop all unsent data and deferred actions: the connection is closed."""
        self._pending, self._pending_size = [], 0
        self._deferred.clear()


def _flush_by_loop(outbox: Outbox) -> None:
    asyncio.get_running_loop().call_soon(outbox.flush)
