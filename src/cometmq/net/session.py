"""A peer's connection to a server: its commands, their responses, and the detection of silent peers."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, cast

from cometmq.format.host import host_text, pack_host, sized_host, unpack_host
from cometmq.io.clock import Clock
from cometmq.logs import get_logger
from cometmq.message import Buffer
from cometmq.net.boundary import attempt
from cometmq.net.flow import FlowLimits, Intake, Outbox
from cometmq.net.newcomers import Newcomers
from cometmq.net.unfinished import LONG_FRAME_MIN, UnfinishedFrames
from cometmq.wire.connection import FrameReader, NotAFrame
from cometmq.wire.foreign import HEAD_SIZE, THIS_IS_TLS, foreign_protocol
from cometmq.wire.frame import Command, encode

Handle: TypeAlias = "Callable[[Session, list[Command]], None]"

IDLE_MS_MAX: Final = 120_000
"""Silence, in ms, after which a peer counts as gone (RocketMQ: NettyServerConfig.java)."""
PARTIAL_FRAME_MS_MAX: Final = 30_000
"""Longest time, in ms, for one frame to arrive: a slower peer hangs, or tries to occupy our memory."""

_log = get_logger(__name__)


class Read:
    """The bytes that one connection received for a turn; those before ``position`` are handled."""

    __slots__ = ("data", "position", "session")

    def __init__(self, session: "Session", data: bytes) -> None:
        self.session = session
        self.data = data
        self.position = 0


class SharedTurn(Protocol):
    """What a session needs of its server's turn: see ``turn.Turn``.

    Attributes:
        unhandled: bytes of all sessions that were read and are not handled yet.
        is_full: whether reading is stopped because they are too many.
    """

    unhandled: int
    is_full: bool

    def add(self, session: "Session") -> None:
        """Queue a session, whose received bytes are handled at the end of the turn."""
        ...

    def answer(self, session: "Session", commands: list[Command]) -> None:
        """Pass commands to the server's handler."""
        ...

    def flush_soon(self, outbox: Outbox) -> None:
        """Flush an outbox at the end of the turn."""
        ...

    def finish(self, session: "Session") -> None:
        """Handle all bytes that a session has received, because no more will come."""
        ...

    def stop_reading(self, session: "Session") -> None:
        """Stop reading from all sessions, this one in any case, until enough is handled."""
        ...


class Counts(NamedTuple):
    """What a server counts of its connections, for operators.

    Attributes:
        connections: number of open connections.
        connections_max: their limit; None if there is none.
        refused_connections: number of connections that were closed at once because too many were open.
        refused_requests: number of requests that a check has refused: see ``net.guarded``.
    """

    connections: int
    connections_max: int | None
    refused_connections: int
    refused_requests: int


@dataclass(slots=True)
class SharedParts:
    """What the sessions of a server share.

    Attributes:
        turn: collects the work of the loop's current turn.
        unfinished: reserves memory for long frames that are arriving.
        clock: measures the silence of peers.
        limits: the limits of bytes that wait to be sent and to be handled.
        idle_ms_max: silence after which a connection is closed.
        add: called with a session whose connection is made.
        remove: called with a session whose connection is closed.
        counts: returns the server's counts.
        refused_requests: number of requests that a check has refused: see ``net.guarded``.
    """

    turn: SharedTurn
    unfinished: UnfinishedFrames
    clock: Clock
    limits: FlowLimits
    idle_ms_max: int
    add: "Callable[[Session], None]"
    remove: "Callable[[Session], None]"
    counts: Callable[[], Counts]
    refused_requests: int = 0


