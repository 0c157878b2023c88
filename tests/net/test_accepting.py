"""Accepting: as many connections as are allowed, and a system that can give none."""

import asyncio
import errno
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.certificates import Authority

from cometmq.net import accepting, occasional_log
from cometmq.net.accepting import Acceptor, ConnectionCount
from cometmq.net.listening import listen
from cometmq.net.newcomers import NewcomerLimits
from cometmq.net.server import Server, Session
from cometmq.net.tls.server import HANDSHAKE, ServerTls
from cometmq.net.tls.settings import TlsSettings
from cometmq.wire.frame import Command, encode

MOST = 3
LIMIT_S = 60


class Silent:
    """A handler that answers nothing, and counts who went."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self.heard = asyncio.Event()

    def handle(self, _: Session, __: list[Command]) -> None:
        self.heard.set()

    def closed(self, _: Session) -> None:
        self.gone.set()


@asynccontextmanager
async def serving(
    most: int | None = MOST, newcomers: int | None = None, tls: ServerTls | None = None
) -> AsyncIterator[tuple[Server, int, Silent]]:
    """Run a server.

    Args:
        newcomers: how many of one address there may be; None for a server that limits none.
    """
    handler = Silent()
    server = Server(handler, connections_max=most, tls=tls)
    if newcomers is not None:
        server.limit_newcomers(NewcomerLimits(1 << 20, LIMIT_S * 1000, 0, newcomers))
    port = await server.start("127.0.0.1", 0)
    try:
        yield server, port, handler
    finally:
        await server.stop()


async def is_closed(reader: asyncio.StreamReader) -> bool:
    """Whether the server has closed a connection; one that it keeps says nothing."""
    try:
        return await asyncio.wait_for(reader.read(1), LIMIT_S) == b""
    except ConnectionResetError:
        return True


async def test_who_comes_when_all_places_are_taken_is_closed_and_the_others_stay(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving() as (server, port, handler):
        kept = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MOST)]
        late = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
        assert [await is_closed(reader) for reader, _ in late] == [True] * 20
        assert (len(server.sessions), server.refused_connections, server.connections_max) == (MOST, 20, MOST)
        assert [record.levelno for record in caplog.records] == [logging.WARNING]
        assert "maxConnections" in caplog.text
        kept.pop()[1].close()
        await asyncio.wait_for(handler.gone.wait(), LIMIT_S)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.2)
        for _, other in [*kept, *late, (reader, writer)]:
            other.close()


async def test_how_many_were_closed_is_told_once_in_a_while(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(occasional_log, "LOG_INTERVAL_S", 0.2)
    async with serving(1) as (_, port, __):
        peers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(10)]
        async with asyncio.timeout(LIMIT_S):
            while True:
                told = [record.args[0] for record in caplog.records if isinstance(record.args, tuple)]
                if sum(int(str(count)) for count in told) == 9:
                    break
                await asyncio.sleep(0.01)
        assert len(told) <= 3
        for _, writer in peers:
            writer.close()


async def test_several_addresses_of_a_server_share_its_places() -> None:
    async with serving(1) as (server, port, _):
        other = await server.start("127.0.0.1", 0)
        first = await asyncio.open_connection("127.0.0.1", port)
        second = await asyncio.open_connection("127.0.0.1", other)
        assert await is_closed(second[0])
        assert server.refused_connections == 1
        for _, writer in (first, second):
            writer.close()


async def test_servers_of_a_process_share_its_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cometmq.io.descriptors.connections_max", lambda _: accepting._OF_PROCESS.count + 1)
    async with serving(None) as (_, port, __), serving(None) as (server, other, ___):
        first = await asyncio.open_connection("127.0.0.1", port)
        second = await asyncio.open_connection("127.0.0.1", other)
        assert await is_closed(second[0])
        assert server.refused_connections == 1
        for _, writer in (first, second):
            writer.close()


async def test_where_newcomers_are_limited_the_oldest_of_them_makes_room_for_who_comes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(newcomers=0) as (server, port, _):
        peers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MOST + 20)]
        assert [await is_closed(reader) for reader, _ in peers[:20]] == [True] * 20
        assert server.refused_connections == 0
        for _, writer in peers:
            writer.close()
    assert "no known user had signed a request on them" in caplog.text


async def test_who_is_known_makes_no_room(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(most=1, newcomers=0) as (server, port, handler):
        known = await asyncio.open_connection("127.0.0.1", port)
        known[1].write(encode(Command(1)))
        await asyncio.wait_for(handler.heard.wait(), LIMIT_S)
        (session,) = server.sessions
        assert session.newcomers is not None
        session.newcomers.remove(session)
        late = await asyncio.open_connection("127.0.0.1", port)
        assert await is_closed(late[0]) and server.sessions == {session}
        for _, writer in (known, late):
            writer.close()
    assert "maxConnections" in caplog.text


async def test_connections_that_have_not_begun_tls_yet_are_newcomers_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cert, key = map(str, Authority(tmp_path).certify())
    patient = TlsSettings(
        tls_server_cert_path=cert,
        tls_server_key_path=key,
        tls_first_byte_timeout_ms=600_000,
        tls_handshake_timeout_ms=600_000,
    )
    async with serving(None, newcomers=2, tls=ServerTls(patient)) as (server, port, _):
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        slow = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        assert [await is_closed(reader) for reader, _ in silent] == [True] * 3
        for _, writer in slow:
            writer.write(HANDSHAKE)
        late = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        assert [await is_closed(reader) for reader, _ in slow] == [True] * 3
        assert server.newcomers is not None and server.refused_connections == 0
        for _, writer in (*silent, *slow, *late):
            writer.close()
    assert "unsignedConnectionsMax" in caplog.text


async def test_connections_that_have_places_of_their_own_come_in_when_the_process_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cometmq.io.descriptors.connections_max", lambda _: accepting._OF_PROCESS.count)
    made: asyncio.Queue[asyncio.Protocol] = asyncio.Queue()

    def make(_: Callable[[], None]) -> asyncio.Protocol:
        made.put_nowait(protocol := asyncio.Protocol())
        return protocol

    before = accepting._OF_PROCESS.count
    sockets = await listen("server", "127.0.0.1", 0, 1)
    acceptor = Acceptor(sockets, make, ConnectionCount(1, is_apart=True))
    async with asyncio.timeout(LIMIT_S):
        reader, writer = await asyncio.open_connection(*sockets[0].getsockname())
        await made.get()
        late_reader, late = await asyncio.open_connection(*sockets[0].getsockname())
        assert await is_closed(late_reader) and accepting._OF_PROCESS.count == before
    for one in (writer, late):
        one.close()
    assert await reader.read() == b""
    acceptor.close()
    await acceptor.wait_closed()


async def test_a_system_that_gives_no_descriptor_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Scarce(socket.socket):
        failures = 2

        def accept(self) -> tuple[socket.socket, object]:
            if Scarce.failures:
                Scarce.failures -= 1
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return super().accept()

    monkeypatch.setattr(accepting, "PAUSE_S", 0.01)
    monkeypatch.setattr("socket.socket", Scarce)
    async with serving() as (_, port, handler):
        writer = (await asyncio.open_connection("127.0.0.1", port))[1]
        writer.write(encode(Command(1)))
        await asyncio.wait_for(handler.heard.wait(), LIMIT_S)
        assert Scarce.failures == 0
        writer.close()


async def test_a_closed_acceptor_leaves_nothing_behind() -> None:
    sockets = await listen("server", "localhost", 0, 1)
    acceptor = Acceptor(sockets, lambda _: asyncio.Protocol(), ConnectionCount())
    acceptor.close()
    acceptor.close()
    await acceptor.wait_closed()
    assert all(one.fileno() == -1 for one in sockets)
