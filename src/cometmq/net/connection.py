"""One connection to a server: send requests, match responses to them, and receive the server's own requests.

Everything sent during one turn of the event loop leaves in one transport write, so a thousand
concurrent requests cost one system call.
"""

import asyncio
import math
import os
import ssl
from collections.abc import Callable
from typing import Final, cast

import msgspec

from cometmq.errors import NetworkError, RequestTimeout, TLSError, WrongProtocol
from cometmq.logs import get_logger
from cometmq.message import Buffer
from cometmq.net import inproc, min_timeouts
from cometmq.net.address import parse_address
from cometmq.net.boundary import attempt
from cometmq.net.flow import Outbox
from cometmq.net.probe import protocol_at
from cometmq.net.tls.client import TLS, trouble_of
from cometmq.wire.acl import Credentials
from cometmq.wire.client_request import ClientRequest, encode_request
from cometmq.wire.codes import ResponseCode
from cometmq.wire.connection import FrameReader, NotAFrame
from cometmq.wire.foreign import HEAD_SIZE, THIS_IS_TLS, foreign_protocol
from cometmq.wire.frame import (
    ONEWAY_FLAG,
    RESPONSE_FLAG,
    RESPONSE_HEADER_LENGTH_MAX,
    Command,
    encode,
    response,
)

CONNECT_TIMEOUT_MS: Final = 3_000
REQUEST_TIMEOUT_MS: Final = 3_000
CLOSE_MS_MAX: Final = 1_000
"""How long ``close`` waits for the server to read what was sent, in ms."""
UNREAD_S_MAX: Final = 30.0
"""How long a server may read nothing while data waits for it, in seconds: a frozen server never would."""
OPAQUE_MAX: Final = 0x7FFF_FFFF
_NO_HANDSHAKE: Final = (
    "it closed the connection during the TLS handshake: it does not speak TLS there (tlsServerMode), or does "
    "not accept this client's certificate"
)
_SILENT_ENDS: Final = {
    False: "the server is stopping, or accepts TLS only, or it is not a name server or broker",
    True: "the server is stopping, or does not accept this client's certificate",
}
"""Why a server may close a connection without an answer, by whether that is TLS."""

_log = get_logger(__name__)


def refuse_request(connection: "Connection", command: Command) -> None:
    """Answer a server's request with REQUEST_CODE_NOT_SUPPORTED."""
    if not command.is_oneway:
        remark = f" request type {command.code} not supported"
        connection.send(response(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark))


