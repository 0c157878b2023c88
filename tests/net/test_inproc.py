"""Connections without sockets: in one loop, between two, and to one that is gone."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

import pytest

from cometmq.errors import NetworkError, SettingsError
from cometmq.net import inproc
from cometmq.net.connection import Connection
from cometmq.net.server import Server, Session
from cometmq.wire.frame import Command, response

SIZE = 1 << 20


class Echo:
    """Answers with what it was sent, and remembers who asked."""

    def __init__(self) -> None:
        self.peers: list[str] = []
        self.gone = threading.Event()

    def handle(self, session: Session, commands: list[Command]) -> None:
        self.peers.append(session.peer[0])
        for command in commands:
            session.send(response(command, body=command.body))

    def closed(self, _: Session) -> None:
        self.gone.set()


class Side(asyncio.Protocol):
    """One side of a connection, which notes what happens to it."""

    def __init__(self) -> None:
        self.data = b""
        self.can_write, self.has_data, self.ended, self.lost = (asyncio.Event() for _ in range(4))
        self.can_write.set()
        self.error: Exception | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, inproc.InprocTransport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data
        self.has_data.set()

    def eof_received(self) -> None:
        self.ended.set()

    def pause_writing(self) -> None:
        self.can_write.clear()

    def resume_writing(self) -> None:
        self.can_write.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.error = exc
        self.lost.set()


@contextmanager
def served_in_a_thread(handler: Echo) -> Iterator[int]:
    started: Future[tuple[int, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def main() -> None:
        server, stop = Server(handler), asyncio.Event()
        port = await server.start(inproc.HOST, 0)
        started.set_result((port, asyncio.get_running_loop(), stop))
        await stop.wait()
        await server.stop()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    port, loop, stop = started.result()
    try:
        yield port
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()


async def pair() -> tuple[Side, Side]:
    """Return both sides of a connection within this loop."""
    sides: list[Side] = []

    def accept() -> Side:
        sides.append(Side())
        made.set()
        return sides[0]

    made = asyncio.Event()
    listener = inproc.listen(0, accept)
    client = inproc.connect(listener.port, Side)
    await made.wait()
    listener.close()
    return client, sides[0]


def test_requests_and_answers_go_from_loop_to_loop() -> None:
    async def ask(port: int) -> None:
        connection = await Connection.open(f"{inproc.HOST}:{port}")
        answers = await asyncio.gather(
            *(connection.request(Command(1, body=b"%d" % number * SIZE)) for number in range(10))
        )
        assert [answer.body[:1] for answer in answers] == [b"%d" % number for number in range(10)]
        assert {len(answer.body) for answer in answers} == {SIZE}
        await connection.close()

    handler = Echo()
    with served_in_a_thread(handler) as port:
        asyncio.run(ask(port))
        handler.gone.wait()
    assert set(handler.peers) == {inproc.HOST}


async def test_a_port_has_one_listener_and_without_one_there_is_no_connection() -> None:
    server, other = Server(Echo()), Server(Echo())
    port = await server.start(inproc.HOST, 0)
    with pytest.raises(SettingsError, match="another process listens there"):
        await other.start(inproc.HOST, port)
    connection = await Connection.open(f"{inproc.HOST}:{port}")
    assert (await connection.request(Command(1, body=b"x"))).body == b"x"
    await connection.close()
    await server.stop()
    with pytest.raises(NetworkError, match="Connection refused"):
        await Connection.open(f"{inproc.HOST}:{port}")


async def test_who_is_not_read_is_told_to_pause() -> None:
    client, server = await pair()
    server.transport.pause_reading()
    client.transport.set_write_buffer_limits(high=100, low=10)
    client.transport.write(b"x" * 100)
    assert client.can_write.is_set()
    client.transport.writelines([b"y", b"z"])
    assert not client.can_write.is_set()
    assert client.transport.get_write_buffer_size() == 102
    assert not server.transport.is_reading()
    server.transport.resume_reading()
    await client.can_write.wait()
    assert server.data == b"x" * 100 + b"yz"
    client.transport.close()
    await asyncio.gather(client.lost.wait(), server.lost.wait())


async def test_a_close_lets_the_other_side_read_to_the_end() -> None:
    client, server = await pair()
    server.transport.pause_reading()
    client.transport.write(b"last words")
    client.transport.close()
    client.transport.write(b"too late")
    assert client.transport.is_closing()
    server.transport.resume_reading()
    await asyncio.gather(client.lost.wait(), server.lost.wait())
    assert (server.data, server.ended.is_set()) == (b"last words", True)
    assert (client.error, server.error) == (None, None)


async def test_a_cut_loses_what_was_not_read() -> None:
    client, server = await pair()
    server.transport.pause_reading()
    client.transport.write(b"lost")
    client.transport.abort()
    await asyncio.gather(client.lost.wait(), server.lost.wait())
    assert (server.data, server.ended.is_set()) == (b"", False)
    assert isinstance(server.error, ConnectionResetError)


async def test_a_side_that_is_gone_does_not_keep_the_other_from_closing() -> None:
    client, server = await pair()
    server.transport.pause_reading()
    client.transport.write(b"unread")
    server.transport.close()
    client.transport.close()
    server.transport.abort()
    await asyncio.gather(client.lost.wait(), server.lost.wait())


def test_a_loop_that_is_gone_is_a_lost_connection() -> None:
    async def serve() -> int:
        return inproc.listen(0, Side).port

    async def ask(port: int) -> None:
        side = inproc.connect(port, Side)
        await side.lost.wait()
        assert isinstance(side.error, ConnectionResetError)

    port = asyncio.run(serve())
    asyncio.run(ask(port))
    inproc._listening.pop(port).close()
