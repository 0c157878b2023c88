"""Connections on which no known user has signed a call yet, and others."""

import asyncio
import contextlib
import gc
import logging
import socket
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from grpclib.client import Channel
from grpclib.exceptions import StreamTerminatedError
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.settings import SettingCodes
from hyperframe.frame import GoAwayFrame, PingFrame, SettingsFrame, WindowUpdateFrame
from tests.proxy.conftest import GrpcClient
from tests.proxy.http2.conftest import connected, data_frame, headers_frame, only, request_frame, serving

from cometmq.net.newcomers import NewcomerLimits
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy import transport
from cometmq.proxy.connection import DROPPED_BYTES_MAX, NEWCOMER_LIMITS, WINDOW_BYTES, GrpcConnection
from cometmq.proxy.settings import ProxySettings
from cometmq.proxy.transport import Call, GrpcServer
from cometmq.testing.embedded_broker import until

LIMIT_S = 60
REFUSED = pb.HeartbeatResponse(status=pb.Status(code=pb.UNAUTHORIZED))
LARGE = pb.HeartbeatRequest(group=pb.Resource(name="x" * 1_000_000))


async def beat(request: pb.HeartbeatRequest, _: Call) -> pb.HeartbeatResponse:
    return pb.HeartbeatResponse(status=pb.Status(message=str(len(request.group.name))))


async def identify(_: str, call: Call) -> Any:
    return None if "authorization" in call.metadata else REFUSED


@asynccontextmanager
async def checking(
    monkeypatch: pytest.MonkeyPatch, limits: NewcomerLimits = NEWCOMER_LIMITS
) -> AsyncIterator[GrpcServer]:
    monkeypatch.setattr(transport, "NEWCOMER_LIMITS", limits)
    server = GrpcServer({"Heartbeat": beat}, identify=identify)
    await server.start("127.0.0.1", 0)
    async with asyncio.timeout(LIMIT_S):
        yield server
    await server.stop()


def client_of(channel: Channel, *, signed: bool = False) -> GrpcClient:
    return GrpcClient(channel, {"authorization": "me"} if signed else {})


async def call(client: GrpcClient, request: pb.HeartbeatRequest | None = None) -> pb.HeartbeatResponse:
    answer: pb.HeartbeatResponse = await client.call("Heartbeat", request or pb.HeartbeatRequest())
    return answer


async def closed(reader: asyncio.StreamReader) -> None:
    """Read to the end."""
    try:
        while await reader.read(1 << 16):
            pass
    except ConnectionResetError:
        pass


async def test_who_says_nothing_is_closed_in_its_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with checking(monkeypatch, NEWCOMER_LIMITS._replace(frame_ms_max=20)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        await closed(reader)
        writer.close()
    assert "no known user has signed a call on it in 0.02 s" in caplog.text


async def test_who_has_signed_a_call_may_be_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        checking(monkeypatch, NEWCOMER_LIMITS._replace(frame_ms_max=2_000)) as server,
        Channel("127.0.0.1", server.port) as channel,
    ):
        await call(client_of(channel, signed=True))
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        await closed(reader)
        writer.close()
        assert server.connected == 1
        assert await call(client_of(channel)) != REFUSED


async def test_of_too_many_connections_of_an_address_the_oldest_is_closed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with checking(monkeypatch, NEWCOMER_LIMITS._replace(connections_max=2)) as server:
        peers = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(3)]
        await closed(peers[0][0])
        assert server.connected == 2
        for _, writer in peers:
            writer.close()
    (line,) = [one.getMessage() for one in caplog.records]
    assert line.endswith("their address has more than 2 such connections")


async def test_after_too_many_refused_calls_it_is_closed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with (
        checking(monkeypatch, NEWCOMER_LIMITS._replace(refused_max=2)) as server,
        Channel("127.0.0.1", server.port) as channel,
    ):
        for _ in range(2):
            assert await call(client_of(channel)) == REFUSED
        with pytest.raises(StreamTerminatedError):
            await call(client_of(channel))
    assert "more than 2 of its requests were refused before one was signed by a known user" in caplog.text
    assert "unsignedRequestsMax" not in caplog.text


async def test_a_request_that_nobody_known_has_signed_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        checking(monkeypatch) as server,
        Channel("127.0.0.1", server.port) as channel,
    ):
        monkeypatch.setattr(transport, "REQUEST_BYTES_MAX", 0)  # would be told of one that is read
        assert await call(client_of(channel), LARGE) == REFUSED


async def test_the_first_signed_call_may_be_as_large_as_anybodys(monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        checking(monkeypatch) as server,
        Channel("127.0.0.1", server.port) as channel,
    ):
        assert (await call(client_of(channel, signed=True), LARGE)).status.message == "1000000"


@pytest.mark.parametrize("checks", [False, True])
async def test_the_client_is_told_how_much_may_be_under_way(
    monkeypatch: pytest.MonkeyPatch, checks: bool
) -> None:
    monkeypatch.setattr(transport, "NEWCOMER_LIMITS", NEWCOMER_LIMITS)
    server = GrpcServer({"Heartbeat": beat}, identify=identify if checks else None)
    await server.start("127.0.0.1", 0)
    async with Channel("127.0.0.1", server.port) as channel:

        def told() -> tuple[int, int | None]:
            http2: H2Connection = channel._protocol.connection._connection  # type: ignore[union-attr] # connected
            settings = http2.remote_settings
            return settings.initial_window_size, settings.get(SettingCodes.MAX_CONCURRENT_STREAMS)

        await call(client_of(channel))
        before = told()
        await call(client_of(channel, signed=True))
        await call(client_of(channel, signed=True), LARGE)
        assert before == ((NEWCOMER_LIMITS.frame_size_max, 100) if checks else told())
        assert told() == (WINDOW_BYTES, ProxySettings().calls_max)
    await server.stop()


