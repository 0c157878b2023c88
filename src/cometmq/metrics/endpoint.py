"""A small HTTP server with ``/metrics``, ``/healthz`` and ``/readyz``, on a port and in threads of its own.

A scrape's values are collected in the event loop, in short pieces; their text is made in the scrape's thread.
``/healthz`` is 200 while the event loop takes work. ``/readyz`` is 200 while there is no reason against it,
else 503 with each reason on a line.

The server is ``wsgiref`` of the standard library; ``/metrics`` knows gzip and the query ``name[]``. Requests
at once, and the time of each, are limited; there is no authentication and no TLS: listen where only those who
may see the names of topics and groups can connect.
"""

import asyncio
import contextlib
import gzip
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import parse_qs
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from cometmq.errors import CometMQError
from cometmq.extras import require
from cometmq.logs import get_logger
from cometmq.metrics.family import Values
from cometmq.net.address import address_text
from cometmq.net.listening import cannot_listen

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

REQUESTS_MAX: Final = 8
"""Most requests at once; further connections are closed."""
SILENCE_S_MAX: Final = 5
"""Longest wait for a peer to send its request or to read the answer."""
COLLECT_S_MAX: Final = 30
"""Longest wait for the values of a scrape."""
ALIVE_S_MAX: Final = 5
"""Longest wait for the event loop until it counts as hanging."""
GZIP_LEVEL: Final = 1
"""A scraper is near: less work for the broker counts more than a tenth of the bytes."""

_TEXT: Final = "Content-Type", "text/plain; charset=utf-8"
_INDEX: Final = "/metrics\n/healthz\n/readyz\n"
_STATUS: Final = {
    200: "200 OK",
    404: "404 Not Found",
    405: "405 Method Not Allowed",
    503: "503 Service Unavailable",
}

AnswerT = TypeVar("AnswerT")

_log = get_logger(__name__)


SERIES_MAX: Final = 10_000
"""Most series of one family where no setting says how many: see ``exposition``."""


class EndpointSource:
    """What an endpoint shows.

    Attributes:
        collect: returns the values of a scrape; called in the event loop, one call at a time.
        reasons: returns why the server is not ready, nothing if it is; called in the event loop.
    """

    def __init__(
        self,
        collect: Callable[[], Awaitable[Values]],
        reasons: Callable[[], Sequence[str]],
    ) -> None:
        self.collect = collect
        self.reasons = reasons


