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
from collections.abc import Callable
from typing import Any, Final, cast

from grpclib.config import Configuration
from grpclib.protocol import H2Protocol
from grpclib.server import Handler as CallHandler
from grpclib.server import Stream
from h2.config import H2Configuration
from h2.events import Event
from h2.settings import SettingCodes
from hyperframe.frame import Frame, GoAwayFrame

from cometmq.logs import get_logger
from cometmq.net.address import address_text
from cometmq.net.newcomers import NewcomerLimits, Newcomers

WINDOW_BYTES: Final = 4 << 20
"""How much of a call's request, and of all of a connection, may be under way unread."""
CALLS_MAX: Final = 1_000
"""Most calls of one connection that are under way; clients keep further ones back. A newcomer has 100."""
PING_S: Final = 60.0
"""How often a client is asked whether it is there; one that does not answer is gone."""
NEWCOMER_LIMITS: Final = NewcomerLimits(
    frame_size_max=65_535, frame_ms_max=10_000, refused_max=32, connections_max=256, are_settings=False
)
"""Those of a broker by default, but for the size: that is of what waits unread, HTTP/2's smallest window."""
_HTTP2: Final = H2Configuration(
    client_side=False,
    header_encoding="ascii",
    validate_inbound_headers=False,
    validate_outbound_headers=False,
    normalize_inbound_headers=False,
    normalize_outbound_headers=False,
)

_log = get_logger(__name__)


class GrpcConnection(H2Protocol):
    """A client's connection.

    Args:
        calls: starts its calls.
        connections: those that are open.
        release: called when it is lost.
        newcomers: those of the server, which it belongs to at first; None if calls are not checked.

    Attributes:
        newcomers: the same while it is one of them, else None.
        peer: the client's IP address and port.
    """

    def __init__(
        self,
        calls: CallHandler,
        connections: "set[GrpcConnection]",
        release: Callable[[], None],
        newcomers: Newcomers | None = None,
    ) -> None:
        window = WINDOW_BYTES if newcomers is None else newcomers.limits.frame_size_max
        super().__init__(calls, _configuration(window), _HTTP2)
        self.calls = calls
        self.newcomers: Newcomers | None = None
        self.peer = ("", 0)
        self._connections = connections
        self._release = release
        self._first_among = newcomers
        self._deadline: asyncio.TimerHandle | None = None

    def __str__(self) -> str:
        return address_text(*self.peer)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve (called by asyncio)."""
        super().connection_made(transport)
        self._transport = cast(asyncio.Transport, transport)
        self.peer = (transport.get_extra_info("peername") or self.peer)[:2]
        self._connections.add(self)
        self._http2._frame_dispatch_table[GoAwayFrame] = self._leave  # noqa: SLF001 it has no other way
        if self._first_among is None:
            self._allow({SettingCodes.MAX_CONCURRENT_STREAMS: CALLS_MAX})
            return
        self._first_among.add(self)
        limit_s = self._first_among.limits.frame_ms_max / 1000
        self._deadline = asyncio.get_running_loop().call_later(limit_s, self._end_unknown, limit_s)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Cancel its calls (called by asyncio)."""
        super().connection_lost(exc)
        self._end_limits()
        self._connections.discard(self)
        self._release()

    def recognise(self) -> None:
        """End the limits of a newcomer: a known user has signed a call."""
        if (newcomers := self.newcomers) is None:
            return
        self._end_limits()
        self._http2.increment_flow_control_window(WINDOW_BYTES - newcomers.limits.frame_size_max)
        self._allow(
            {SettingCodes.MAX_CONCURRENT_STREAMS: CALLS_MAX, SettingCodes.INITIAL_WINDOW_SIZE: WINDOW_BYTES}
        )

    def count_refused(self) -> None:
        """Count a call that was refused: of a newcomer, few may be."""
        if self.newcomers is not None:
            self.newcomers.count_refused(self)

    def abort(self, reason: str) -> None:
        """Close it at once, and log the reason."""
        _log.warning("closed the connection of %s at once: %s", self, reason)
        self.cut()

    def cut(self) -> None:
        """Close it at once, and drop what is unsent."""
        self._end_limits()
        self.processor.close("the proxy has closed the connection")
        self._transport.abort()

    def end(self) -> None:
        """Cancel its calls, and close it."""
        self.processor.close("the proxy stops")

    @property
    def _http2(self) -> Any:
        return self.connection._connection  # noqa: SLF001 it has no other way

    def _allow(self, settings: dict[SettingCodes, int]) -> None:
        """Send settings that say what the client may do: by default it may have 100 calls under way."""
        self._http2.update_settings(settings)
        self.connection.flush()

    def _end_limits(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        if self.newcomers is not None:
            self.newcomers.remove(self)

    def _end_unknown(self, limit_s: float) -> None:
        self.abort(f"no known user has signed a call on it in {limit_s:g} s")

    def _leave(self, frame: GoAwayFrame) -> tuple[list[Frame], list[Event]]:
        """Finish the calls of a client that leaves (RFC 9113, 6.8): h2 would end the connection at once.

        The client closes the connection then; one that has met an error does not wait.
        """
        asyncio.get_running_loop().call_soon(self._close_unless_called, frame.error_code)
        return [], []

    def _close_unless_called(self, error_code: int) -> None:
        """Close the connection of a client that leaves, unless it waits for answers."""
        if error_code or not self.processor.streams:
            self.processor.close("the client leaves")


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
