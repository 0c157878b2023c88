"""Connections of browsers: how many there may be, and how long each may keep the console waiting.

::

           ┌──── accepted ◄─────────────────────────────────┐
           ▼                                                │
    waits for its peer ─► the whole request has come ─► its answer is made, and taken
           │                          ▲                     │
           ├► too late, or the oldest │ of too many         ▼
           ▼                          └──────────── waits for its peer: it does not read
         closed

A connection that waits for its peer is one of a crowd (``net.newcomers``), visitors' as well as strangers':
what it waits for, a whole request or that an answer is read, has to come in its time. So nobody keeps others
out by connections that cost nothing. uvicorn itself only limits how long a connection may wait for its next
request to begin, and by ``limit_concurrency`` answers everybody 503 when there are too many.
"""

import asyncio
from collections.abc import Callable
from typing import Final, cast

import h11
from uvicorn import Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from cometmq.console.settings import ConnectionLimits
from cometmq.logs import get_logger
from cometmq.net.address import address_text
from cometmq.net.newcomers import Crowd
from cometmq.net.occasional_log import OccasionalLog

READ_BYTES_MIN: Final = 64 * 1024
"""How much of an answer a peer has to read in each time that a request may take."""

PIECE_BYTES: Final = 4 * 1024
"""How much of what has come is read before it is looked at."""

_UNFINISHED: Final = (h11.IDLE, h11.SEND_BODY)
"""The states of a peer that has not sent a whole request."""

_log = get_logger(__name__)
_faults = get_logger(f"{__name__}.faults")
_faults.setLevel("ERROR")  # uvicorn warns of each request that it cannot read


class WaitingConnections:
    """The connections that wait for their peers.

    Attributes:
        timeout_s: how long each may wait.
        crowd: the same by address.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self.timeout_s = limits.request_ms_max / 1000
        lack = "no whole request had come on them, or the answer was not read"
        self.crowd = Crowd(limits.waiting_max, lack, " (--waiting-max)")
        self._late_log = OccasionalLog(self._log_late)
        self._illegal_log = OccasionalLog(self._log_illegal)
        self._last_illegal = ("", 0)

    def count_late(self) -> None:
        """Count a connection that was closed because it waited too long."""
        self._late_log.add()

    def count_illegal(self, peer: tuple[str, int]) -> None:
        """Count a request that is no HTTP."""
        self._last_illegal = peer
        self._illegal_log.add()

    def close(self) -> None:
        """Log what is not logged yet."""
        self.crowd.close()
        self._late_log.close()
        self._illegal_log.close()

    def _log_late(self, count: int) -> None:
        _log.info(
            "closed %d connections: no whole request came on them in %g s, or fewer than %d bytes of an "
            "answer were read (--request-timeout)",
            count,
            self.timeout_s,
            READ_BYTES_MIN,
        )

    def _log_illegal(self, count: int) -> None:
        last = address_text(*self._last_illegal)
        _log.info("refused %d requests that are no HTTP, the last one of %s", count, last)


class BrowserConnection(H11Protocol):
    """A browser's connection.

    Args:
        server: serves its requests.
        waiting: where it is while it waits for its peer.
        release: called when it is lost.

    Attributes:
        peer: the peer's IP address and port.
    """

    def __init__(self, server: Server, waiting: WaitingConnections, release: Callable[[], None]) -> None:
        super().__init__(server.config, server.server_state, {})
        self.logger = _faults
        self.peer = ("", 0)
        self._waiting = waiting
        self._release = release
        self._deadline: asyncio.TimerHandle | None = None  # while it waits
        self._is_unread = False
        self._unread_bytes = 0
        self._rest = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve (called by asyncio)."""
        super().connection_made(cast(asyncio.Transport, transport))
        self.peer = self.client or self.peer
        self._look()

    def data_received(self, data: bytes) -> None:
        """Handle what has come (called by asyncio)."""
        self._rest += data
        self._read()

    def pause_writing(self) -> None:
        """Wait until the peer reads (called by asyncio)."""
        super().pause_writing()
        self._is_unread = True
        self._look()

    def resume_writing(self) -> None:
        """Write again: the peer has read (called by asyncio)."""
        super().resume_writing()
        self._is_unread = False
        self._look()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, or in chunks, and close the connection (called by uvicorn, too)."""
        self._waiting.count_illegal(self.peer)
        if self.cycle is not None:  # nothing more is read of its request, and none of its answer sent
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            if self.cycle.scope["method"] == "HEAD":
                msg = ""
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            super().send_400_response(msg)
        else:
            self.transport.close()

    def on_response_complete(self) -> None:
        """Wait for the next request, or that the rest of the answer is read (called by uvicorn)."""
        super().on_response_complete()
        self._read()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release its place (called by asyncio)."""
        self._wait_no_more()
        self._release()
        super().connection_lost(exc)

    def cut(self) -> None:
        """Close it at once."""
        self._wait_no_more()
        self.transport.abort()

    def _read(self) -> None:
        """Read what has come, a piece at a time, up to the end of a request that is not answered yet."""
        while self._rest and not self.transport.is_closing():
            if self.conn.their_state is h11.DONE:
                self.flow.pause_reading()
                break
            piece = bytes(self._rest[:PIECE_BYTES])
            del self._rest[:PIECE_BYTES]
            super().data_received(piece)
            if self._is_chunked():  # a chunk can be a byte; browsers say how long a form is
                self.send_400_response("a request has a Content-Length here, and no chunks")
        self._look()

    def _is_chunked(self) -> bool:
        """Return whether a request is arriving in chunks, each of which costs as much as a form."""
        if self.conn.their_state is not h11.SEND_BODY:
            return False
        return any(name == b"transfer-encoding" for name, _ in self.headers)

    def _look(self) -> None:
        """Begin or end to wait for the peer."""
        is_peers_turn = self._is_unread or self.transport.is_closing() or self.conn.their_state in _UNFINISHED
        if not is_peers_turn:
            self._wait_no_more()
        elif self._deadline is None:
            self._waiting.crowd.add(self)
            self._set_deadline()

    def _set_deadline(self) -> None:
        self._unread_bytes = self.transport.get_write_buffer_size()
        self._deadline = self.loop.call_later(self._waiting.timeout_s, self._end_wait)

    def _end_wait(self) -> None:
        """Close it, unless its peer reads an answer fast enough."""
        if self._unread_bytes - self.transport.get_write_buffer_size() >= READ_BYTES_MIN:
            self._set_deadline()
            return
        self._waiting.count_late()
        self.cut()

    def _wait_no_more(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
            self._waiting.crowd.remove(self)
