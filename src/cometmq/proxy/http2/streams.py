"""The stream of a call: bytes of its requests that wait to be read, of its answers that wait to be sent.

A stream can be sent as much as its own window, that of its connection, and the socket take. Streams that wait
for one of the latter two wait in a queue: each wakes the next when it has sent what it could.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast

from grpclib.exceptions import StreamTerminatedError
from grpclib.protocol import Connection, Stream
from h2.exceptions import StreamClosedError

from cometmq.proxy.http2.frames import Http2
from cometmq.proxy.http2.unread import Requester
from cometmq.proxy.http2.unsent import Recipient

FRAME_BYTES_MAX: Final = 1 << 16
"""Longest frame of an answer, whatever the client allows."""


class RequestBytes:
    """The bytes of a call's requests that have come and are not read.

    Their sender may send as many more as are acknowledged. That is what was read, and of a request that is
    awaited all that has come.

    Args:
        connection: where bytes are acknowledged.
        stream_id: the stream's number.
        requester: counts what is neither read nor awaited.
    """

    def __init__(self, connection: Connection, stream_id: int, requester: Requester) -> None:
        self._connection = connection
        self._requester = requester
        self._stream_id = stream_id
        self._data = bytearray()
        self._acknowledged = 0  # of the data, so many bytes from the beginning
        self._is_complete = False
        self._is_read = False  # whether nobody will read what comes from now on
        self._dropped = 0  # bytes of that
        self._arrival: asyncio.Future[None] | None = None

    def add(self, data: bytes, ack_size: int) -> None:
        """Add bytes that have come; with their padding they took ``ack_size`` of the window."""
        if padding := ack_size - len(data):
            self._connection.ack(self._stream_id, padding)
        if self._is_read:
            self._dropped += len(data)
            return
        self._data += data
        self._requester.add(len(data))
        self._wake()

    def eof(self) -> None:
        """End the requests."""
        self._is_complete = True
        self._wake()

    async def peek(self, size: int) -> bytes:
        """Return the next bytes, which can be read again; fewer if no more come."""
        while len(self._data) < size and not self._is_complete:
            await self._more()
        return bytes(self._data[:size])

    async def read(
        self, size: int, skipped: int = 0, take_room: Callable[[int], None] | None = None
    ) -> bytes:
        """Return the next bytes after some that are skipped; fewer if no more come.

        Args:
            take_room: called with how many have come while they are not all; raises if they are too many.
        """
        while len(self._data) < skipped + size and not self._is_complete:
            if take_room is not None:
                take_room(len(self._data))
            await self._more()
        end = min(skipped + size, len(self._data))
        data = bytes(memoryview(self._data)[skipped:end])
        if end > self._acknowledged:
            self._acknowledge(end - self._acknowledged)
        self._acknowledged -= end
        del self._data[:end]
        return data

    def drop_rest(self) -> None:
        """Keep nothing that comes from now on: nobody will read it.

        It is not acknowledged before the call has ended, so little of it comes.
        """
        self._dropped = self.unacked_size()
        self._is_read = True

    async def end(self) -> None:
        """Drop what has come and what comes, and wait for the end of the requests."""
        self.drop_rest()
        while not self._is_complete:
            await self._more()

    def unacked_size(self) -> int:
        """Drop what nobody will read; return how much of it is not acknowledged."""
        unread, dropped = len(self._data) - self._acknowledged, self._dropped
        self._requester.remove(unread)
        self._data.clear()
        self._acknowledged = self._dropped = 0
        return unread + dropped

    async def _more(self) -> None:
        """Wait for more bytes."""
        if unread := len(self._data) - self._acknowledged:
            self._acknowledge(unread)
        self._arrival = asyncio.get_running_loop().create_future()
        await self._arrival

    def _acknowledge(self, size: int) -> None:
        self._acknowledged += size
        self._requester.remove(size)
        self._connection.ack(self._stream_id, size)

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)


class Outlet:
    """The answers of a connection that wait until it can be sent more.

    Args:
        recipient: counts what waits.
    """

    def __init__(self, recipient: Recipient) -> None:
        self.recipient = recipient
        self._waiting: dict[asyncio.Future[None], None] = {}  # who waits longest first

    async def turn(self) -> None:
        """Wait until woken: the connection may be sent more, or is closed."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting[turn] = None
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.wake()  # another one, in its place
            raise
        finally:
            self._waiting.pop(turn, None)

    def wake(self) -> None:
        """Wake the one that waits longest."""
        while self._waiting:
            turn = next(iter(self._waiting))
            del self._waiting[turn]
            if not turn.done():
                turn.set_result(None)
                return

    def close(self) -> None:
        """Wake all: the connection is closed."""
        while self._waiting:
            self.wake()


