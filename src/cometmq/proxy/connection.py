"""A gRPC client's connection, and what it may do before a known user has signed one of its calls.

::

    accepted ─► a newcomer ─► its first call with a right signature ─► a connection like others
                    ├► has not made one in its time              ┐
                    ├► makes too many calls that are refused     ├► closed
                    └► is the oldest of too many of its address  ┘

Signatures are metadata of calls, so a newcomer's calls are judged before their requests are read: it may send
little that waits unread, and have few calls under way. Only a server that checks its calls has newcomers.
"""

import asyncio
import socket
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, cast

from grpclib.config import Configuration
from grpclib.const import Handler
from grpclib.protocol import Connection, H2Protocol
from grpclib.server import Stream
from h2.errors import ErrorCodes
from h2.exceptions import DenialOfServiceError
from h2.exceptions import ProtocolError as H2ProtocolError
from h2.settings import SettingCodes

from cometmq.logs import get_logger
from cometmq.net.address import address_text
from cometmq.net.newcomers import NewcomerLimits, Newcomers
from cometmq.proxy.http2.calls import CallEvents, Calls
from cometmq.proxy.http2.faults import PeerFault, PeerFaults
from cometmq.proxy.http2.frames import Allowance, Http2
from cometmq.proxy.http2.streams import Outlet
from cometmq.proxy.http2.turns import Turns
from cometmq.proxy.http2.unread import Requester, UnreadRequests
from cometmq.proxy.http2.unsent import Recipient, Unsent
from cometmq.proxy.settings import ProxySettings

WINDOW_BYTES: Final = 4 << 20
"""How much of a call's request, and of all of a connection, may be under way unread."""
NEWCOMER_CALLS_MAX: Final = 100
"""Most calls of a newcomer that are under way; clients keep further ones back."""
PING_S: Final = 60.0
"""How often a client is asked whether it is there; one that does not answer is gone."""
CLOSE_S: Final = 1.0
"""How long a client whose connection the proxy closes may take to read what is unsent, and why."""
DROPPED_BYTES_MAX: Final = 1 << 16
"""How much is read, and dropped, after the proxy's goodbye; the rest is left to the socket."""
NEWCOMER_LIMITS: Final = NewcomerLimits(
    frame_size_max=65_535, frame_ms_max=10_000, refused_max=32, connections_max=256, are_settings=False
)
"""Those of a broker by default, but for the size: that is of what waits unread, HTTP/2's smallest window."""

_log = get_logger(__name__)


class Shared(NamedTuple):
    """What the connections of a server have in common.

    Attributes:
        connections: those that are open.
        newcomers: those on which no known user has signed a call yet; None if calls are not checked.
    """

    settings: ProxySettings
    connections: "set[GrpcConnection]"
    turns: Turns
    unsent: Unsent
    unread: UnreadRequests
    faults: PeerFaults
    newcomers: Newcomers | None


class _Link(Connection):
    """grpclib's side of a connection, which does not close the transport: ``GrpcConnection`` does."""

    def close(self) -> None:
        """End it (called by grpclib)."""
        if hasattr(self, "_transport"):
            del self._transport, self._connection._frame_dispatch_table  # noqa: SLF001 as grpclib does: a cycle
        super().close()


