"""One connection to a server: requests out, answers matched to them, and what the server asks by itself.

All that is sent during one turn of the event loop leaves in one transport write, so a thousand
concurrent requests cost one system call.
"""

import asyncio
import logging
import math
import os
from collections.abc import Callable
from typing import Final, cast

import msgspec

from cometmq.errors import NetworkError, ProtocolError, RequestTimeout, WrongProtocol
from cometmq.message import Buffer
from cometmq.net import inproc, patience
from cometmq.net.address import parse_address
from cometmq.net.boundary import attempt
from cometmq.net.flow import Outbox
from cometmq.wire.codes import ResponseCode
from cometmq.wire.connection import FrameReader
from cometmq.wire.foreign import HEAD_SIZE, foreign_protocol
from cometmq.wire.frame import ONEWAY_FLAG, RESPONSE_FLAG, Command, encode, response
from cometmq.wire.send_request import SendRequest, encode_request

CONNECT_TIMEOUT_MS: Final = 3_000
REQUEST_TIMEOUT_MS: Final = 3_000
CLOSE_MS_MAX: Final = 1_000
"""How long ``close`` lets a server take what was sent."""
UNREAD_S_MAX: Final = 30.0
"""How long a server may read nothing at all of what waits for it: a frozen one never would."""
OPAQUE_MAX: Final = 0x7FFF_FFFF

_log = logging.getLogger(__name__)


def refuse_request(connection: "Connection", command: Command) -> None:
    """Answer a server's request as one that is not known here."""
    if not command.is_oneway:
        remark = f" request type {command.code} not supported"
        connection.send(response(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark))


