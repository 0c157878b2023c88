"""The calls of a connection: they begin, are answered, and end.

::

    HEADERS ─► under way ─► answered ───────────────────────────► ended
       │           └► the client resets it: its work is cancelled ─┘
       ├► malformed by HTTP/2 (``headers.py``): reset
       ├► not one of gRPC (``headers.py``): refused when its request has ended, or soon
       └► refused, when too many are under way: those that were reset are until their work has ended

A client also resets a call by a fault for which HTTP/2 has us reset it. A refusal or a reset uses up the
connection's allowance of resets (``frames.py``), and of a connection on which no known user has signed a call
it counts as a refused request.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol, cast

from grpclib.const import Handler, Status
from grpclib.encoding.proto import ProtoCodec
from grpclib.events import _DispatchServerEvents
from grpclib.exceptions import GRPCError, StreamTerminatedError
from grpclib.metadata import Deadline, decode_timeout, encode_grpc_message
from grpclib.protocol import AbstractHandler, Connection, EventsProcessor
from grpclib.protocol import Stream as HttpStream
from grpclib.server import Stream, _abort
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    Event,
    RequestReceived,
    StreamReset,
    TrailersReceived,
    WindowUpdated,
)
from h2.exceptions import ProtocolError as H2ProtocolError
from h2.exceptions import StreamClosedError

from cometmq.logs import get_logger
from cometmq.proxy.http2.faults import PeerFault, PeerFaults
from cometmq.proxy.http2.frames import Allowance, Http2
from cometmq.proxy.http2.headers import Headers, Refusal, kept_of, malformed, malformed_trailers, refusal_of
from cometmq.proxy.http2.streams import CallStream, Outlet
from cometmq.proxy.http2.unread import Requester

REFUSED_S: Final = 1.0
"""How long a call that is refused by its headers may take to end its request, before it is told so."""
_CODEC: Final = ProtoCodec()
_NO_EVENTS: Final = _DispatchServerEvents()

_log = get_logger(__name__)


class Owner(Protocol):
    """The connection that calls belong to; as text it is the client's address."""

    def count_refused(self) -> None:
        """Count a call that was refused."""
        ...

    def leave(self, error_code: int) -> None:
        """Close it soon: the client has announced that it leaves."""
        ...


class Calls(AbstractHandler):
    """The calls of a connection that are under way.

    Args:
        handlers: serve them, by the paths of their rpcs.
        most: how many may be under way.
        faults: count what is wrong with them.

    Attributes:
        most: the same.
    """

    def __init__(self, handlers: Mapping[str, Handler], owner: Owner, most: int, faults: PeerFaults) -> None:
        self.most = most
        self._handlers = handlers
        self._owner = owner
        self._faults = faults
        self._tasks: dict[HttpStream, asyncio.Task[None]] = {}

    @property
    def under_way(self) -> int:
        """How many are under way: those that were reset are until their work has ended."""
        return len(self._tasks)

    def accept(self, stream: HttpStream, headers: Headers, release_stream: Callable[[], None]) -> None:
        """Begin a call; ``release_stream`` is called when it has ended."""
        task = asyncio.get_running_loop().create_task(self._serve(stream, kept_of(headers)))
        self._tasks[stream] = task
        task.add_done_callback(partial(self._end, stream, release_stream))

    def count_refused(self, why: str) -> None:
        """Count a call that did not begin, or that is ended."""
        self._faults.add(PeerFault.REFUSED, self._owner, why)

    def cancel(self, stream: HttpStream) -> None:
        """Cancel the work for a call that its client has reset."""
        if (task := self._tasks.get(stream)) is not None:
            task.cancel()
            self._faults.add(PeerFault.CUT, self._owner, "it has reset the call")

    def close(self) -> None:
        """Cancel all of them."""
        for task in self._tasks.values():
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until all have ended."""
        if self._tasks:
            await asyncio.wait(self._tasks.values())

    def _end(
        self, stream: HttpStream, release_stream: Callable[[], None], task: "asyncio.Task[None]"
    ) -> None:
        """Forget a call, also one whose work was cancelled before it began."""
        del self._tasks[stream]
        release_stream()
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("failed to end a call of %s", self._owner, exc_info=error)

    async def _serve(self, stream: HttpStream, named: dict[str, str]) -> None:
        """Serve a call, or refuse it."""
        try:
            if (refusal := refusal_of(named)) is not None:
                await self._refuse(stream, refusal)
            elif (handler := self._handlers.get(named.get(":path", ""))) is None:
                await self._refuse(stream, (200, Status.UNIMPLEMENTED, "Method not found"))
            else:
                await self._answer(stream, named, handler)
        except (StreamTerminatedError, H2ProtocolError) as error:
            self._faults.add(PeerFault.CUT, self._owner, str(error))

    async def _refuse(self, stream: HttpStream, refusal: Refusal) -> None:
        http_status, status, text = refusal
        self._faults.add(PeerFault.REFUSED, self._owner, text)
        self._owner.count_refused()
        await self._end_of(stream)
        if status is not None:
            await _abort(stream, http_status, status, encode_grpc_message(text))
            return
        await stream.send_headers([(":status", str(http_status)), ("content-type", "text/plain")])
        await stream.send_data(text.encode(), end_stream=True)
        if stream.closable:
            stream.reset_nowait()

    async def _end_of(self, stream: HttpStream) -> None:
        """Wait for the end of a request, but not for long.

        A refusal with a reset in the midst of it would hide what HTTP/2 finds wrong with the rest. That is
        dropped, and only the stream's window of it comes.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(REFUSED_S):
                await cast(CallStream, stream).request.end()

    async def _answer(self, stream: HttpStream, named: dict[str, str], handler: Handler) -> None:
        """Answer a call, and end it with a status."""
        deadline = None
        if (timeout := named.get("grpc-timeout")) is not None:
            deadline = Deadline.from_timeout(decode_timeout(timeout))
        call: Stream[Any, Any] = Stream(
            stream,
            named[":path"],
            handler.cardinality,
            handler.request_type,
            handler.reply_type,
            codec=_CODEC,
            status_details_codec=None,
            dispatch=_NO_EVENTS,
            deadline=deadline,
        )
        call.metadata = cast(Any, named)
        status, text = await self._status(
            call, handler, None if deadline is None else deadline.time_remaining()
        )
        await call.send_trailing_metadata(status=status, status_message=text)

    async def _status(
        self, call: "Stream[Any, Any]", handler: Handler, timeout_s: float | None
    ) -> tuple[Status, str | None]:
        """Await the work for a call; return how it has ended."""
        timer = asyncio.timeout(timeout_s)
        try:
            async with timer:
                await handler.func(call)
        except GRPCError as error:
            self._faults.add(PeerFault.REFUSED, self._owner, error.message or error.status.name)
            return error.status, error.message
        except (StreamTerminatedError, H2ProtocolError):
            raise
        except Exception as error:  # noqa: BLE001 whatever it is, it must end no other call
            if isinstance(error, TimeoutError) and timer.expired():
                return Status.DEADLINE_EXCEEDED, None
            _log.exception("failed to answer a call of %s", self._owner)
            return Status.UNKNOWN, "Internal Server Error"
        finally:
            del timer  # it refers to the task, whose error refers to this frame
        return Status.OK, None


