"""What is handled together at the end of a turn of the loop, by a handler in bulk and by commands."""

import asyncio
import logging
from collections.abc import Sequence

import pytest
from tests.net.conftest import Run

from cometmq.net.server import Server, Session
from cometmq.net.turn import Read
from cometmq.wire.codes import ResponseCode
from cometmq.wire.connection import FrameReader
from cometmq.wire.frame import Command, encode, response

USUAL, OTHER = 1, 2


class Transport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []

    def get_extra_info(self, name: str, default: object = None) -> object:
        return ("192.0.2.1", 5) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        pass

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    def opaques(self) -> list[int]:
        return [answer.opaque for answer in FrameReader().receive_data(b"".join(self.writes))]


class Answering:
    """Answers commands, and notes who asked."""

    def __init__(self) -> None:
        self.handled: list[int] = []

    def handle(self, session: Session, commands: list[Command]) -> None:
        for command in commands:
            self.handled.append(command.opaque)
            session.send(response(command))

    def closed(self, session: Session) -> None:
        pass


class Bulk:
    """Takes the usual frames; fails when it has taken so many."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.left = 1000

    def take(self, reads: Sequence[Read]) -> None:
        self.calls.append(len(reads))
        for read in reads:
            read.commands_end = len(read.data)
            while read.position < len(read.data):
                end = read.position + 4 + int.from_bytes(read.data[read.position : read.position + 4], "big")
                if end > len(read.data):
                    break
                (command,) = FrameReader().receive_data(read.data[read.position : end])
                if command.code != USUAL:
                    read.commands_end = end
                    break
                if not self.left:
                    raise KeyError("a secret")
                self.left -= 1
                read.session.send(response(command))
                read.position = end


class Desk:
    """A server without sockets, and connections to it."""

    def __init__(self, connections: int) -> None:
        self.handler, self.bulk = Answering(), Bulk()
        self.server = Server(self.handler)
        self.server.bulk = self.bulk
        self.transports = [Transport() for _ in range(connections)]
        self.sessions = [Session(self.server) for _ in range(connections)]
        for session, transport in zip(self.sessions, self.transports, strict=True):
            session.connection_made(transport)


def frame(opaque: int, code: int = USUAL) -> bytes:
    return encode(Command(code, opaque))


def test_what_many_connections_read_in_a_turn_is_taken_by_one_call_and_answered_by_a_write_each(
    run: Run,
) -> None:
    async def main() -> None:
        desk = Desk(64)
        for number, session in enumerate(desk.sessions):
            session.data_received(frame(number))
            session.data_received(frame(100 + number))
        assert desk.bulk.calls == []
        await asyncio.sleep(0)
        assert desk.bulk.calls == [64] and desk.handler.handled == []
        for number, transport in enumerate(desk.transports):
            assert len(transport.writes) == 1 and transport.opaques() == [number, 100 + number]

    run(main())


def test_the_order_of_a_connection_is_kept_whatever_is_unusual_in_it(run: Run) -> None:
    async def main() -> None:
        desk = Desk(2)
        first, second = desk.sessions
        data = frame(1) + frame(2, OTHER) + frame(3) + frame(4) + frame(5, OTHER) + frame(6)
        first.data_received(data[:-10])
        second.data_received(frame(7))
        await asyncio.sleep(0)
        assert desk.handler.handled == [2, 5]
        first.data_received(data[-10:])
        await asyncio.sleep(0)
        assert [transport.opaques() for transport in desk.transports] == [[1, 2, 3, 4, 5, 6], [7]]
        assert desk.bulk.calls == [2, 1, 1, 1], "a read is done with when nothing of it is left"

    run(main())


def test_where_bulk_fails_what_is_left_of_all_reads_is_answered_with_an_error(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        desk = Desk(2)
        desk.bulk.left = 1
        for number, session in enumerate(desk.sessions):
            session.data_received(frame(number) + frame(10 + number))
        await asyncio.sleep(0)
        codes = [
            [answer.code for answer in FrameReader().receive_data(b"".join(transport.writes))]
            for transport in desk.transports
        ]
        error = ResponseCode.SYSTEM_ERROR
        assert codes == [[0, error], [error, error]]

    with caplog.at_level(logging.CRITICAL):
        run(main())


@pytest.mark.parametrize("end", ["eof", "lost"])
def test_what_came_before_the_end_of_a_connection_is_handled_before_it(run: Run, end: str) -> None:
    async def main() -> None:
        desk = Desk(1)
        (session,) = desk.sessions
        session.data_received(frame(1, OTHER))
        if end == "eof":
            session.eof_received()
            assert desk.transports[0].opaques() == [1]
        else:
            session.connection_lost(None)
        assert desk.handler.handled == [1]

    run(main())


def test_what_is_sent_between_turns_leaves_in_one_write_for_each_connection(run: Run) -> None:
    async def main() -> None:
        desk = Desk(3)
        for session in desk.sessions * 2:
            session.send(frame(1))
        assert not any(transport.writes for transport in desk.transports)
        await asyncio.sleep(0)
        assert [len(transport.writes) for transport in desk.transports] == [1, 1, 1]

    run(main())