async def test_nothing_is_kept_of_connections_that_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    async with checking(monkeypatch) as server:
        async with Channel("127.0.0.1", server.port) as channel:
            await call(client_of(channel))
            assert server._newcomers is not None and len(server._newcomers._refused) == 1
        async with Channel("127.0.0.1", server.port) as channel:
            await call(client_of(channel, signed=True))
            assert server._newcomers._refused == {}


async def test_a_connection_that_is_gone_is_freed_without_a_collection_of_garbage() -> None:
    freed = asyncio.Event()
    async with serving({"Heartbeat": beat}) as server:
        gc.disable()
        try:
            async with connected(server) as client:
                client.send(headers_frame(1), request_frame(1, pb.HeartbeatRequest()))
                await client.trailers(1)
                (found,) = server._connections
                weakref.finalize(found, freed.set)
                del found
            async with asyncio.timeout(LIMIT_S):
                await freed.wait()
        finally:
            gc.enable()


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b"\0\0\1\6\0\0\0\0\0x", ErrorCodes.FRAME_SIZE_ERROR),  # a PING of one byte
        (GoAwayFrame(0).serialize(), ErrorCodes.NO_ERROR),
    ],
    ids=["an error", "it leaves"],
)
async def test_a_client_may_read_the_goodbye_although_more_of_it_comes(
    frame: bytes, code: ErrorCodes
) -> None:
    """A socket that is closed while something is unread has the client's system drop what it was told."""
    async with serving({"Heartbeat": beat}) as server, connected(server) as client:
        client.send(frame)
        assert (await client.next(GoAwayFrame)).error_code == code
        assert await client.frame() is None
        client.send(b"x" * (2 * DROPPED_BYTES_MAX))
        connection = only(server._connections)
        assert await until(lambda: not connection._transport.is_reading(), LIMIT_S)
        assert await until(lambda: server.connected == 0, LIMIT_S)


@pytest.mark.parametrize("frame", [PingFrame(0, b"12345678"), WindowUpdateFrame(0, 1)])
async def test_who_sends_frames_that_carry_nothing_loses_the_connection(
    caplog: pytest.LogCaptureFixture, frame: PingFrame | WindowUpdateFrame
) -> None:
    settings = ProxySettings(idle_frames_max=100, idle_frames_per_second=1)
    async with serving({"Heartbeat": beat}, settings=settings) as server, connected(server) as client:
        client.send(frame.serialize() * 1_000)
        goodbye = await client.goodbye()
    assert goodbye is not None and goodbye.error_code == ErrorCodes.ENHANCE_YOUR_CALM
    (record,) = caplog.records
    assert "(idleFramesMax) (ENHANCE_YOUR_CALM)" in record.getMessage()


async def test_what_is_no_http2_is_told_so_and_closed() -> None:
    async with serving({"Heartbeat": beat}) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await closed(reader)
        writer.close()


async def test_others_are_served_while_one_floods() -> None:
    """Each turn handles some frames of it, and what others send meanwhile."""
    handled: list[str] = []

    async def note(request: pb.HeartbeatRequest, _: Call) -> pb.HeartbeatResponse:
        handled.append(request.group.name)
        return pb.HeartbeatResponse()

    settings = ProxySettings(turn_frames_max=16, unhandled_bytes_max=65_536)
    async with (
        serving({"Heartbeat": note}, settings=settings) as server,
        connected(server) as flooding,
        connected(server) as other,
    ):
        flood = pb.HeartbeatRequest(group=pb.Resource(name="flood"))
        flooding.send(
            *(headers_frame(number) + request_frame(number, flood) for number in range(1, 2_000, 2))
        )
        other.send(headers_frame(1), request_frame(1, pb.HeartbeatRequest(group=pb.Resource(name="other"))))
        await other.trailers(1)
        while handled.count("flood") < 900:
            await flooding.frame()
    assert handled.index("other") < 900


async def test_a_flood_is_not_read_while_too_much_of_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting: list[int] = []
    pause = GrpcConnection._pause_if_full

    def watched(connection: GrpcConnection) -> None:
        waiting.append(connection._http2.reader.size)
        pause(connection)

    monkeypatch.setattr(GrpcConnection, "_pause_if_full", watched)
    settings = ProxySettings(turn_frames_max=64, unhandled_bytes_max=65_536)
    async with serving({"Heartbeat": beat}, settings=settings) as server, connected(server) as client:
        tiny = data_frame(1, b"\0", ends=False)
        client.send(headers_frame(1), tiny * 100_000, PingFrame(0, b"12345678").serialize())
        await client.next(PingFrame)
    assert 65_536 < max(waiting) < 65_536 + (1 << 18)


async def test_who_sends_and_never_reads_loses_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    settings = ProxySettings(
        unsent_bytes_max=65_536, idle_frames_max=1_000_000, idle_frames_per_second=1_000_000
    )
    async with serving({"Heartbeat": beat}, settings=settings) as server:
        with_little_room = socket.socket()
        with_little_room.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        with_little_room.connect(("127.0.0.1", server.port))
        reader, writer = await asyncio.open_connection(sock=with_little_room, limit=1)
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SettingsFrame(0).serialize())
        pings = PingFrame(0, b"12345678").serialize() * 10_000
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(LIMIT_S):
                while True:
                    writer.write(pings)
                    await writer.drain()
        writer.close()
        assert not reader.at_eof()
    assert "(unsentBytesMax)" in caplog.text
