"""What clients have not read of their answers: how much a proxy holds of them, all connections together.

An answer waits while its client allows no more bytes, or does not read. So the messages of a pop count from
when they come until the call ends, and every other answer from when it has to wait::

    unsent, of one connection     0 ──────────── unsent_bytes_max
                                  it may receive └ its calls for messages wait
    unsent, of all connections    0 ─────────── half of it ─────────── unsent_bytes_total_max
                                  all may receive └ no messages are given └ no answer may wait

Messages get half of it only, because they are answers soon: those must not lack room. Room is made by the
connection whose answer waits longest, if that is two seconds or more: it is closed. For an answer that is
already made somebody is closed in any case, else the connection that holds most.

What a pop brings is not known beforehand. So of the calls of a connection that begin at once, a few at a time
ask the broker: those that get nothing for lack of room must not have taken megabytes each to find out.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from grpclib.exceptions import StreamTerminatedError

STALLED_S: Final = 2.0
"""How long an answer may wait while others need its room."""
LOOK_S: Final = 0.25
"""How often a call that waits for room looks for it, if nobody tells it."""
ASKED_BYTES: Final = 1 << 20
"""What a call counts for in its connection while it asks a broker for messages: it may bring up to 4 MiB."""
ASKED_S: Final = 0.05
"""A broker that has not answered by then has no messages and waits for some: the call counts for nothing."""


class Held:
    """Bytes that are held for a connection, since some time."""

    __slots__ = ("recipient", "since", "size")

    def __init__(self, recipient: "Recipient", size: int, since: float) -> None:
        self.recipient = recipient
        self.size = size
        self.since = since


class Unsent:
    """The unsent answers of all connections of a server.

    Args:
        each_max: bytes of one connection above which it gets no further messages.
        total_max: bytes of all of them.

    Attributes:
        bytes: those of all connections.
        messages_max: bytes of all of them above which nobody gets further messages.
    """

    def __init__(self, each_max: int, total_max: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.bytes = 0
        self.each_max = each_max
        self.total_max = total_max
        self.messages_max = total_max // 2
        self.clock = clock
        self._held: dict[Held, None] = {}  # the oldest first

    def add(self, recipient: "Recipient", size: int) -> Held:
        """Count bytes of a connection."""
        held = Held(recipient, size, self.clock())
        self._held[held] = None
        recipient.held.add(held)
        self.bytes += size
        recipient.bytes += size
        return held

    def release(self, held: Held) -> None:
        """Count bytes no more, unless their connection is closed."""
        if held in self._held:
            del self._held[held]
            held.recipient.held.remove(held)
            self.bytes -= held.size
            held.recipient.bytes -= held.size

    def drop(self, recipient: "Recipient") -> None:
        """Count nothing of a connection any more."""
        for held in list(recipient.held):
            self.release(held)

    def make_room_for_messages(self, size: int) -> bool:
        """Close connections that keep answers waiting until messages can be held; return whether they can."""
        while self._held and self.bytes + size > self.messages_max:
            if not self._close_stalled():
                return False
        return True  # even if they are more than is allowed: they must not wait for ever

    def make_room(self, size: int) -> None:
        """Close connections until an answer can be held."""
        while self._held and self.bytes + size > self.total_max:
            if not self._close_stalled():
                recipients = {held.recipient for held in self._held}
                self._close(max(recipients, key=lambda recipient: recipient.bytes))

    def _close_stalled(self) -> bool:
        """Close the connection whose answer waits longest; return whether that has waited too long."""
        oldest = next(iter(self._held))
        if self.clock() - oldest.since < STALLED_S:
            return False
        self._close(oldest.recipient)
        return True

    def _close(self, recipient: "Recipient") -> None:
        text = f"it has not read {recipient.bytes} bytes of answers, and all of them are {self.bytes} bytes"
        self.drop(recipient)
        recipient.close(f"{text} (unsentBytesTotalMax is {self.total_max})")


class Recipient:
    """The unsent answers of one connection.

    Args:
        unsent: those of all connections.
        close: closes the connection for a reason.

    Attributes:
        bytes: their size.
        held: each of them.
        asking: the number of calls that ask a broker for messages.
        close: the same.
    """

    def __init__(self, unsent: Unsent, close: Callable[[str], None]) -> None:
        self.bytes = 0
        self.held: set[Held] = set()
        self.asking = 0
        self.close = close
        self._unsent = unsent
        self._waiting: list[asyncio.Future[None]] = []
        self._is_closed = False

    @property
    def has_room(self) -> bool:
        """Whether the connection may get further messages."""
        own = self.bytes + self.asking * ASKED_BYTES
        return own < self._unsent.each_max and self._unsent.bytes < self._unsent.messages_max

    def hold(self, size: int) -> Held:
        """Hold an answer that is made; others are closed for it. Raises StreamTerminatedError if this is."""
        self._unsent.make_room(size)
        if self._is_closed:
            raise StreamTerminatedError("the connection is closed")
        return self._unsent.add(self, size)

    def try_hold(self, size: int) -> Held | None:
        """Hold messages; return None if there is no room for them."""
        if self._is_closed or not self._unsent.make_room_for_messages(size):
            return None
        return self._unsent.add(self, size)

    def release(self, held: Held) -> None:
        """Hold bytes no more."""
        self._unsent.release(held)
        self._wake()

    def end_asking(self) -> None:
        """Count a call no more that has asked a broker for messages."""
        self.asking -= 1
        self._wake()

    async def wait_for_room(self, timeout_s: float) -> bool:
        """Wait until the connection may get further messages; return False if that takes too long."""
        ends = self._unsent.clock() + timeout_s
        while not self.has_room:
            self._unsent.make_room_for_messages(1)
            left_s = min(ends - self._unsent.clock(), LOOK_S)
            if left_s <= 0:
                return False
            freed = asyncio.get_running_loop().create_future()
            self._waiting.append(freed)
            try:
                await asyncio.wait((freed,), timeout=left_s)
            finally:
                if not freed.done():
                    self._waiting.remove(freed)
        return True

    def end(self) -> None:
        """Forget a connection that is closed."""
        self._is_closed = True
        self._unsent.drop(self)

    def _wake(self) -> None:
        if self._waiting and self.has_room:
            self._waiting.pop(0).set_result(None)


class AnswersHeld:
    """What is held for the answers of one call until it has ended.

    Args:
        recipient: those of its connection; None if nothing limits them.
    """

    def __init__(self, recipient: Recipient | None = None) -> None:
        self._recipient = recipient
        self._is_asking = False
        self._messages: list[Held] = []
        self._inflated: Held | None = None

    @property
    def has_room(self) -> bool:
        """Whether the client may get further messages."""
        return self._recipient is None or self._recipient.has_room

    async def wait_for_room(self, timeout_s: float) -> bool:
        """Wait until the client may get further messages; return False if that takes too long."""
        return self._recipient is None or await self._recipient.wait_for_room(timeout_s)

    async def ask(self, timeout_s: float) -> bool:
        """Wait until the broker may be asked for messages; return False if that takes too long."""
        if self._recipient is None:
            return True
        if not await self._recipient.wait_for_room(timeout_s):
            return False
        self._is_asking = True
        self._recipient.asking += 1
        asyncio.get_running_loop().call_later(ASKED_S, self._end_asking)
        return True

    def hold(self, size: int) -> bool:
        """Hold messages that have come, so many bytes; return False if there is no room for them."""
        if self._recipient is None:
            return True
        self._end_asking()
        held = self._recipient.try_hold(size)
        if held is not None:
            self._messages.append(held)
        return held is not None

    def hold_inflated(self, size: int) -> None:
        """Hold a body that was decompressed, in the place of the one before. Raises StreamTerminatedError."""
        if self._recipient is not None:
            if self._inflated is not None:
                self._recipient.release(self._inflated)
            self._inflated = self._recipient.hold(size)

    def release(self) -> None:
        """Hold nothing any more: the call has ended."""
        self._end_asking()
        if self._recipient is not None:
            if self._inflated is not None:
                self._recipient.release(self._inflated)
            for held in self._messages:
                self._recipient.release(held)

    def _end_asking(self) -> None:
        if self._recipient is not None and self._is_asking:
            self._is_asking = False
            self._recipient.end_asking()