class Connection(asyncio.Protocol):
    """One connection to a server.

    Deadlines need no timer per request: one timer waits for the earliest deadline, and checks all
    pending requests when it fires.

    Args:
        address: the server's address, for errors and logs.
        on_request: called with each request of the server (codes 39, 40, …); it answers by ``send``.
        credentials: sign the requests; the responses to the server's own are not signed.

    Attributes:
        closed: the connection is lost or was closed: no request can be made.
        is_full: the server has left so much unread that callers should wait for ``drained``.
    """

    def __init__(
        self,
        address: str,
        on_request: Callable[["Connection", Command], None] = refuse_request,
        credentials: Credentials | None = None,
    ) -> None:
        self.address = address
        self.closed = False
        self.is_full = False
        self._on_request = on_request
        self._credentials = credentials
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader(RESPONSE_HEADER_LENGTH_MAX)
        self._opaque = 0
        self._pending: dict[int, _PendingRequest] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf
        self._heard_at = -math.inf
        self._head: bytes | None = b""  # the first bytes received, until the first complete frame
        self._room = asyncio.Event()
        self._stall: asyncio.TimerHandle | None = None
        self._lost = asyncio.Event()
        self._probing: asyncio.Task[None] | None = None

    def __str__(self) -> str:
        return self.address

    @classmethod
    async def open(
        cls,
        address: str,
        on_request: Callable[["Connection", Command], None] = refuse_request,
        timeout_ms: int = CONNECT_TIMEOUT_MS,
        credentials: Credentials | None = None,
        tls: TLS | None = None,
    ) -> "Connection":
        """Connect to a server, by TLS if that is given; for ``inproc.HOST`` to one in this process, plainly.

        Raises:
            SettingsError: ``address`` is not an address, or a file of ``tls`` cannot be used.
            NetworkError: no server accepts there, or not within ``timeout_ms``.
            TLSError: it speaks no TLS, or one side does not accept the other's certificate.
        """
        host, port = parse_address(address)
        loop = asyncio.get_running_loop()

        def make() -> "Connection":
            return cls(address, on_request, credentials)

        try:
            if host == inproc.HOST:
                return inproc.connect(port, make)
            async with asyncio.timeout(max(timeout_ms / 1000, min_timeouts.min_timeout_s(address))):
                context = None if tls is None else tls.context()
                _, connection = await loop.create_connection(make, host, port, ssl=context)
        except TimeoutError as error:
            raise NetworkError(f"no connection to {address} within {timeout_ms} ms") from error
        except ssl.SSLError as error:
            raise TLSError(f"no connection to {address}: {trouble_of(error)}") from error
        except OSError as error:
            is_handshake = tls is not None and isinstance(error, ConnectionResetError)
            reason = _NO_HANDSHAKE if is_handshake else _reason(error)
            raise NetworkError(f"no connection to {address}: {reason}") from error
        except ValueError as error:  # no host name: it is too long, or has a null byte
            raise NetworkError(f"no connection to {address}: {error}") from error
        return connection

    def request(
        self, command: ClientRequest, timeout_ms: int = REQUEST_TIMEOUT_MS
    ) -> "asyncio.Future[Command]":
        """Send a request with a new opaque number; the future returns the response, whatever its code.

        Raises:
            NetworkError: the connection is closed (at once), or is lost before the response (future).
            RequestTimeout: no response came within ``timeout_ms`` (future).
            ProtocolError: the command cannot be encoded.
        """
        self._opaque = opaque = self._opaque + 1 & OPAQUE_MAX
        self._put(encode_request(command, opaque, 0, self._credentials))
        answer: asyncio.Future[Command] = self._loop.create_future()
        deadline = self._loop.time() + timeout_ms / 1000
        self._pending[opaque] = _PendingRequest(answer, deadline, timeout_ms)
        if deadline < self._timer_at:
            self._set_timer(deadline)
        return answer

    def oneway(self, command: ClientRequest) -> None:
        """Send a one-way request. Raises NetworkError if the connection is closed."""
        self._opaque = self._opaque + 1 & OPAQUE_MAX
        self._put(encode_request(command, self._opaque, ONEWAY_FLAG, self._credentials))

    def send(self, data: Buffer | Command) -> None:
        """Send the response to a server's request soon; it is dropped if the connection is closed."""
        if not self.closed:
            self._put(encode(data) if isinstance(data, Command) else data)

    async def drained(self) -> None:
        """Wait while the server has left so much unread that more would only fill our memory.

        If the server reads nothing for 30 s, the connection is closed.
        """
        while self.is_full:  # other waiters may have filled it again
            await self._room.wait()

    async def close(self) -> None:
        """Send the waiting data, then close; pending requests fail with NetworkError."""
        if not self.closed:
            self._end("closed here")
            self._outbox.close()
        try:
            async with asyncio.timeout(CLOSE_MS_MAX / 1000):
                await self._lost.wait()
        except TimeoutError:
            self._outbox.abort()
            await self._lost.wait()

    def abort(self, reason: str | NetworkError) -> None:
        """Close at once; pending requests fail with NetworkError, or with the error passed as the reason."""
        if not self.closed:
            self._end(reason)
            self._outbox.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Set up the connection (called by asyncio)."""
        transport = cast(asyncio.Transport, transport)  # uvloop's has its methods, but not its base class
        self._outbox = Outbox(transport)
        self._is_tls = transport.get_extra_info("sslcontext") is not None

    def data_received(self, data: bytes) -> None:
        """Process the bytes of one socket read (called by asyncio)."""
        self._heard_at = self._loop.time()
        if self._head is not None and self._is_foreign(data):
            return
        fault = ""
        try:
            commands = self._reader.receive_data(data)
        except NotAFrame as error:
            commands, fault = error.commands, str(error)
        if commands:
            self._head = None
        self._outbox.cork()
        pending = self._pending
        for command in commands:
            if not command.flag & RESPONSE_FLAG:
                attempt(self, (command,), self._on_request, self, command)
            elif (waiting := pending.pop(command.opaque, None)) and not waiting.answer.done():
                waiting.answer.set_result(command)
        self._outbox.flush()
        if fault:
            self.abort(fault)

    def pause_writing(self) -> None:
        """Mark the connection as full: the server reads too slowly (called by asyncio)."""
        self._outbox.congest()
        self.is_full = not self.closed
        self._room.clear()
        if self.is_full:
            self._expect_less_than(self._outbox.unsent)

    def resume_writing(self) -> None:
        """Mark the connection as drained (called by asyncio)."""
        self._outbox.drain()
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Clean up after the loss of the connection (called by asyncio)."""
        reason = trouble_of(exc) if isinstance(exc, ssl.SSLError) else str(exc or "closed by the server")
        is_silent = self._head is not None and not self._head
        if is_silent and isinstance(exc, ssl.SSLError):
            self._end(TLSError(f"lost {self.address}: {reason}"))
        elif is_silent:
            self._end(f"{reason}, without an answer: {_SILENT_ENDS[self._is_tls]}")
        else:
            self._end(reason)
        self._outbox.discard()
        self._lost.set()

    def _put(self, data: Buffer) -> None:
        if self.closed:
            raise NetworkError(f"the connection to {self.address} is closed")
        if not self._outbox.put(data):
            raise NetworkError(f"{self.address} has left {self._outbox.unsent} bytes unread")

    def _is_foreign(self, data: bytes) -> bool:
        """Check the first received bytes; close the connection if they are those of another protocol."""
        assert self._head is not None
        self._head = (self._head + data[:HEAD_SIZE])[:HEAD_SIZE]
        if (name := foreign_protocol(self._head)) is None:
            return False
        self.abort(self._wrong_protocol(name))
        return True

    def _wrong_protocol(self, name: str) -> WrongProtocol:
        remedy = "connect by TLS (tls=True, --tls) if it is RocketMQ's, or " if name == THIS_IS_TLS else ""
        return WrongProtocol(
            f"no server of RocketMQ listens at {self.address}: {name}; {remedy}give the address of a name "
            "server, whose port is 9876 by default, or of a broker, 10911"
        )

    def _end(self, reason: str | NetworkError) -> None:
        """Mark the connection as closed, and fail all pending requests."""
        if self.closed:
            return
        _log.debug("the connection to %s is gone: %s", self.address, reason)
        self.closed = True
        self._make_room()
        if self._timer is not None:
            self._timer.cancel()
        for waiting in self._pending.values():
            if not waiting.answer.done():
                error = NetworkError(f"lost {self.address}: {reason}") if isinstance(reason, str) else reason
                waiting.answer.set_exception(error)
                waiting.answer.exception()  # who waits gets it; else asyncio would log that nobody did
        self._pending.clear()

    def _expect_less_than(self, unsent: int) -> None:
        """Close the connection if the server has read nothing when the time is up, even without requests."""
        self._stall = self._loop.call_later(UNREAD_S_MAX, self._look_for_progress, unsent)

    def _look_for_progress(self, unsent: int) -> None:
        if self._outbox.unsent < unsent:
            self._expect_less_than(self._outbox.unsent)
        else:
            self.abort(f"it has read nothing for {UNREAD_S_MAX:g} s")

    @property
    def _silence(self) -> str:
        """The addition to an error if nothing was ever received from the server."""
        if self._heard_at > -math.inf:
            return ""
        return ": it accepts connections but sends nothing, so it hangs, or is not a name server or broker"

    def _make_room(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
        self.is_full = False
        self._room.set()

    def _set_timer(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._loop.call_at(deadline, self._expire)

    def _extend_deadlines(self, now: float) -> None:
        """Extend the deadlines of requests to an address with a minimum timeout (``min_timeouts``)."""
        if not (min_timeout_s := min_timeouts.min_timeout_s(self.address)):
            return
        for waiting in self._pending.values():
            later = waiting.deadline - waiting.timeout_ms / 1000 + min_timeout_s
            if waiting.deadline <= now < later:
                waiting.deadline, waiting.timeout_ms = later, round(min_timeout_s * 1000)

    def _expire(self) -> None:
        """Fail the requests whose deadline has passed, and set the timer for the earliest of the others."""
        now = max(self._loop.time(), self._timer_at)  # the timer may fire early by the clock's resolution
        self._extend_deadlines(now)
        expired = [(opaque, waiting) for opaque, waiting in self._pending.items() if waiting.deadline <= now]
        for opaque, _ in expired:
            del self._pending[opaque]
        self._end_late([waiting for _, waiting in expired])
        self._timer_at = math.inf
        if self._pending:
            self._set_timer(min(waiting.deadline for waiting in self._pending.values()))
        if any(self._heard_at < waiting.deadline - waiting.timeout_ms / 1000 for _, waiting in expired):
            self.abort("it answers no request at all")  # the next request opens a new connection

    def _end_late(self, late: list["_PendingRequest"]) -> None:
        """Fail requests whose deadline has passed; if nothing was ever received, probe the server first."""
        host, port = parse_address(self.address)
        if self._heard_at > -math.inf or not late or host == inproc.HOST:
            self._fail_late(late, None)
            return

        async def ask() -> None:
            name = None
            try:
                name = await protocol_at(host, port)
            finally:
                self._fail_late(late, name)

        self._probing = self._loop.create_task(ask(), name=f"probe {self.address}")

    def _fail_late(self, late: list["_PendingRequest"], name: str | None) -> None:
        for waiting in late:
            if not waiting.answer.done():
                text = f"no answer from {self.address} within {waiting.timeout_ms} ms{self._silence}"
                waiting.answer.set_exception(self._wrong_protocol(name) if name else RequestTimeout(text))


def _reason(error: OSError) -> str:
    """Return why connecting failed, in the system's words: asyncio's text repeats the address."""
    if error.errno is not None and error.errno > 0:  # other numbers come from name look-ups
        return os.strerror(error.errno)
    return error.strerror or str(error)


class _PendingRequest(msgspec.Struct):
    """A request that waits for its response."""

    answer: "asyncio.Future[Command]"
    deadline: float
    timeout_ms: int