class GrpcConnection(H2Protocol):
    """A client's connection.

    Args:
        handlers: serve its calls, by the paths of their rpcs.
        shared: it has in common with others; it belongs to the newcomers at first, if there are any.
        release: called when it is lost.

    Attributes:
        calls: those that are under way.
        newcomers: those of the server while it is one of them, else None.
        peer: the client's IP address and port.
    """

    def __init__(self, handlers: Mapping[str, Handler], shared: Shared, release: Callable[[], None]) -> None:
        newcomers, settings = shared.newcomers, shared.settings
        window = WINDOW_BYTES if newcomers is None else newcomers.limits.frame_size_max
        calls_max = settings.calls_max if newcomers is None else min(NEWCOMER_CALLS_MAX, settings.calls_max)
        self.calls = Calls(handlers, self, calls_max, shared.faults)
        idle = Allowance(
            "frames that carry nothing",
            settings.idle_frames_max,
            settings.idle_frames_per_second,
            "idleFramesMax",
        )
        self._http2 = Http2(idle)
        super().__init__(self.calls, _configuration(window), self._http2.config)
        self.newcomers: Newcomers | None = None
        self.peer = ("", 0)
        self._shared = shared
        self._outlet = Outlet(Recipient(shared.unsent, self.calm))
        self._requester = Requester(shared.unread, self.calm)
        self._release = release
        self._deadline: asyncio.TimerHandle | None = None
        self._is_over = self._is_paused = False
        self._dropped = 0  # bytes, since it is over

    def __str__(self) -> str:
        return address_text(*self.peer)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve (called by asyncio)."""
        self._transport = cast(asyncio.Transport, transport)
        plain = transport.get_extra_info("socket")
        if plain is not None and plain.family in (socket.AF_INET, socket.AF_INET6):
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.peer = (transport.get_extra_info("peername") or self.peer)[:2]
        self._begin_http2()
        self._shared.connections.add(self)
        if (newcomers := self._shared.newcomers) is None:
            self._allow({SettingCodes.MAX_CONCURRENT_STREAMS: self.calls.most})
            return
        newcomers.add(self)
        limit_s = newcomers.limits.frame_ms_max / 1000
        self._deadline = asyncio.get_running_loop().call_later(limit_s, self._end_unknown, limit_s)

    def data_received(self, data: bytes) -> None:
        """Handle what has come, as far as this turn allows (called by asyncio)."""
        if self._is_over:
            self._drop(data)
            return
        if self._is_deaf():
            return
        try:
            self._http2.reader.add_data(data)
        except H2ProtocolError as error:
            self._end_for(error)
            return
        if share := self._shared.turns.share_of(self):
            self.take_turn(share)
            self._shared.turns.use(share - self._http2.reader.left)
        else:
            self._pause_if_full()

    def take_turn(self, share: int) -> None:
        """Handle so many of the frames that have come; if there are more, the next turn is asked for."""
        if self._is_over:
            return
        reader = self._http2.reader
        reader.left = share
        try:
            events = self._http2.receive_data(b"")
            for event in events:
                self.processor.process(event)
        except H2ProtocolError as error:
            self._end_for(error)
            return
        except Exception:  # noqa: BLE001 a fault here must end neither the turn of others nor this server
            _log.exception("failed to handle what %s has sent", self)
            self.cut()
            return
        if self._is_over:
            return
        self.connection.flush()
        if reader.left <= 0 and reader.size:
            self._shared.turns.add(self)
            self._pause_if_full()
        elif self._is_paused and not self._transport.is_closing():
            self._is_paused = False
            self._transport.resume_reading()

    def resume_writing(self) -> None:
        """Send the answers that wait for the socket (called by asyncio)."""
        super().resume_writing()
        self._outlet.wake()

    def connection_lost(self, _: BaseException | None) -> None:
        """Cancel its calls (called by asyncio)."""
        if not self._is_over and self.calls.under_way:
            self._shared.faults.add(PeerFault.CUT, self, "the connection is lost")
        self._end_calls("the connection is lost")
        self._end_limits()
        self._shared.connections.discard(self)
        self._release()
        del self.calls, self.handler, self.processor  # they refer to it: without them it is freed now
        del self._outlet, self._requester

    def recognise(self) -> None:
        """End the limits of a newcomer: a known user has signed a call."""
        if (newcomers := self.newcomers) is None:
            return
        self._end_limits()
        self.calls.most = self._shared.settings.calls_max
        self._http2.increment_flow_control_window(WINDOW_BYTES - newcomers.limits.frame_size_max)
        self._allow(
            {
                SettingCodes.MAX_CONCURRENT_STREAMS: self.calls.most,
                SettingCodes.INITIAL_WINDOW_SIZE: WINDOW_BYTES,
            }
        )

    def count_refused(self) -> None:
        """Count a call that was refused: of a newcomer, few may be."""
        if self.newcomers is not None:
            self.newcomers.count_refused(self)

    def abort(self, reason: str) -> None:
        """Close it at once, and log the reason."""
        if not self._is_over:  # else it is known why
            _log.warning("closed the connection of %s at once: %s", self, reason)
        self.cut()

    def calm(self, reason: str) -> None:
        """Close it for what the client does not read, or does not go on to send."""
        self._end_for(DenialOfServiceError(reason))

    def cut(self) -> None:
        """Close it at once, and drop what is unsent."""
        self._end_limits()
        self._end_calls("the proxy has closed the connection")
        self._transport.abort()

    def end(self) -> None:
        """Cancel its calls, and close it."""
        self._close("the proxy stops")

    def leave(self, error_code: int) -> None:
        """Finish the calls of a client that leaves.

        The client closes the connection then; one that has met an error does not wait.
        """
        asyncio.get_running_loop().call_soon(self._close_unless_called, error_code)

    def _begin_http2(self) -> None:
        """Send the settings of the server."""
        http2, window = self._http2, self.config.http2_stream_window_size
        http2.initiate_connection()
        if more := window - http2.local_settings.initial_window_size:
            http2.increment_flow_control_window(more)
            http2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: window})
        self.connection = _Link(http2, self._transport, config=self.config)
        self.connection.flush()
        self.connection.initialize()
        settings = self._shared.settings
        resets = Allowance("resets of calls", settings.resets_max, settings.resets_per_second, "resetsMax")
        self.processor = CallEvents(self.calls, self.connection, self, self._outlet, self._requester, resets)

    def _is_deaf(self) -> bool:
        """Close it if the client sends what is to be answered, and reads nothing; return whether it does."""
        if self.connection.write_ready.is_set():
            return False
        most = self._shared.settings.unsent_bytes_max
        if (size := self._transport.get_write_buffer_size()) <= most:
            return False
        self._end_for(
            DenialOfServiceError(f"{size} bytes are unread, at most {most} may be (unsentBytesMax)")
        )
        return True

    def _pause_if_full(self) -> None:
        """Stop reading while too much waits for its turn."""
        if self._is_paused or self._transport.is_closing():
            return
        if self._http2.reader.size > self._shared.settings.unhandled_bytes_max:
            self._is_paused = True
            self._transport.pause_reading()

    def _close(self, reason: str) -> None:
        """Cancel its calls, and close it when what is unsent was sent, or soon."""
        if not self._is_over:
            self._end_calls(reason)
            asyncio.get_running_loop().call_later(CLOSE_S, self._transport.abort)
        self._transport.close()

    def _drop(self, data: bytes) -> None:
        """Drop what comes after the goodbye, and read no more when that is much."""
        self._dropped += len(data)
        if self._dropped > DROPPED_BYTES_MAX:
            self._transport.pause_reading()

    def _end_calls(self, reason: str) -> None:
        """Cancel its calls, and begin to close it."""
        if self._is_over:  # they may be cleaning up: once is enough
            return
        self._is_over = True
        self.processor.close(reason)
        self.connection.resume_writing()  # who waits to send an answer learns that it has ended
        self._outlet.recipient.end()
        self._outlet.close()
        self._requester.end()

    def _end_for(self, error: H2ProtocolError) -> None:
        """Close it for what the client has sent, and say why (RFC 9113, 5.4.1)."""
        if self._is_over:  # such as for too many refused calls
            return
        code = ErrorCodes(error.error_code)
        self._shared.faults.add(PeerFault.CLOSED, self, f"{error} ({code.name})")
        self._say_goodbye(code, str(error))

    def _say_goodbye(self, code: ErrorCodes, reason: str) -> None:
        """Cancel its calls, say why, and close it when the client has done so, or soon.

        A socket that is closed while something has come that is unread has the client's system drop what the
        client has not read.
        """
        if not self._http2.is_over:  # it has not said so yet
            self._http2.close_connection(code, reason.encode())
        self.connection.flush()
        self._cancel_deadline()
        self._end_calls(reason)
        if self._transport.can_write_eof():
            self._transport.write_eof()
        asyncio.get_running_loop().call_later(CLOSE_S, self._transport.abort)

    def _allow(self, settings: dict[SettingCodes, int]) -> None:
        """Send settings that say what the client may do: by default it may have 100 calls under way."""
        self._http2.update_settings(cast(Any, settings))
        self.connection.flush()

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()

    def _end_limits(self) -> None:
        self._cancel_deadline()
        if self.newcomers is not None:
            self.newcomers.remove(self)

    def _end_unknown(self, limit_s: float) -> None:
        self.abort(f"no known user has signed a call on it in {limit_s:g} s")

    def _close_unless_called(self, error_code: int) -> None:
        """Close the connection of a client that leaves, unless it waits for answers."""
        if not self._is_over and (error_code or not self.processor.streams):
            self._say_goodbye(ErrorCodes.NO_ERROR, "the client leaves")


def connection_of(stream: "Stream[Any, Any]") -> GrpcConnection:
    """Return the connection of a call."""
    protocol = stream._stream._transport.get_protocol()  # noqa: SLF001 the stream does not say
    return cast(GrpcConnection, protocol)


def _configuration(window: int) -> Configuration:
    """Return grpclib's settings, with a window for what is under way unread, in bytes."""
    return Configuration(
        _keepalive_time=PING_S,
        _keepalive_permit_without_calls=True,
        _http2_max_pings_without_data=0,
        _http2_min_sent_ping_interval_without_data=PING_S / 2,
        http2_connection_window_size=window,
        http2_stream_window_size=window,
    ).__for_server__()