class CallStream(Stream):
    """The stream of a call.

    Args:
        connection: grpclib's side of its connection.
        http2: h2's side.
        transport: the socket.
        outlet: where answers wait.
        requester: counts what is not read of its requests.
        stream_id: the stream's number.
    """

    def __init__(
        self,
        connection: Connection,
        http2: Http2,
        transport: asyncio.Transport,
        outlet: Outlet,
        requester: Requester,
        stream_id: int,
    ) -> None:
        self._requester = requester
        super().__init__(connection, http2, transport, stream_id=stream_id)
        self._http2 = http2
        self._outlet = outlet
        self._end_reason = ""

    def init_stream(self, stream_id: int, connection: Connection) -> None:
        """Begin with no bytes (called by grpclib)."""
        self.id = stream_id
        own = RequestBytes(connection, stream_id, self._requester)
        self.buffer = cast(Any, own)  # in the place of grpclib's

    @property
    def request(self) -> RequestBytes:
        """The bytes of its requests."""
        return cast(RequestBytes, self.buffer)

    @property
    def recipient(self) -> Recipient:
        """Counts what its connection has not read."""
        return self._outlet.recipient

    async def send_headers(self, headers: list[tuple[str, str]], end_stream: bool = False) -> None:
        """Send headers: those before an answer at once, as it is counted only when it waits itself.

        Raises StreamClosedError, or another of h2's ProtocolErrors, if the stream has ended.
        """
        if end_stream:
            await super().send_headers(headers, end_stream)
            return
        stream_id = cast(int, self.id)
        if stream_id not in self._http2.streams:  # h2 would begin it
            raise StreamClosedError(stream_id)
        self._http2.send_headers(stream_id, headers)
        self._transport.write(self._http2.data_to_send())

    async def send_data(self, data: bytes, end_stream: bool = False) -> None:
        """Send an answer; waits while the client, or the socket, takes no more.

        Raises StreamTerminatedError or h2's ProtocolError if the stream has ended.
        """
        rest = self._send_now(memoryview(data), end_stream=end_stream)
        if not rest:
            return
        held = self.recipient.hold(len(rest))
        try:
            while rest:
                await self._sendable()
                rest = self._send_now(rest, end_stream=end_stream)
                if self._http2.outbound_flow_control_window > 0 and self.connection.write_ready.is_set():
                    self._outlet.wake()
        finally:
            self.recipient.release(held)

    def __terminated__(self, reason: str) -> None:
        """Wake who sends an answer: the stream has ended (called by grpclib)."""
        self._end_reason = reason
        self.window_updated.set()

    def _send_now(self, rest: memoryview, *, end_stream: bool) -> memoryview:
        """Send what can be sent now; return what is left."""
        if self._end_reason:
            raise StreamTerminatedError(self._end_reason)
        http2, stream_id = self._http2, cast(int, self.id)
        while rest and self.connection.write_ready.is_set():
            window = http2.local_flow_control_window(stream_id)
            if window <= 0:
                break
            size = min(window, http2.max_outbound_frame_size, FRAME_BYTES_MAX, len(rest))
            http2.send_data(stream_id, rest[:size], end_stream and size == len(rest))
            rest = rest[size:]
            self._transport.write(http2.data_to_send())
        return rest

    async def _sendable(self) -> None:
        """Wait until more can be sent, or the stream has ended."""
        own = self._http2.streams.get(cast(int, self.id))
        if own is not None and own.outbound_flow_control_window <= 0:
            self.window_updated.clear()
            await self.window_updated.wait()
        else:
            await self._outlet.turn()
