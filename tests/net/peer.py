"""A server of the tests' own, and what listens without being one, for tests of the client."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from cometmq.net.client import Connections
from cometmq.net.server import Server, Session
from cometmq.net.tls.server import ServerTls
from cometmq.wire.frame import ONEWAY_FLAG, Command, response

ECHO = 1
KEEP = 2
CLOSE = 3
ASK_BACK = 4
"""Requests of the test's own: answered, kept unanswered, answered by closing, answered by a request."""


class Peer:
    """A handler that does what the request's code says."""

    server: Server

    def __init__(self) -> None:
        self.address = ""
        self.commands: list[Command] = []
        self.sessions: list[Session] = []
        self.sessions_seen = 0
        self._changed = asyncio.Event()

    def handle(self, session: Session, commands: list[Command]) -> None:
        self.commands += commands
        if session not in self.sessions:
            self.sessions.append(session)
            self.sessions_seen += 1
        for command in commands:
            if command.code == CLOSE:
                session.close()
            elif command.code == ASK_BACK:
                session.send(Command(40, 1, ONEWAY_FLAG, ext_fields={"consumerGroup": "g"}))
                session.send(Command(307, 7, body=command.body))
            elif command.code == ECHO and not command.is_oneway:
                session.send(response(command, body=command.body))
        self._changed.set()

    def closed(self, session: Session) -> None:
        if session in self.sessions:
            self.sessions.remove(session)

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()


@asynccontextmanager
async def peer_at(
    host: str = "127.0.0.1", port: int = 0, tls: ServerTls | None = None
) -> AsyncIterator[Peer]:
    peer = Peer()
    peer.server = server = Server(peer, tls=tls)
    port = await server.start(host, port)
    peer.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        yield peer
    finally:
        await server.stop()


@asynccontextmanager
async def connections(**settings: Any) -> AsyncIterator[Connections]:
    client = Connections(**settings)
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def listener(on_connect: Callable[[asyncio.StreamWriter], None]) -> AsyncIterator[str]:
    """Run a server that reads nothing and only does ``on_connect``; give its address."""
    writers: list[asyncio.StreamWriter] = []

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        on_connect(writer)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        for writer in writers:
            writer.transport.abort()
        server.close()
        await server.wait_closed()
