"""A session by itself: whom it tells that its connection is gone."""

import asyncio
from collections.abc import Sequence

import pytest

from cometmq.net import session as session_module
from cometmq.net.server import Server, Session
from cometmq.net.turn import Read
from cometmq.wire.foreign import foreign_protocol
from cometmq.wire.frame import Command, encode


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
    session = Session(server.shared, lost.set)
    listening = await asyncio.get_running_loop().create_server(lambda: session, "127.0.0.1", 0)
    _, writer = await asyncio.open_connection(*listening.sockets[0].getsockname())
    writer.close()
    await asyncio.wait_for(lost.wait(), 60)
    assert (handler.gone, server.sessions, session.shared) == ([session], set(), server.shared)
    listening.close()
    await server.stop()
    assert port


class AllInBulk:
    """Accepts all frames, so that no session ever makes commands of them."""

    def __init__(self) -> None:
        self.came = asyncio.Event()

    def take(self, reads: Sequence[Read]) -> None:
        for read in reads:
            read.position = len(read.data)
        self.came.set()


async def test_only_the_first_bytes_of_a_connection_are_looked_at_for_another_protocol(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at: list[bytes] = []

    def look(head: bytes) -> str | None:
        looked_at.append(head)
        return foreign_protocol(head)

    monkeypatch.setattr(session_module, "foreign_protocol", look)
    server = Server(Deaf())
    server.bulk = bulk = AllInBulk()
    port = await server.start("127.0.0.1", 0)
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    frame = encode(Command(10))
    for _ in range(3):
        writer.write(frame)
        await asyncio.wait_for(bulk.came.wait(), 60)
        bulk.came.clear()
    assert looked_at == [frame[:24]]
    writer.close()
    await server.stop()