class CallEvents(EventsProcessor):
    """Handles the events of a connection.

    Args:
        calls: the connection's calls.
        connection: grpclib's side of it.
        owner: the connection itself.
        outlet: where answers wait.
        requester: counts the requests that are not read.
        resets: limits the calls that are reset or refused.
    """

    handler: Calls

    def __init__(
        self,
        calls: Calls,
        connection: Connection,
        owner: Owner,
        outlet: Outlet,
        requester: Requester,
        resets: Allowance,
    ) -> None:
        super().__init__(calls, connection)
        self._owner = owner
        self._outlet = outlet
        self._requester = requester
        self._resets = resets

    def process(self, event: Event) -> None:
        """Handle an event, unless it means nothing here, or the connection is closed."""
        handle = getattr(self, "processors", {}).get(event.__class__)  # closing deletes them
        if handle is not None:
            handle(event)

    def process_request_received(self, event: RequestReceived) -> None:
        """Begin a call, or refuse it. Raises DenialOfServiceError if too many are reset or refused."""
        http2 = cast(Http2, self.connection._connection)  # noqa: SLF001 as grpclib does
        headers = cast(Headers, event.headers)
        if (fault := malformed(headers)) is not None:
            self._reset(event.stream_id, ErrorCodes.PROTOCOL_ERROR, fault)
            return
        if self.handler.under_way >= (most := self.handler.most):
            self._reset(event.stream_id, ErrorCodes.REFUSED_STREAM, f"{most} are under way")
            return
        transport = self.connection._transport  # noqa: SLF001 as above
        stream = CallStream(self.connection, http2, transport, self._outlet, self._requester, event.stream_id)
        self.handler.accept(stream, headers, self.register(stream))

    def process_trailers_received(self, event: TrailersReceived) -> None:
        """End a call whose trailers are malformed; nobody reads others."""
        if (fault := malformed_trailers(cast(Headers, event.headers))) is not None:
            if (stream := self.streams.get(event.stream_id)) is not None:
                stream.__terminated__(fault)
                self.handler.cancel(stream)
            self._reset(event.stream_id, ErrorCodes.PROTOCOL_ERROR, fault)

    def process_window_updated(self, event: WindowUpdated) -> None:
        """Wake the answer that waits for a window, of all that wait for the connection's the first."""
        if event.stream_id == 0:
            self._outlet.wake()
        else:
            super().process_window_updated(event)

    def process_connection_terminated(self, event: ConnectionTerminated) -> None:
        """Announce to the connection that its client leaves."""
        self._owner.leave(event.error_code or 0)

    def process_stream_reset(self, event: StreamReset) -> None:
        """Cancel a call. Raises DenialOfServiceError if too many are reset or refused."""
        is_under_way = event.stream_id in self.streams
        super().process_stream_reset(event)
        if is_under_way:
            self._count_reset()

    def _reset(self, stream_id: int, code: ErrorCodes, why: str) -> None:
        """Refuse a call."""
        with suppress(StreamClosedError):  # the client has reset it already
            cast(Http2, self.connection._connection).reset_stream(stream_id, code)  # noqa: SLF001 as above
        self.handler.count_refused(why)
        self._count_reset()

    def _count_reset(self) -> None:
        self._owner.count_refused()
        self._resets.take()
