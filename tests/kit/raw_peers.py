"""A server that echoes, and peers that send it bytes as they are."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from cometmq.io.clock import ManualClock
from cometmq.net.boundary import attempt
from cometmq.net.flow import FlowLimits
from cometmq.net.server import Server, Session
from cometmq.net.session import IDLE_MS_MAX
from cometmq.wire.connection import FrameReader
from cometmq.wire.frame import Command, encode, response

ECHO = 1
FAIL = 2
KEEP = 3
"""Requests of the test's own: answered, failing, kept unanswered."""


class Echo:
    """A handler that answers with the request's body."""

    def __init__(self) -> None:
        self.reads: list[int] = []
        self.kept: list[tuple[Session, Command]] = []
        self.gone: list[Session] = []
        self.fails_to_forget = False
        self._changed = asyncio.Event()

    def handle(self, session: Session, commands: list[Command]) -> None:
        self.reads.append(len(commands))
        for command in commands:
            attempt(session, [command], self.answer, session, command)
        self._changed.set()

    def answer(self, session: Session, command: Command) -> None:
        if command.code == FAIL:
            raise KeyError("a secret")
        if command.code == KEEP:
            self.kept.append((session, command))
        elif not command.is_oneway:
            session.send(response(command, body=command.body))

    def closed(self, session: Session) -> None:
        self.gone.append(session)
        self._changed.set()
        if self.fails_to_forget:
            raise KeyError(session)

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()


class RawPeer:
    """A peer that writes whatever bytes the test likes and reads frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._frames = FrameReader()
        self._commands: list[Command] = []

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def receive(self) -> Command:
        while not self._commands:
            data = await self.reader.read(1 << 16)
            assert data, "the server closed the connection"
            self._commands = self._frames.receive_data(data)
        return self._commands.pop(0)

    async def closed_by_server(self) -> bool:
        try:
            return await self.reader.read() == b""
        except ConnectionResetError:
            return True

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionResetError):
            await self.writer.wait_closed()


class Scene:
    """A server with its handler, its clock and raw peers."""

    def __init__(self, host: str, limits: FlowLimits, idle_ms_max: int) -> None:
        self.host = host
        self.handler = Echo()
        self.clock = ManualClock()
        self.server = Server(self.handler, clock=self.clock, limits=limits, idle_ms_max=idle_ms_max)
        self.port = 0
        self._peers: list[RawPeer] = []

    async def connect(self) -> RawPeer:
        peer = RawPeer(*await asyncio.open_connection(self.host, self.port))
        self._peers.append(peer)
        return peer

    async def accepted(self) -> None:
        """Return when the server has seen all connections made before: it accepts them in order."""
        probe = await self.connect()
        await probe.send(echo(0))
        await probe.receive()

    def pass_time(self, ms: int) -> None:
        self.clock.advance(ms)
        self.server.sweep()

    async def close(self) -> None:
        await self.server.stop()
        for peer in self._peers:
            await peer.close()


@asynccontextmanager
async def scene(
    host: str = "127.0.0.1", *, idle_ms_max: int = IDLE_MS_MAX, **limits: int
) -> AsyncIterator[Scene]:
    here = Scene(host, FlowLimits(**limits), idle_ms_max)
    here.port = await here.server.start(host, 0)
    try:
        yield here
    finally:
        await here.close()


def echo(number: int, body: bytes = b"") -> bytes:
    return encode(Command(ECHO, number, body=body))


async def is_closed(reader: asyncio.StreamReader) -> bool:
    """Whether a server closes a connection without another word."""
    try:
        async with asyncio.timeout(60):
            return await reader.read() == b""
    except ConnectionResetError:
        return True
