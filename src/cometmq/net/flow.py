"""Back-pressure: how much may wait, to be sent on a connection and to be handled, and what follows then.

What is unsent on a connection::

    unsent bytes   0 ────────── LOW_WATER ────────── HIGH_WATER ──────────────── UNSENT_MAX
                   all is read  └ reading resumes    └ reading stops,            └ the connection
                   and answered   and deferred         large answers can           is cut
                                  answers are made     be deferred

A peer that never reads can thus make a server hold at most ``UNSENT_MAX`` and one answer more. What was read
and is not handled yet is bounded, too: see ``turn.py``.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from cometmq.message import Buffer

HIGH_WATER: Final = 1 << 19
LOW_WATER: Final = 1 << 17
UNSENT_MAX: Final = 1 << 25
"""Two of the largest frames (bytes)."""

UNHANDLED_MAX: Final = 1 << 16
UNHANDLED_TOTAL_MAX: Final = 1 << 26
TURN_MAX: Final = 1 << 19
UNFINISHED_TOTAL_MAX: Final = 1 << 26


class Limits(NamedTuple):
    """How many bytes a server holds of its connections.

    Attributes:
        low_water: see above, as for ``high_water`` and ``unsent_max``; each is of one connection.
        unhandled_max: a connection that has so many unhandled, or some after a turn, is not read until all
            of them are handled.
        unhandled_total_max: while all connections together have so many, none is read.
        turn_max: of so many that all have unhandled, a turn of the loop handles what there is; of more, the
            same share of each connection.
        unfinished_total_max: of so many that long frames will have, all connections' together, no further one
            is read before others are finished.
    """

    low_water: int = LOW_WATER
    high_water: int = HIGH_WATER
    unsent_max: int = UNSENT_MAX
    unhandled_max: int = UNHANDLED_MAX
    unhandled_total_max: int = UNHANDLED_TOTAL_MAX
    turn_max: int = TURN_MAX
    unfinished_total_max: int = UNFINISHED_TOTAL_MAX


LIMITS: Final = Limits()

JOIN_MAX: Final = 1 << 16
"""Up to this many bytes are copied into one buffer; more go to the socket as a list of buffers."""


class Outbox:
    """What one connection has still to send: joined, counted and bounded.

    All that is put in during one turn of the event loop leaves in one transport write: between ``cork`` and
    ``flush``, or else at the end of the turn.

    Args:
        transport: where to.
        limits: bytes above which the peer counts as congested, and above which ``put`` refuses.
        flush_soon: sees to it that ``flush`` is called at the end of the turn; by default the loop does.
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
        limits: Limits = LIMITS,
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
        """Bytes that the operating system has not yet taken."""
        return self._pending_size + self._transport.get_write_buffer_size()

    def put(self, data: Buffer) -> bool:
        """Send ``data`` soon; False, and nothing is taken, if the peer has left too much unread."""
        size = len(data)
        if self.congested and self.unsent + size > self._unsent_max:
            return False
        self._pending.append(data)
        self._pending_size += size
        if self._pending_size >= self._high_water:
            self.flush()  # so that whoever makes the next answer sees the congestion
        elif not self._corked:
            self._corked = True
            self._flush_soon(self)
        return True

    def write(self, data: Buffer) -> bool:
        """Send ``data`` at once, unless something waits before it; else like ``put``."""
        if self._pending or self.congested or self._transport.is_closing():
            return self.put(data)
        self._transport.write(data)
        return True

    def cork(self) -> None:
        """Collect what is put in until ``flush``, which the caller must call in the same turn."""
        self._corked = True

    def flush(self) -> None:
        """Hand all that was collected to the transport, in one write."""
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
        """Run ``action`` now, or once the peer has read enough; never, if the connection ends before."""
        if self.congested:
            self._deferred.append(action)
        else:
            action()

    def congest(self) -> None:
        """Note that the transport's buffer has passed its high-water mark."""
        self.congested = True

    def drain(self) -> None:
        """Note that the transport's buffer has fallen below its low-water mark; do what was deferred."""
        self.congested = False
        while self._deferred and not self.congested:
            self._deferred.popleft()()

    def close(self) -> None:
        """Let what was put in leave, then close; what was deferred is not done."""
        self.flush()
        self._deferred.clear()
        self._transport.close()

    def abort(self) -> None:
        """Close at once, and forget all that is unsent."""
        self.discard()
        self._transport.abort()

    def discard(self) -> None:
        """Forget everything: the connection is gone."""
        self._pending, self._pending_size = [], 0
        self._deferred.clear()


def _flush_by_loop(outbox: Outbox) -> None:
    asyncio.get_running_loop().call_soon(outbox.flush)
