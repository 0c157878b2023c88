"""Accepting: as many connections as are allowed, and a system that can give none."""

import asyncio
import errno
import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from cometmq.net import accepting, occasional_log
from cometmq.net.accepting import Acceptor, ConnectionCount
from cometmq.net.listening import listen
from cometmq.net.server import Server, Session
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
async def serving(most: int | None = MOST) -> AsyncIterator[tuple[Server, int, Silent]]:
    handler = Silent()
    server = Server(handler, connections_max=most)
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
    acceptor = Acceptor(sockets, lambda _: asyncio.Protocol(), None, ConnectionCount())
    acceptor.close()
    acceptor.close()
    await acceptor.wait_closed()
    assert all(one.fileno() == -1 for one in sockets)
