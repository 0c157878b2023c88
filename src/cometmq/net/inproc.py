"""Connections within a process: the same bytes, handed from one event loop to another, without sockets.

A server that listens at ``HOST`` is reached by clients of its own process only, in whatever loop they run. No
machine has that address, which is of a network for examples (RFC 5737), so routes, ids and records may hold
it as they hold any other.
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
"""In turn, so that who knows a listener that is gone does not soon find another one in its place."""


class Listener:
    """Takes connections, in the loop that it is made in."""

    def __init__(self, port: int, make_protocol: Callable[[], asyncio.Protocol]) -> None:
        self.port = port
        self.make_protocol = make_protocol
        self.loop = asyncio.get_running_loop()

    def close(self) -> None:
        """Take no more."""
        _listening.pop(self.port, None)

    async def wait_closed(self) -> None:
        """Nothing to wait for: connections end by themselves."""


def listen(port: int, make_protocol: Callable[[], asyncio.Protocol]) -> Listener:
    """Listen at a port, 0 for any free one. Raises OSError if somebody does so already."""
    port = port or next(free for free in _ports if free not in _listening)
    listener = Listener(port, make_protocol)
    if _listening.setdefault(port, listener) is not listener:
        raise _os_error(errno.EADDRINUSE)
    return listener


def connect(port: int, make_protocol: Callable[[], ProtocolT]) -> ProtocolT:
    """Connect to who listens at a port, and give the protocol of this side. Raises OSError if nobody does."""
    listener = _listening.get(port)
    if listener is None:
        raise _os_error(errno.ECONNREFUSED)
    here = End(asyncio.get_running_loop(), (HOST, port))
    there = End(listener.loop, (HOST, next(_ports)))
    here.other, there.other = there, here
    here.tell(there.begin, listener.make_protocol)
    return here.begin(make_protocol)


class End(asyncio.Transport):
    """One end of a connection; all of it is called in its own loop.

    Attributes:
        other: the other end.
    """

    other: "End"
    _protocol: asyncio.Protocol

    def __init__(self, loop: asyncio.AbstractEventLoop, peername: tuple[str, int]) -> None:
        super().__init__({"peername": peername})
        self._loop = loop
        self._arrived: deque[bytes | None] = deque()  # None is the end
        self._is_reading = True
        self._is_closing = self._is_lost = self._is_full = False
        self._unread = 0
        self.set_write_buffer_limits()

    def begin(self, make_protocol: Callable[[], ProtocolT]) -> ProtocolT:
        """Let a protocol have this end, and give it."""
        self._protocol = protocol = make_protocol()
        protocol.connection_made(self)
        return protocol

    def tell(self, action: Callable[..., object], *args: object) -> None:
        """Do something in the other end's loop; if that is gone, so is the connection."""
        try:
            self.other._loop.call_soon_threadsafe(action, *args)  # noqa: SLF001 - of the same class
        except RuntimeError:  # the loop is closed
            self._loop.call_soon(self._lose, _os_error(errno.ECONNRESET))

    def write(self, data: Buffer) -> None:
        """Hand bytes to the other end."""
        if self._is_closing or not data:
            return
        self._unread += len(data)
        self.tell(self.other.arrive, bytes(data))
        if self._unread > self._high and not self._is_full:
            self._is_full = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        """Hand over buffers, one behind the other."""
        self.write(b"".join(list_of_data))

    def arrive(self, data: bytes | None) -> None:
        """Take what the other end wrote; None if that was all."""
        self._arrived.append(data)
        self._read()

    def was_read(self, size: int) -> None:
        """Note that the other end has let its protocol have so much."""
        self._unread -= size
        if self._is_full and self._unread <= self._low and not self._is_lost:
            self._is_full = False
            self._protocol.resume_writing()
        if self._is_closing and not self._unread:
            self._lose(None)

    def reset(self) -> None:
        """Note that the other end has cut the connection."""
        self._lose(_os_error(errno.ECONNRESET))

    def close(self) -> None:
        """Write no more, and end once the other end has read all."""
        if self._is_closing:
            return
        self._is_closing = True
        self.tell(self.other.arrive, None)
        if not self._unread:
            self._loop.call_soon(self._lose, None)

    def abort(self) -> None:
        """End at once."""
        self._is_closing = True
        self.tell(self.other.reset)
        self._loop.call_soon(self._lose, None)

    def is_closing(self) -> bool:
        """Tell whether this end writes no more."""
        return self._is_closing

    def is_reading(self) -> bool:
        """Tell whether the protocol is given what arrives."""
        return self._is_reading

    def pause_reading(self) -> None:
        """Let what arrives wait."""
        self._is_reading = False

    def resume_reading(self) -> None:
        """Give the protocol what has arrived."""
        self._is_reading = True
        self._loop.call_soon(self._read)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Say above how many unread bytes the protocol is to pause, and below how many to go on."""
        self._high = HIGH_WATER if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        """Give how many bytes the other end's protocol has not had yet."""
        return self._unread

    def _read(self) -> None:
        while self._arrived and (self._is_reading or self._is_lost):
            data = self._arrived.popleft()
            if data is not None:
                if not self._is_lost:
                    self._protocol.data_received(data)
                self.tell(self.other.was_read, len(data))
            elif not self._is_lost:
                self._protocol.eof_received()
                self.close()

    def _lose(self, error: OSError | None) -> None:
        if not self._is_lost:
            self._is_closing = self._is_lost = True
            self._protocol.connection_lost(error)
            self._read()  # nobody wants it, but the other end counts on it


def _os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
