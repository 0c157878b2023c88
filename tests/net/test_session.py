"""A session by itself: whom it tells that its connection is gone."""

import asyncio

from cometmq.net.server import Server, Session
from cometmq.wire.frame import Command


class Deaf:
    """A handler that does nothing but count who went."""

    def __init__(self) -> None:
        self.gone: list[Session] = []

    def handle(self, session: Session, commands: list[Command]) -> None:
        raise AssertionError(f"nothing was sent: {session}, {commands}")

    def closed(self, session: Session) -> None:
        self.gone.append(session)


async def test_a_connection_that_is_lost_is_told_to_server_and_acceptor_once() -> None:
    handler = Deaf()
    server = Server(handler)
    port = await server.start("127.0.0.1", 0)
    lost = asyncio.Event()
    session = Session(server, lost.set)
    listening = await asyncio.get_running_loop().create_server(lambda: session, "127.0.0.1", 0)
    _, writer = await asyncio.open_connection(*listening.sockets[0].getsockname())
    writer.close()
    await asyncio.wait_for(lost.wait(), 10)
    assert (handler.gone, server.sessions, session.server) == ([session], set(), server)
    listening.close()
    await server.stop()
    assert port
