"""A small HTTP server with ``/metrics``, ``/healthz`` and ``/readyz``, on a port and in a thread of its own.

A scrape's values are collected in the server's event loop, in short pieces; their text is made in a thread. A
scrape that comes meanwhile gets the same text, so many of them cost little more than one.
``/healthz`` is 200 while the event loop takes work. ``/readyz`` is 200 while there is no reason against it,
else 503 with each reason on a line.

The thread has an event loop for the connections alone, so health checks are answered while that of the server
hangs, and by the same means as on other ports: a connection has so long for its whole request, and for taking
the answer; until then it is one of a crowd (``net.newcomers``), in which the oldest gives way. Scrapes are
limited by themselves, so they take no place from health checks, and neither do connections of other ports: if
too many wait, the oldest of the address that has most of them gives way.

``/metrics`` knows gzip and the query ``name[]``. There is no authentication and no TLS: listen where only
those who may see the names of topics and groups can connect.
"""

import asyncio
import gzip
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import parse_qs

from cometmq.errors import CometMQError
from cometmq.extras import require
from cometmq.logs import get_logger
from cometmq.metrics.family import Values
from cometmq.metrics.limits import LIMITS, EndpointLimits
from cometmq.net.accepting import Acceptor, ConnectionCount
from cometmq.net.address import address_text
from cometmq.net.listening import listen
from cometmq.net.newcomers import Crowd, CrowdedStream

BACKLOG: Final = 1_024
HEAD_MAX: Final = 16 * 1024
"""Most bytes of a request."""
COLLECT_S_MAX: Final = 30
"""Longest wait for the values of a scrape."""
ALIVE_S_MAX: Final = 5
"""Longest wait for the event loop until it counts as hanging."""
GZIP_LEVEL: Final = 1
"""A scraper is near: less work for the broker counts more than a tenth of the bytes."""
SERIES_MAX: Final = 10_000
"""Most series of one family where no setting says how many: see ``exposition``."""

_HEAD_END: Final = b"\r\n\r\n"
_TEXT: Final = "text/plain; charset=utf-8"
_INDEX: Final = "/metrics\n/healthz\n/readyz\n"

AnswerT = TypeVar("AnswerT")