class Connection(asyncio.Protocol):
    """One connection to a server.

    Deadlines need no timer per request: one timer waits for the earliest of them, and looks through
    all that is pending when it fires.

    Args:
        address: what the server is called in errors and logs.
        on_request: takes what the server asks or tells (codes 39, 40, …); answers go through ``send``.

    Attributes:
        closed: the connection is lost or was closed: no request can be made.
        is_full: the server leaves so much unread that one should wait until it is ``drained``.
    """

    def __init__(
        self, address: str, on_request: Callable[["Connection", Command], None] = refuse_request
    ) -> None:
        self.address = address
        self.closed = False
        self.is_full = False
        self._on_request = on_request
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader()
        self._opaque = 0
        self._pending: dict[int, _Waiting] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf
        self._heard_at = -math.inf
        self._head: bytes | None = b""  # what came before the first whole frame: it may be none
        self._room = asyncio.Event()
        self._stall: asyncio.TimerHandle | None = None
        self._lost = asyncio.Event()

    def __str__(self) -> str:
        return self.address

    @classmethod
    async def open(
        cls,
        address: str,
        on_request: Callable[["Connection", Command], None] = refuse_request,
        timeout_ms: int = CONNECT_TIMEOUT_MS,
    ) -> "Connection":
        """Connect; to an address of ``inproc.HOST`` within this process.

        Raises:
            SettingsError: ``address`` is no address.
            NetworkError: nobody answers there, or not within ``timeout_ms``.
        """
        host, port = parse_address(address)
        loop = asyncio.get_running_loop()
        try:
            if host == inproc.HOST:
                return inproc.connect(port, lambda: cls(address, on_request))
            async with asyncio.timeout(max(timeout_ms / 1000, patience.least_s(address))):
                _, connection = await loop.create_connection(lambda: cls(address, on_request), host, port)
        except TimeoutError as error:
            raise NetworkError(f"no connection to {address} within {timeout_ms} ms") from error
        except OSError as error:
            raise NetworkError(f"no connection to {address}: {_reason(error)}") from error
        except UnicodeError as error:  # no name of a host is written so
            raise NetworkError(f"no connection to {address}: {error}") from error
        return connection

    def request(
        self, command: Command | SendRequest, timeout_ms: int = REQUEST_TIMEOUT_MS
    ) -> "asyncio.Future[Command]":
        """Send a request; its opaque number is set here. The future gives the answer, whatever its code.

        Raises:
            NetworkError: the connection is closed (at once), or is lost before the answer (future).
            RequestTimeout: no answer within ``timeout_ms`` (future).
            ProtocolError: the command cannot be encoded.
        """
        self._opaque = opaque = self._opaque + 1 & OPAQUE_MAX
        self._put(encode_request(command, opaque))
        answer: asyncio.Future[Command] = self._loop.create_future()
        deadline = self._loop.time() + timeout_ms / 1000
        self._pending[opaque] = _Waiting(answer, deadline, timeout_ms)
        if deadline < self._timer_at:
            self._set_timer(deadline)
        return answer

    def oneway(self, command: Command | SendRequest) -> None:
        """Send a request that wants no answer. Raises NetworkError if the connection is closed."""
        self._opaque = self._opaque + 1 & OPAQUE_MAX
        self._put(encode_request(command, self._opaque, ONEWAY_FLAG))

    def send(self, data: Buffer | Command) -> None:
        """Answer what the server asked, soon; into the void if the connection is closed."""
        if not self.closed:
            self._put(encode(data) if isinstance(data, Command) else data)

    async def drained(self) -> None:
        """Wait while the server leaves so much unread that more would only fill our memory.

        A server that reads nothing for 30 s is given up: the connection is then closed.
        """
        while self.is_full:  # others who waited may have filled it again
            await self._room.wait()

    async def close(self) -> None:
        """Send what is waiting, then close; pending requests fail with NetworkError."""
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
        """Close at once; pending requests fail with NetworkError, or with the error that is the reason."""
        if not self.closed:
            self._end(reason)
            self._outbox.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin (called by asyncio)."""
        transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but its ancestry
        self._outbox = Outbox(transport)

    def data_received(self, data: bytes) -> None:
        """Take one socket read (called by asyncio)."""
        self._heard_at = self._loop.time()
        if self._head is not None and self._is_foreign(data):
            return
        try:
            commands = self._reader.receive_data(data)
        except ProtocolError as error:
            self.abort(str(error))
            return
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

    def pause_writing(self) -> None:
        """Note that the server reads too slowly (called by asyncio)."""
        self._outbox.congest()
        self.is_full = not self.closed
        self._room.clear()
        if self.is_full:
            self._expect_less_than(self._outbox.unsent)

    def resume_writing(self) -> None:
        """Note that the server has caught up (called by asyncio)."""
        self._outbox.drain()
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """End (called by asyncio)."""
        reason = str(exc or "closed by the server")
        if self._head is not None and not self._head:
            reason += ", which has answered nothing: it stops, or no name server or broker listens there"
        self._end(reason)
        self._outbox.discard()
        self._lost.set()

    def _put(self, data: Buffer) -> None:
        if self.closed:
            raise NetworkError(f"the connection to {self.address} is closed")
        if not self._outbox.put(data):
            raise NetworkError(f"{self.address} has left {self._outbox.unsent} bytes unread")

    def _is_foreign(self, data: bytes) -> bool:
        """Check the first bytes that came; close the connection if they are those of another protocol."""
        assert self._head is not None
        self._head = (self._head + data[:HEAD_SIZE])[:HEAD_SIZE]
        if (name := foreign_protocol(self._head)) is None:
            return False
        self.abort(
            WrongProtocol(
                f"no server of RocketMQ listens at {self.address}: {name}; give the address of a name "
                "server, whose port is 9876 by default, or of a broker, 10911"
            )
        )
        return True

    def _end(self, reason: str | NetworkError) -> None:
        """Take no more requests and fail those that wait."""
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
        self._pending.clear()

    def _expect_less_than(self, unsent: int) -> None:
        """Give up a server that has read nothing when the time is up: no request may be there to tell."""
        self._stall = self._loop.call_later(UNREAD_S_MAX, self._look_for_progress, unsent)

    def _look_for_progress(self, unsent: int) -> None:
        if self._outbox.unsent < unsent:
            self._expect_less_than(self._outbox.unsent)
        else:
            self.abort(f"it has read nothing for {UNREAD_S_MAX:g} s")

    @property
    def _silence(self) -> str:
        """What an error adds about a server of which nothing was ever heard."""
        if self._heard_at > -math.inf:
            return ""
        return ": it accepts connections and says nothing, so it hangs, or is no name server or broker"

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

    def _be_patient(self, now: float) -> None:
        """Extend the deadlines of requests to an address of ``patience``."""
        if not (least_s := patience.least_s(self.address)):
            return
        for waiting in self._pending.values():
            later = waiting.deadline - waiting.timeout_ms / 1000 + least_s
            if waiting.deadline <= now < later:
                waiting.deadline, waiting.timeout_ms = later, round(least_s * 1000)

    def _expire(self) -> None:
        """Fail the requests whose time is up, and set the timer for the earliest of the others."""
        now = max(self._loop.time(), self._timer_at)  # the loop may fire within its clock's resolution
        self._be_patient(now)
        expired = [(opaque, waiting) for opaque, waiting in self._pending.items() if waiting.deadline <= now]
        for opaque, waiting in expired:
            del self._pending[opaque]
            if not waiting.answer.done():
                text = f"no answer from {self.address} within {waiting.timeout_ms} ms{self._silence}"
                waiting.answer.set_exception(RequestTimeout(text))
        self._timer_at = math.inf
        if self._pending:
            self._set_timer(min(waiting.deadline for waiting in self._pending.values()))
        if any(self._heard_at < waiting.deadline - waiting.timeout_ms / 1000 for _, waiting in expired):
            self.abort("it answers nothing at all")  # the next request finds out whether it is there


def _reason(error: OSError) -> str:
    """Return why there is no connection, in the system's words: asyncio's repeat the address."""
    if error.errno is not None and error.errno > 0:  # others are of looking a name up
        return os.strerror(error.errno)
    return error.strerror or str(error)


class _Waiting(msgspec.Struct):
    """A request that waits for its answer."""

    answer: "asyncio.Future[Command]"
    deadline: float
    timeout_ms: int
