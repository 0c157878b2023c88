"""Connections within a process: bytes are passed from one event loop to another, without sockets.

Only clients in the same process can reach a server that listens at ``HOST``, from any event loop. No
machine has that address, which is reserved for documentation (RFC 5737), so routes, ids and records can hold
it like any other address.
"""

import asyncio
import errno
import os
from collections import deque
from collections.abc import Callable, Iterable
from itertools import cycle
from typing import Final, TypeVar

from cometmq.message import Buffer

HOST: Final = "203.0.113.1"
HIGH_WATER: Final = 1 << 16

ProtocolT = TypeVar("ProtocolT", bound=asyncio.Protocol)

_listening: "dict[int, Listener]" = {}
_ports: Final = cycle(range(1024, 65_536))
"""Assigned in turn, so that the port of a closed listener is not soon reused by another one."""


class Listener:
    """A listener that accepts connections in the event loop in which it was created."""

    def __init__(self, port: int, make_protocol: Callable[[], asyncio.Protocol]) -> None:
        self.port = port
        self.make_protocol = make_protocol
        self.loop = asyncio.get_running_loop()

    def close(self) -> None:
        """Stop accepting."""
        _listening.pop(self.port, None)

    async def wait_closed(self) -> None:
        """Return at once: connections end independently of the listener."""


def listen(port: int, make_protocol: Callable[[], asyncio.Protocol]) -> Listener:
    """Listen on a port, 0 for any free one. Raises OSError if the port is in use."""
    port = port or next(free for free in _ports if free not in _listening)
    listener = Listener(port, make_protocol)
    if _listening.setdefault(port, listener) is not listener:
        raise _os_error(errno.EADDRINUSE)
    return listener


def connect(port: int, make_protocol: Callable[[], ProtocolT]) -> ProtocolT:
    """Connect to a listener's port; return the protocol of this side. Raises OSError if nothing listens."""
    listener = _listening.get(port)
    if listener is None:
        raise _os_error(errno.ECONNREFUSED)
    here = InprocTransport(asyncio.get_running_loop(), (HOST, port))
    there = InprocTransport(listener.loop, (HOST, next(_ports)))
    here.other, there.other = there, here
    here.call_other(there.begin, listener.make_protocol)
    return here.begin(make_protocol)


class InprocTransport(asyncio.Transport):
    """One end of a connection; its methods are called in its own event loop.

    Attributes:
        other: the other end.
    """

    other: "InprocTransport"
    _protocol: asyncio.Protocol

    def __init__(self, loop: asyncio.AbstractEventLoop, peername: tuple[str, int]) -> None:
        super().__init__({"peername": peername})
        self._loop = loop
        self._arrived: deque[bytes | None] = deque()  # None marks the end of the stream
        self._is_reading = True
        self._is_closing = self._is_lost = self._is_full = False
        self._unread = 0
        self.set_write_buffer_limits()

    def begin(self, make_protocol: Callable[[], ProtocolT]) -> ProtocolT:
        """Create the protocol of this end, connect it, and return it."""
        self._protocol = protocol = make_protocol()
        protocol.connection_made(self)
        return protocol

    def call_other(self, action: Callable[..., object], *args: object) -> None:
        """Call a function in the other end's loop; if that loop is closed, the connection is lost."""
        try:
            self.other._loop.call_soon_threadsafe(action, *args)  # noqa: SLF001 - of the same class
        except RuntimeError:  # the loop is closed
            self._loop.call_soon(self._lose, _os_error(errno.ECONNRESET))

    def write(self, data: Buffer) -> None:
        """Send bytes to the other end."""
        if self._is_closing or not data:
            return
        self._unread += len(data)
        self.call_other(self.other.receive, bytes(data))
        if self._unread > self._high and not self._is_full:
            self._is_full = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        """Send several buffers, joined."""
        self.write(b"".join(list_of_data))

    def receive(self, data: bytes | None) -> None:
        """Receive bytes from the other end; None marks the end of the stream."""
        self._arrived.append(data)
        self._read()

    def acknowledge_read(self, size: int) -> None:
        """Record that the other end's protocol has read ``size`` bytes."""
        self._unread -= size
        if self._is_full and self._unread <= self._low and not self._is_lost:
            self._is_full = False
            self._protocol.resume_writing()
        if self._is_closing and not self._unread:
            self._lose(None)

    def reset(self) -> None:
        """Lose the connection, because the other end has aborted it."""
        self._lose(_os_error(errno.ECONNRESET))

    def close(self) -> None:
        """Stop writing, and end the connection once the other end has read everything."""
        if self._is_closing:
            return
        self._is_closing = True
        self.call_other(self.other.receive, None)
        if not self._unread:
            self._loop.call_soon(self._lose, None)

    def abort(self) -> None:
        """End the connection at once."""
        self._is_closing = True
        self.call_other(self.other.reset)
        self._loop.call_soon(self._lose, None)

    def is_closing(self) -> bool:
        """Return whether this end has stopped writing."""
        return self._is_closing

    def is_reading(self) -> bool:
        """Return whether received bytes are passed to the protocol."""
        return self._is_reading

    def pause_reading(self) -> None:
        """Pause reading; received bytes are buffered."""
        self._is_reading = False

    def resume_reading(self) -> None:
        """Resume reading; buffered bytes are passed to the protocol."""
        self._is_reading = True
        self._loop.call_soon(self._read)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the high and low water marks, in bytes."""
        self._high = HIGH_WATER if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes that the other end's protocol has not read yet."""
        return self._unread

    def _read(self) -> None:
        while self._arrived and (self._is_reading or self._is_lost):
            data = self._arrived.popleft()
            if data is not None:
                if not self._is_lost:
                    self._protocol.data_received(data)
                self.call_other(self.other.acknowledge_read, len(data))
            elif not self._is_lost:
                self._protocol.eof_received()
                self.close()

    def _lose(self, error: OSError | None) -> None:
        if not self._is_lost:
            self._is_closing = self._is_lost = True
            self._protocol.connection_lost(error)
            self._read()  # drops the bytes, but reports them as read to the other end


def _os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
