"""Connections of browsers, over real sockets: who keeps the console waiting, and how many may."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send
from tests.kit.raw_peers import is_closed
from uvicorn import Config, Server

from cometmq.console.connections import READ_BYTES_MIN, BrowserConnection, WaitingConnections
from cometmq.console.settings import LIMITS, ConnectionLimits
from cometmq.net.accepting import Acceptor, ConnectionCount
from cometmq.net.listening import listen

LIMIT_S = 60
SHORT_MS = 200
PATIENT_MS = 3_600_000
"""Longer than any test: whoever goes before has had to give way."""
REQUEST = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
LARGE = 32 << 20
"""Bytes of an answer that a peer cannot leave to the system's buffers."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Scene:
    """A server with an application of the test's own, and its connections.

    Attributes:
        gate: answers wait until it is set.
        size: bytes of each answer.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.size = 2
        self.waiting = WaitingConnections(limits)
        self.limits = limits
        quiet: dict[str, Any] = {"lifespan": "off", "ws": "none", "log_config": None, "access_log": False}
        self.server = Server(Config(self.answer, interface="asgi3", **quiet))
        self.writers: list[asyncio.StreamWriter] = []

    async def answer(self, _: Scope, __: Receive, send: Send) -> None:
        await self.gate.wait()
        fields = [(b"content-length", str(self.size).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": fields})
        await send({"type": "http.response.body", "body": bytes(self.size)})

    async def listen(self) -> Acceptor:
        sockets = await listen("console", "127.0.0.1", 0, 100)
        self.place: tuple[str, int] = sockets[0].getsockname()
        own = ConnectionCount(self.limits.connections_max)
        make = partial(BrowserConnection, self.server, self.waiting)
        return Acceptor(sockets, make, own, crowd=self.waiting.crowd)

    async def opened(self, sent: bytes = b"") -> Streams:
        peer = socket.socket()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        peer.setblocking(False)
        await asyncio.get_running_loop().sock_connect(peer, self.place)
        reader, writer = await asyncio.open_connection(sock=peer)
        self.writers.append(writer)
        writer.write(sent)
        return reader, writer

    async def handling(self, count: int) -> None:
        """Wait until so many requests are being handled."""
        while len(self.server.server_state.tasks) < count:  # noqa: ASYNC110  uvicorn has no event for it
            await asyncio.sleep(0.01)

    @property
    def only(self) -> BrowserConnection:
        """The only connection that there is."""
        (one,) = self.server.server_state.connections
        assert isinstance(one, BrowserConnection)
        return one


@asynccontextmanager
async def serving(limits: ConnectionLimits = LIMITS) -> AsyncIterator[Scene]:
    scene = Scene(limits)
    acceptor = await scene.listen()
    try:
        async with asyncio.timeout(LIMIT_S):
            yield scene
    finally:
        for writer in scene.writers:
            writer.transport.abort()
        acceptor.close()
        await acceptor.wait_closed()
        while scene.server.server_state.connections:  # noqa: ASYNC110  uvicorn has no event for it
            await asyncio.sleep(0.01)
        scene.waiting.close()


async def is_answered(streams: Streams) -> bool:
    head = await streams[0].readuntil(b"\r\n\r\n")
    return head.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "sent",
    [b"", REQUEST[:20], REQUEST + REQUEST[:20], b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n1"],
    ids=["nothing", "a part", "a second one in part", "a part of a form"],
)
async def test_who_sends_no_whole_request_is_closed_in_time(
    sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with serving(LIMITS._replace(request_ms_max=SHORT_MS)) as scene:
        reader, _ = await scene.opened(sent)
        while await reader.read(1 << 16):
            pass
    assert "closed 1 connections: no whole request came on them in 0.2 s" in caplog.text
    assert "--request-timeout" in caplog.text


@pytest.mark.parametrize("before", [b"", REQUEST], ids=["at once", "behind another one"])
async def test_a_request_in_chunks_is_refused_before_they_are_read(
    caplog: pytest.LogCaptureFixture, before: bytes
) -> None:
    async with serving() as scene:
        head = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
        reader, _ = await scene.opened(before + head + b"1\r\na\r\n" * 30_000)
        if before:
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
            await reader.readexactly(scene.size)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 400 ")
    assert not [one for one in caplog.records if one.levelname == "ERROR"]


async def test_lines_that_come_one_by_one_give_no_more_time() -> None:
    async with serving(LIMITS._replace(request_ms_max=SHORT_MS)) as scene:
        reader, writer = await scene.opened(REQUEST[:-2])
        closed = asyncio.create_task(is_closed(reader))
        while not closed.done():
            writer.write(b"X: y\r\n")
            await asyncio.wait([closed], timeout=0.02)
        assert await closed


async def test_a_request_that_is_being_handled_is_in_no_hurry() -> None:
    async with serving(LIMITS._replace(request_ms_max=SHORT_MS, waiting_max=1)) as scene:
        scene.gate.clear()
        first = await scene.opened(REQUEST)
        await scene.handling(1)
        silent = [await scene.opened() for _ in range(2)]
        assert [await is_closed(reader) for reader, _ in silent] == [True, True]  # the second one by its time
        scene.gate.set()
        assert await is_answered(first)


async def test_of_one_address_the_oldest_that_keep_it_waiting_give_way(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(LIMITS._replace(waiting_max=2, request_ms_max=PATIENT_MS)) as scene:
        peers = [await scene.opened(REQUEST[:20]) for _ in range(5)]
        assert [await is_closed(reader) for reader, _ in peers[:3]] == [True] * 3
        assert await is_answered(await scene.opened(REQUEST))
    assert "no whole request had come on them" in caplog.text and "(--waiting-max)" in caplog.text


async def test_where_no_place_is_free_who_keeps_it_waiting_gives_way() -> None:
    limits = ConnectionLimits(connections_max=3, waiting_max=0, request_ms_max=PATIENT_MS)
    async with serving(limits) as scene:
        scene.gate.clear()
        busy = await scene.opened(REQUEST)
        await scene.handling(1)
        peers = [await scene.opened() for _ in range(2)]
        late = [await scene.opened(REQUEST) for _ in range(2)]
        assert [await is_closed(reader) for reader, _ in peers] == [True, True]
        await scene.handling(3)
        assert await is_closed((await scene.opened(REQUEST))[0]), "nobody keeps it waiting any more"
        scene.gate.set()
        for one in (busy, *late):
            assert await is_answered(one)


async def test_who_reads_an_answer_too_slowly_is_closed() -> None:
    async with serving(LIMITS._replace(request_ms_max=PATIENT_MS)) as scene:
        scene.size = LARGE
        reader, _ = await scene.opened(REQUEST)
        await reader.readuntil(b"\r\n\r\n")
        connection = scene.only
        while not connection._is_unread:  # noqa: ASYNC110  it has no event
            await asyncio.sleep(0.01)
        connection._wait_no_more()
        connection._look()
        unread = connection.transport.get_write_buffer_size()
        received = 0
        while connection.transport.get_write_buffer_size() > unread - READ_BYTES_MIN:
            received += len(await reader.read(1 << 16))
        connection._end_wait()
        assert not connection.transport.is_closing() and connection._deadline is not None
        connection._deadline.cancel()
        connection._end_wait()
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(LARGE - received)


async def test_who_reads_nothing_of_an_answer_is_closed_in_time() -> None:
    async with serving(LIMITS._replace(request_ms_max=SHORT_MS)) as scene:
        scene.size = LARGE
        await scene.opened(REQUEST)
        while not scene.server.server_state.connections:  # noqa: ASYNC110  uvicorn has no event for it
            await asyncio.sleep(0.01)
        while scene.server.server_state.connections:  # noqa: ASYNC110  as above
            await asyncio.sleep(0.01)


async def test_nothing_is_kept_of_connections_that_are_gone() -> None:
    async with serving() as scene:
        for sent in (b"", REQUEST, REQUEST[:20], b"no HTTP\r\n\r\n"):
            _, writer = await scene.opened(sent)
            writer.close()
        assert await is_answered(await scene.opened(REQUEST))
    assert not scene.waiting.crowd._by_address


@pytest.mark.parametrize("method", [b"POST", b"HEAD"])
@pytest.mark.parametrize("rest", [b"GET / HTTP/1.1\r\n\r\n", b"1\r\na\r\n"], ids=["nonsense", "chunks"])
async def test_a_request_whose_body_is_refused_is_answered_once_and_logged_without_a_traceback(
    caplog: pytest.LogCaptureFixture, method: bytes, rest: bytes
) -> None:
    async with serving() as scene:
        head = method + b" / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
        reader, _ = await scene.opened(head + rest)
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 400 ") and answer.count(b"HTTP/1.1") == 1
        assert (answer.partition(b"\r\n\r\n")[2] == b"") == (method == b"HEAD")
        assert await is_answered(await scene.opened(REQUEST))
    assert not [one for one in caplog.records if one.levelname == "ERROR"]


async def test_what_is_no_http_is_a_line_of_the_log_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with serving() as scene:
        for _ in range(9):
            reader, _ = await scene.opened(b"no HTTP\r\n\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
    lines = [one.getMessage() for one in caplog.records if "HTTP" in one.getMessage()]
    assert [line[:18] for line in lines] == ["refused 1 requests", "refused 8 requests"]