class Session(asyncio.Protocol):
    """A peer's connection, as a handler uses it.

    Attributes:
        peer: the peer's IP address and port; an IPv4 address mapped into IPv6 is returned as IPv4.
        born_host: the same as records hold it, 8 or 20 bytes.
        sized_born_host: the same as leaf operations take it: see ``format.host.sized_host``.
        shared: what it shares with the other sessions of its server.
        attributes: values that the handler keeps with this session.
        closed: whether the session is closed, so that nothing can be sent.
        frame_heard_ms: monotonic time when bytes of the unfinished long frame last arrived, in ms.
        waited_ms: how long the commands being handled have waited, if that is too long; else 0.
        user: who signed the request that is being handled, which was checked; empty if nobody did.
        newcomers: its server's newcomers while it is one of them, else None.
    """

    peer: tuple[str, int]
    born_host: bytes
    sized_born_host: bytes

    def __init__(self, shared: SharedParts, on_lost: Callable[[], None] = lambda: None) -> None:
        self.attributes: dict[str, Any] = {}
        self.closed = False
        self.shared = shared
        self.user = ""
        self.newcomers: Newcomers | None = None
        self.waited_ms = 0
        self._on_lost = on_lost
        self._reader = FrameReader()
        self._intake = Intake()
        self._waits = False  # to be handled at the end of a turn
        self._is_read = True
        self._heard = False
        self._is_head_known = False  # whether the first bytes were checked for other protocols
        self._commands_read = 0
        self._commands_at_sweep = 0
        self._frame_length = 0  # of a long frame that is unfinished
        self._waits_for_room = False  # for the rest of that frame, which is not read meanwhile
        self.frame_heard_ms = 0
        self._quiet_since_ms = self._stuck_since_ms = shared.clock.monotonic_ms()

    def __str__(self) -> str:
        return host_text(self.born_host)

    @property
    def congested(self) -> bool:
        """Whether the peer has left so much unread that large responses should wait: see ``when_drained``."""
        return self._outbox.congested

    def send(self, data: Buffer | Command) -> None:
        """Send an encoded frame, or a command, soon; it is dropped if the session is closed."""
        if self.closed:
            return
        if not self._outbox.put(encode(data) if isinstance(data, Command) else data):
            self.abort(f"it has left {self._outbox.unsent} bytes of answers unread")

    def send_at_once(self, frames: bytes) -> None:
        """Send encoded frames at once, without waiting for other responses of the turn."""
        if not self.closed and not self._outbox.write(frames):
            self.abort(f"it has left {self._outbox.unsent} bytes of answers unread")

    def when_drained(self, action: Callable[[], None], *commands: Command) -> None:
        """Call ``action`` when the peer can take a large response: now, later, or never if it disconnects.

        Args:
            action: makes and sends the response.
            commands: the requests that ``action`` answers; if it fails they are answered with SYSTEM_ERROR.
        """
        if not self.closed:
            self._outbox.when_drained(partial(attempt, self, commands, action))

    def close(self) -> None:
        """Send all responses made so far, then close."""
        if not self.closed:
            self._outbox.close()
            self.closed = True

    def abort(self, reason: str) -> None:
        """Close at once, drop all unsent data, and log the reason."""
        _log.warning("closed the connection of %s at once: %s", self, reason)
        self.cut()

    def cut(self) -> None:
        """Close at once, and drop all unsent data."""
        self.closed = True
        self._outbox.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Set up the session (called by asyncio)."""
        transport = cast(asyncio.Transport, transport)  # uvloop's has its methods, but not its base class
        shared = self.shared
        self._transport = transport
        self._outbox = Outbox(transport, shared.limits, flush_soon=shared.turn.flush_soon)
        address = transport.get_extra_info("peername")
        if address is None:  # closed before it was accepted
            transport.abort()
            return
        self.born_host = pack_host(address[0], address[1])
        self.sized_born_host = sized_host(self.born_host)
        self.peer = unpack_host(self.born_host)
        shared.add(self)

    def data_received(self, data: bytes) -> None:
        """Buffer the bytes of one socket read until the end of the turn (called by asyncio)."""
        self._heard = True
        if self._frame_length:
            self.frame_heard_ms = self.shared.clock.monotonic_ms()
        self._intake.add(data)
        turn, limits = self.shared.turn, self.shared.limits
        turn.unhandled += len(data)
        if not self._waits:
            self._waits = True
            turn.add(self)
        if len(self._intake) >= limits.unhandled_max:
            self.stop_reading()
        if turn.unhandled > limits.unhandled_total_max:
            turn.stop_reading(self)

    def eof_received(self) -> None:
        """Handle all that was received: the peer sends no more (called by asyncio, which then closes)."""
        self.shared.turn.finish(self)
        if not self._reader.eof():
            self._refuse(f"it ended in the middle of a frame, after {self._reader.unfinished_size} bytes")

    def pause_writing(self) -> None:
        """Mark the peer as congested, and stop reading (called by asyncio)."""
        self._outbox.congest()
        self.stop_reading()

    def resume_writing(self) -> None:
        """Mark the peer as no longer congested, and resume reading (called by asyncio)."""
        self._heard = True
        self._outbox.drain()
        if self._intake and not self._waits:
            self._queue_again()
        self.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Clean up after the loss of the connection (called by asyncio)."""
        self.shared.turn.finish(self)
        _log.debug("the connection of %s is gone: %s", self, exc or "closed")
        self.closed = True
        self._outbox.discard()
        self.shared.unfinished.end(self)
        self.shared.remove(self)
        self._on_lost()

    def stop_reading(self) -> None:
        """Stop reading; the operating system then makes the peer wait."""
        self._is_read = False
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Resume reading, unless a limit forbids it."""
        intake, turn, limits = self._intake, self.shared.turn, self.shared.limits
        is_held_up = self.congested or self._waits_for_room or turn.is_full
        if not (intake.is_begun or len(intake) >= limits.unhandled_max or is_held_up):
            self._is_read = True
            self._transport.resume_reading()

    @property
    def has_received(self) -> bool:
        """Whether ``take_read`` has bytes to return."""
        return len(self._intake) > 0

    def take_read(self, size_max: int, *, is_last: bool = False) -> Read | None:
        """Remove and return the next received bytes; None if there is nothing to handle now.

        While the peer is congested nothing is returned, so that it gets no further responses before it has
        read the present ones; unless ``is_last`` says that no more bytes will come.
        """
        data = self._take(size_max, is_last=is_last)
        if not data:
            return None
        if self._reader.unfinished:
            data = self._reader.joined(data)
        if data and not self._is_head_known and self._is_foreign(data):
            return None
        if 0 < self._frame_length <= len(data):  # the frame is complete, so its reservation ends
            self._reserve_for_frame()
        return Read(self, data) if data else None

    def _is_foreign(self, data: bytes) -> bool:
        """Check the first bytes of the connection; close it if the peer speaks another protocol."""
        self._is_head_known = len(data) >= HEAD_SIZE
        if (name := foreign_protocol(data[:HEAD_SIZE])) is None:
            return False
        if name == THIS_IS_TLS:  # where it is on, the acceptor has recognised it
            name += ", which is off here: tlsServerMode and tlsServerCertPath switch it on"
        self._refuse(f"{name}; this server speaks RocketMQ's remoting protocol only")
        return True

    def _take(self, size_max: int, *, is_last: bool) -> bytes:
        """Remove up to ``size_max`` received bytes; the rest waits for the next turn."""
        self._waits = False
        if (self._outbox.congested or self._waits_for_room) and not is_last:
            return b""
        data = self._intake.take(size_max)
        if is_last:
            return data
        if self._intake:
            self._queue_again()
            self.stop_reading()
        elif not self._is_read:
            self.resume_reading()
        return data

    def _queue_again(self) -> None:
        """Queue the received bytes for the next turn."""
        self._waits = True
        self.shared.turn.add(self)
        self.shared.turn.unhandled += len(self._intake)

    def handle(
        self,
        read: Read,
        data: bytes,
        commands: list[Command] | None = None,
        handle: "Handle | None" = None,
    ) -> bool:
        """Handle frames as commands; close the connection if they are not frames.

        Args:
            read: the read that goes on with them; its position is moved behind them.
            data: the frames, of which the last one may be cut off.
            commands: the frames decoded, if they are already.
            handle: is called in place of the server's handler.

        Returns:
            Whether they are frames, so that what follows them can be.
        """
        self._commands_read += read.position > 0
        read.position += len(data)
        fault = ""
        if not commands:
            try:
                commands = self._reader.receive_data(data)
            except NotAFrame as error:
                commands, fault = error.commands, str(error)
        self._commands_read += len(commands)
        if commands:
            attempt(self, commands, handle or self.shared.turn.answer, self, commands)
        if fault:
            read.position = len(read.data)  # nothing after them can be decoded
            self._refuse(fault)
            return False
        if self._frame_length or self._reader.unfinished:
            self._reserve_for_frame()
        return True

    def count_refused(self) -> None:
        """Count a request that a check refused: of a newcomer, few may be."""
        self._commands_read += 1
        if self.newcomers is not None:
            self.newcomers.count_refused(self)

    def resume_frame(self) -> None:
        """Resume reading an unfinished long frame, for which memory is now reserved."""
        self._waits_for_room = False
        if self.closed:
            return
        self.frame_heard_ms = self.shared.clock.monotonic_ms()
        if self._intake and not self._waits:
            self._queue_again()
        self.resume_reading()

    def _reserve_for_frame(self) -> None:
        """Reserve memory for the unfinished long frame, if any; stop reading while there is none."""
        length = self._reader.unfinished_length
        if length < LONG_FRAME_MIN:
            length = 0
        if length == self._frame_length:
            return
        if self._frame_length:
            self.shared.unfinished.end(self)
        self._frame_length = length
        if self.newcomers and not self.closed and length > self.newcomers.limits.frame_size_max:
            self._refuse(
                f"a frame of {length} bytes, at most {self.newcomers.limits.frame_size_max} are allowed "
                "before a known user has signed a request (unsignedFrameBytesMax)"
            )
        elif length and not self.closed:
            self.frame_heard_ms = self.shared.clock.monotonic_ms()
            if not self.shared.unfinished.begin(self, length):
                self._waits_for_room = True
                self.stop_reading()

    def sweep(self, now_ms: int) -> None:
        """Close the connection if the peer has been silent, or stuck within one frame, for too long."""
        if self._heard:
            self._heard = False
            self._quiet_since_ms = now_ms
        elif now_ms - self._quiet_since_ms >= self.shared.idle_ms_max:
            self.abort(f"idle for {self.shared.idle_ms_max // 1000} s")
            return
        progress = self._commands_read - self._commands_at_sweep
        self._commands_at_sweep = self._commands_read
        ms_max, is_awaited = PARTIAL_FRAME_MS_MAX, self._reader.unfinished_size > 0
        if self.newcomers is not None:
            ms_max = self.newcomers.limits.frame_ms_max
            is_awaited |= not self._commands_read
        # While reading is stopped, for this peer's sake or that of others, no frame can be finished; and what
        # has come may finish it.
        if progress or not is_awaited or self.congested or self._waits_for_room or self._intake:
            self._stuck_since_ms = now_ms
        elif now_ms - self._stuck_since_ms >= ms_max:
            self.abort(
                f"a frame was not finished within {ms_max / 1000:g} s,"
                f" {self._reader.unfinished_size} bytes of it arrived"
            )

    def _refuse(self, cause: str) -> None:
        """Close because the peer broke the protocol; it may still read the responses made before."""
        _log.warning("closed the connection of %s: %s", self, cause)
        self._intake.clear()
        self.close()