_log = get_logger(__name__)


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
        limits: what peers may make it hold.

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
        limits: EndpointLimits = LIMITS,
    ) -> None:
        require("metrics", "/metrics")
        from prometheus_client.exposition import gzip_accepted  # noqa: PLC0415  an optional package

        from cometmq.metrics.exposition import CONTENT_TYPE, Exposition, selected  # noqa: PLC0415  as above

        self.host = host
        self.port = port
        self._source = source
        self._limits = limits
        self._exposition = Exposition(self._collect, labels=labels, series_max=series_max)
        self._metrics_type = CONTENT_TYPE
        self._takes_gzip = gzip_accepted
        self._selected = selected
        lack = f"{limits.scrapes_max} scrapes waited{limits.setting('metricsScrapesMax')}"
        self._scrapers = Crowd(0, lack)
        self._scrapes = 0
        self._text: asyncio.Task[bytes] | None = None  # while it is made
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: _Server | None = None

    @property
    def address(self) -> str:
        """The address, ``host:port``."""
        return address_text(self.host, self.port)

    async def start(self) -> None:
        """Start listening. Raises SettingsError if the address cannot be used."""
        self._loop = asyncio.get_running_loop()
        server = _Server(self.host, self.port, self._answer, self._limits)
        self.port = await server.start()
        self._server = server
        _log.info("metrics: http://%s/metrics, /healthz, /readyz", self.address)

    async def stop(self) -> None:
        """Stop listening, and end the requests under way."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop()
            self._scrapers.close()

    async def _answer(self, request: "_Request", peer: tuple[str, int]) -> "_Answer":
        """Answer one request, in the loop of the connections."""
        if request.method != "GET":
            return _Answer(405, b"GET only\n", fields={"Allow": "GET"})
        if request.path == "/metrics":
            return await self._metrics(request, peer)
        if request.path == "/healthz":
            return await self._health()
        if request.path == "/readyz":
            return await self._readiness()
        return _Answer(200 if request.path == "/" else 404, _INDEX.encode())

    async def _metrics(self, request: "_Request", peer: tuple[str, int]) -> "_Answer":
        """Answer a scrape, unless it gives way to another."""
        if self._scrapes >= self._limits.scrapes_max:
            self._scrapers.make_room()
        task = asyncio.current_task()
        assert task is not None
        scraper = _Scraper(peer, task)
        self._scrapes += 1
        self._scrapers.add(scraper)
        try:
            return await asyncio.to_thread(self._scraped, request, await self._shared_text())
        except TimeoutError:
            return _Answer(503, f"no metrics: their values are not there after {COLLECT_S_MAX} s\n".encode())
        except (OSError, CometMQError) as error:
            return _Answer(503, f"no metrics: {error}\n".encode())
        finally:
            self._scrapers.remove(scraper)
            self._scrapes -= 1

    async def _shared_text(self) -> bytes:
        """Return the text that is being made, or else make one. Raises what collecting its values does."""
        if self._text is None or self._text.done():
            self._text = asyncio.create_task(asyncio.to_thread(self._exposition.text))
        return await asyncio.shield(self._text)

    def _scraped(self, request: "_Request", made: bytes) -> "_Answer":
        """Return a text as the answer to a scrape, in a thread."""
        if names := parse_qs(request.query).get("name[]"):
            made = self._selected(made, names)
        if self._takes_gzip(request.fields.get("accept-encoding", "")):
            fields = {"Content-Encoding": "gzip"}
            return _Answer(200, gzip.compress(made, GZIP_LEVEL), self._metrics_type, fields)
        return _Answer(200, made, self._metrics_type)

    async def _health(self) -> "_Answer":
        try:
            await self._when_taken(_nothing)
        except TimeoutError as error:
            return _Answer(503, f"{error}\n".encode())
        return _Answer(200, b"alive\n")

    async def _readiness(self) -> "_Answer":
        async def reasons() -> Sequence[str]:
            return self._source.reasons()

        try:
            found = await self._when_taken(reasons)
        except TimeoutError as error:
            found = [str(error)]
        return _Answer(503 if found else 200, "".join(f"{one}\n" for one in found or ["ready"]).encode())

    async def _when_taken(self, work: Callable[[], Coroutine[Any, Any, AnswerT]]) -> AnswerT:
        """Run a coroutine function in the server's event loop. Raises TimeoutError if that hangs."""
        try:
            async with asyncio.timeout(ALIVE_S_MAX):
                return await asyncio.wrap_future(self._in_loop(work))
        except TimeoutError:
            raise TimeoutError(f"the event loop has taken no work for {ALIVE_S_MAX} s") from None

    def _collect(self) -> Values:
        """Collect the values of a scrape from its thread. Raises TimeoutError, or what the source raises."""

        async def collect() -> Values:
            return await self._source.collect()

        future = self._in_loop(collect)
        try:
            return future.result(COLLECT_S_MAX)
        except TimeoutError:
            future.cancel()
            raise

    def _in_loop(self, work: Callable[[], Coroutine[Any, Any, AnswerT]]) -> "Future[AnswerT]":
        """Start a coroutine function in the server's event loop, from a thread."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work(), self._loop)


async def _nothing() -> None:
    """Do nothing: that it is called shows that the loop takes work."""


class _Request(NamedTuple):
    """A request.

    Attributes:
        fields: its header, by names in lower case.
    """

    method: str
    path: str
    query: str
    fields: Mapping[str, str]


class _Scraper(NamedTuple):
    """Who waits for values: one of a crowd of them.

    Attributes:
        task: answers the scrape; its connection is closed when it ends.
    """

    peer: tuple[str, int]
    task: "asyncio.Task[object]"

    def cut(self) -> None:
        """Close its connection."""
        self.task.cancel()


class _Answer(NamedTuple):
    """An answer, with fields for its header."""

    status: int
    body: bytes
    type: str = _TEXT
    fields: Mapping[str, str] = {}

    def encode(self) -> bytes:
        """Return its bytes; the connection ends with it."""
        fields = {
            "Date": formatdate(usegmt=True),
            "Connection": "close",
            "Content-Type": self.type,
            "Content-Length": str(len(self.body)),
            **self.fields,
        }
        lines = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in fields.items()]
        return "\r\n".join([*lines, "", ""]).encode() + self.body


def _parse(head: bytes) -> _Request | None:
    """Parse the head of a request; None if it is none."""
    first, *lines = head.removesuffix(_HEAD_END).decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return None
    path, _, query = words[1].partition("?")
    fields = {name.strip().lower(): value.strip() for name, _, value in (one.partition(":") for one in lines)}
    return _Request(words[0], path, query, fields)


class _Server:
    """Serves connections with one request each, in a thread with an event loop of its own.

    Args:
        answer: answers a request of a peer, in that loop.
    """

    def __init__(
        self,
        host: str,
        port: int,
        answer: Callable[[_Request, tuple[str, int]], Awaitable[_Answer]],
        limits: EndpointLimits,
    ) -> None:
        self._host = host
        self._port = port
        self._answer = answer
        self._limits = limits
        self._timeout_s = limits.request_ms_max / 1000
        self._tasks: set[asyncio.Task[None]] = set()
        self._end = asyncio.Event()

    async def start(self) -> int:
        """Start to serve; return the port. Raises SettingsError if the address cannot be used."""
        sockets = await listen("metrics", self._host, self._port, BACKLOG)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, args=(sockets,), name="metrics", daemon=True)
        self._thread.start()
        return int(sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stop listening, and close all connections."""
        self._loop.call_soon_threadsafe(self._end.set)
        await asyncio.to_thread(self._thread.join)

    def _run(self, sockets: list[socket.socket]) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve(sockets))

    async def _serve(self, sockets: list[socket.socket]) -> None:
        """Serve until the stop."""
        limits = self._limits
        lack = "no whole request had come on them, or the answer was not taken"
        self._waiting = Crowd(limits.waiting_max, lack, limits.setting("metricsWaitingMax"))
        limited_by = limits.setting("metricsConnectionsMax")
        own = ConnectionCount(limits.connections_max, limited_by, is_apart=True)
        acceptor = Acceptor(sockets, self._protocol, own, crowd=self._waiting)
        await self._end.wait()
        acceptor.close()
        await acceptor.wait_closed()
        self._waiting.close()
        for task in self._tasks:
            task.cancel()

    def _protocol(self, release: Callable[[], None]) -> asyncio.BaseProtocol:
        return CrowdedStream(self._begin, self._waiting, release, HEAD_MAX)

    def _begin(
        self, stream: CrowdedStream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = self._loop.create_task(self._serve_one(stream, reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve_one(
        self, stream: CrowdedStream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer the request of a connection, and close it."""
        try:
            async with asyncio.timeout(self._timeout_s):
                head = await reader.readuntil(_HEAD_END)
            stream.admit()
            request = _parse(head)
            if request is None:
                answer = _Answer(400, b"not HTTP\n")
            else:
                answer = await self._answer(request, stream.peer)
            stream.wait_for_peer()
            writer.write(answer.encode())
            writer.close()
            async with asyncio.timeout(self._timeout_s):
                await writer.wait_closed()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            _log.debug("metrics: request of %s failed: %r", address_text(*stream.peer), error)
        finally:
            writer.transport.abort()