class Endpoint:
    """Serves a source at ``host:port``.

    Args:
        port: 0 for any free one; after ``start`` the attribute ``port`` is the actual one.
        labels: the labels of all series.
        series_max: most series of one family.

    Raises:
        MissingExtra: prometheus-client is not installed.
    """

    def __init__(
        self,
        host: str,
        port: int,
        source: EndpointSource,
        *,
        labels: Mapping[str, str],
        series_max: int = SERIES_MAX,
    ) -> None:
        require("metrics", "/metrics")
        from prometheus_client.exposition import gzip_accepted  # noqa: PLC0415  an optional package

        from cometmq.metrics.exposition import CONTENT_TYPE, Exposition  # noqa: PLC0415  as above

        self.host = host
        self.port = port
        self._source = source
        self._exposition = Exposition(self._collect, labels=labels, series_max=series_max)
        self._metrics_type = "Content-Type", CONTENT_TYPE
        self._takes_gzip = gzip_accepted
        self._loop: asyncio.AbstractEventLoop | None = None
        self._one_at_a_time = asyncio.Lock()
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def address(self) -> str:
        """The address, ``host:port``."""
        return address_text(self.host, self.port)

    async def start(self) -> None:
        """Start listening. Raises SettingsError if the address cannot be used."""
        self._loop = asyncio.get_running_loop()
        try:
            self._server = server = await asyncio.to_thread(_Server, self.host, self.port)
        except OSError as error:
            raise cannot_listen("metrics", self.host, self.port, error) from error
        server.set_app(self._answer)
        self.port = server.server_address[1]
        self._thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
        self._thread.start()
        _log.info("metrics: http://%s/metrics, /healthz, /readyz", self.address)

    async def stop(self) -> None:
        """Stop listening, and end the requests under way."""
        server, self._server = self._server, None
        if server is None:
            return
        await asyncio.to_thread(server.end)

    def _answer(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Answer one request, in a thread."""
        path = environ["PATH_INFO"]
        if environ["REQUEST_METHOD"] != "GET":
            code, text = 405, "GET only\n"
        elif path == "/metrics":
            try:
                made = self._exposition.text(parse_qs(environ.get("QUERY_STRING", "")).get("name[]", ()))
            except TimeoutError:
                code, text = 503, f"no metrics: their values are not there after {COLLECT_S_MAX} s\n"
            except (OSError, CometMQError) as error:
                code, text = 503, f"no metrics: {error}\n"
            else:
                headers = [self._metrics_type]
                if self._takes_gzip(environ.get("HTTP_ACCEPT_ENCODING", "")):
                    made = gzip.compress(made, GZIP_LEVEL)
                    headers.append(("Content-Encoding", "gzip"))
                start_response(_STATUS[200], headers)
                return [made]
        elif path == "/healthz":
            code, text = self._health()
        elif path == "/readyz":
            code, text = self._readiness()
        else:
            code, text = (200, _INDEX) if path == "/" else (404, _INDEX)
        start_response(_STATUS[code], [_TEXT])  # a new list: it is changed
        return [text.encode()]

    def _health(self) -> tuple[int, str]:
        try:
            self._in_loop(_nothing, ALIVE_S_MAX)
        except TimeoutError:
            return 503, f"the event loop has taken no work for {ALIVE_S_MAX} s\n"
        return 200, "alive\n"

    def _readiness(self) -> tuple[int, str]:
        async def reasons() -> Sequence[str]:
            return self._source.reasons()

        try:
            found = self._in_loop(reasons, ALIVE_S_MAX)
        except TimeoutError:
            found = [f"the event loop has taken no work for {ALIVE_S_MAX} s"]
        return (503, "".join(f"{reason}\n" for reason in found)) if found else (200, "ready\n")

    def _collect(self) -> Values:
        """Collect the values of a scrape from its thread. Raises TimeoutError, or what the source raises."""

        async def collect() -> Values:
            async with self._one_at_a_time:
                return await self._source.collect()

        return self._in_loop(collect, COLLECT_S_MAX)

    def _in_loop(self, work: Callable[[], Coroutine[Any, Any, AnswerT]], timeout_s: float) -> AnswerT:
        """Run a coroutine function in the event loop, from a thread. Raises TimeoutError."""
        assert self._loop is not None
        future = asyncio.run_coroutine_threadsafe(work(), self._loop)
        try:
            return future.result(timeout_s)
        except TimeoutError:
            future.cancel()
            raise


async def _nothing() -> None:
    """Do nothing: that it is called shows that the loop takes work."""


class _Handler(WSGIRequestHandler):
    """Handles the one request of a connection."""

    timeout = SILENCE_S_MAX

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the name of the base class
        """Log a request, for those who look for it."""
        _log.debug(format, *args)


class _Server(ThreadingMixIn, WSGIServer):
    """Listens, and handles each connection in a thread."""

    daemon_threads = True

    def __init__(self, host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._free = threading.BoundedSemaphore(REQUESTS_MAX)
        self._open: set[socket.socket] = set()
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Bind without the look-up of the host's name that the base class makes: it can take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handle a connection in a thread, or close it if there are too many."""
        if not self._free.acquire(blocking=False):
            _log.debug("metrics: more than %d requests at once", REQUESTS_MAX)
            self.shutdown_request(request)
            return
        self._open.add(request)
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Handle a connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._open.discard(request)
            self._free.release()

    def handle_error(self, _request: Any, client_address: Any) -> None:
        """Log what a peer did wrong."""
        _log.debug("metrics: request of %s failed", client_address, exc_info=True)

    def end(self) -> None:
        """Stop listening; wait for the requests under way. Blocking."""
        self.shutdown()
        self.server_close()
        for request in self._open.copy():
            with contextlib.suppress(OSError):  # it ended meanwhile
                request.shutdown(socket.SHUT_RD)  # of those that have sent no request yet
        for _ in range(REQUESTS_MAX):
            self._free.acquire(timeout=SILENCE_S_MAX)
