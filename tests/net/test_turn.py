"""What is handled together at the end of a turn of the loop, by a handler in bulk and by commands."""

import asyncio
import logging
from collections.abc import Sequence

import pytest

from cometmq.io.clock import ManualClock
from cometmq.net.flow import FlowLimits
from cometmq.net.server import Server, Session
from cometmq.net.turn import READ_MAX, SHARE_MIN, Read
from cometmq.wire.codes import ResponseCode
from cometmq.wire.connection import FrameReader
from cometmq.wire.frame import Command, encode, response

USUAL, OTHER = 1, 2


class Transport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.is_read = True

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def get_extra_info(self, name: str, default: object = None) -> object:
        return ("192.0.2.1", 5) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

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
        self.late: list[tuple[int, int]] = []

    def handle(self, session: Session, commands: list[Command]) -> None:
        for command in commands:
            self.handled.append(command.opaque)
            if session.waited_ms:
                self.late.append((command.opaque, session.waited_ms))
            session.send(response(command))

    def closed(self, session: Session) -> None:
        pass


class Bulk:
    """Accepts the usual frames; fails when it has accepted so many."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.left = 1000

    def take(self, reads: Sequence[Read]) -> None:
        self.calls.append(len(reads))
        for read in reads:
            while read.position < len(read.data):
                end = read.position + 4 + int.from_bytes(read.data[read.position : read.position + 4], "big")
                data = read.data[read.position : end]
                if end > len(read.data):
                    read.session.handle(read, data)
                    break
                (command,) = FrameReader().receive_data(data)
                if command.code != USUAL:
                    read.session.handle(read, data)
                    continue
                if not self.left:
                    raise KeyError("a secret")
                self.left -= 1
                read.session.send(response(command))
                read.position = end


class Desk:
    """A server without sockets, and connections to it."""

    def __init__(self, connections: int, **limits: int) -> None:
        self.handler, self.bulk, self.clock = Answering(), Bulk(), ManualClock()
        self.server = Server(self.handler, clock=self.clock, limits=FlowLimits(**limits), late_ms=200)
        self.server.bulk = self.bulk
        self.transports = [Transport() for _ in range(connections)]
        self.sessions = [Session(self.server.shared) for _ in range(connections)]
        for session, transport in zip(self.sessions, self.transports, strict=True):
            session.connection_made(transport)


def frame(opaque: int, code: int = USUAL) -> bytes:
    return encode(Command(code, opaque))


async def test_what_all_read_in_a_turn_is_taken_by_one_call_and_answered_by_a_write_each() -> None:
    desk = Desk(64)
    for number, session in enumerate(desk.sessions):
        session.data_received(frame(number))
        session.data_received(frame(100 + number))
    assert desk.bulk.calls == []
    await asyncio.sleep(0)
    assert desk.bulk.calls == [64] and desk.handler.handled == []
    for number, transport in enumerate(desk.transports):
        assert len(transport.writes) == 1 and transport.opaques() == [number, 100 + number]


async def test_the_order_of_a_connection_is_kept_whatever_is_unusual_in_it() -> None:
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
    assert desk.bulk.calls == [2, 1]


async def test_where_bulk_fails_what_is_left_of_all_reads_is_answered_with_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.CRITICAL):
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


@pytest.mark.parametrize("end", ["eof", "lost"])
async def test_what_came_before_the_end_of_a_connection_is_handled_before_it(end: str) -> None:
    desk = Desk(1)
    (session,) = desk.sessions
    session.data_received(frame(1, OTHER))
    if end == "eof":
        session.eof_received()
        assert desk.transports[0].opaques() == [1]
    else:
        session.connection_lost(None)
    assert desk.handler.handled == [1]


async def test_what_is_sent_between_turns_leaves_in_one_write_for_each_connection() -> None:
    desk = Desk(3)
    for session in desk.sessions * 2:
        session.send(frame(1))
    assert not any(transport.writes for transport in desk.transports)
    await asyncio.sleep(0)
    assert [len(transport.writes) for transport in desk.transports] == [1, 1, 1]


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def frames(first: int, count: int, code: int = USUAL) -> bytes:
    """Encode frames of some hundred bytes each."""
    return b"".join(encode(Command(code, first + number, body=bytes(400))) for number in range(count))


async def test_of_a_flood_each_connection_has_its_share_of_a_turn() -> None:
    desk = Desk(3, turn_max=4 * SHARE_MIN, unhandled_max=1 << 20)
    flood, other, small = desk.sessions
    flood.data_received(frames(0, 100))
    other.data_received(frames(100, 100))
    small.data_received(frame(200) + frame(201))
    await asyncio.sleep(0)
    answered = [len(transport.opaques()) for transport in desk.transports]
    assert 0 < answered[0] == answered[1] < 20, "the same share of each"
    assert answered[2] == 2, "who sends little is served whole"
    small.data_received(frame(202))
    await asyncio.sleep(0)
    assert desk.transports[2].opaques() == [200, 201, 202], "and again in the next turn"
    await turns(100)
    assert desk.transports[0].opaques() == list(range(100))
    assert desk.transports[1].opaques() == list(range(100, 200))


async def test_a_connection_with_much_unhandled_is_read_again_when_all_of_it_is_handled() -> None:
    desk = Desk(2, turn_max=SHARE_MIN, unhandled_max=2 * SHARE_MIN)
    flood, small = desk.transports
    desk.sessions[0].data_received(frames(0, 30))
    desk.sessions[1].data_received(frame(30))
    assert not flood.is_read and small.is_read
    turns = 0
    while not flood.is_read:
        assert len(flood.opaques()) < 30
        await asyncio.sleep(0)
        turns += 1
    assert turns > 2 and flood.opaques() == list(range(30))


async def test_while_too_much_is_unhandled_in_all_nobody_is_read() -> None:
    limits = {"turn_max": SHARE_MIN, "unhandled_max": 1 << 20, "unhandled_total_max": 8 * SHARE_MIN}
    desk = Desk(3, **limits)
    desk.sessions[0].data_received(frames(0, 50))
    assert all(transport.is_read for transport in desk.transports)
    desk.sessions[1].data_received(frames(50, 50))
    assert not any(transport.is_read for transport in desk.transports)
    while desk.server.turn.is_full:
        assert desk.server.turn.unhandled > limits["unhandled_total_max"]
        await asyncio.sleep(0)
    assert [transport.is_read for transport in desk.transports] == [False, False, True]
    await turns(100)
    assert all(transport.is_read for transport in desk.transports)
    assert [len(transport.opaques()) for transport in desk.transports] == [50, 50, 0]


async def test_what_has_waited_too_long_is_not_for_bulk_and_the_handler_is_told_so() -> None:
    desk = Desk(2, turn_max=SHARE_MIN, unhandled_max=1 << 20)
    flood, small = desk.sessions
    flood.data_received(frames(0, 30))
    await asyncio.sleep(0)
    bulk_calls, answered = len(desk.bulk.calls), len(desk.transports[0].opaques())
    assert 0 < answered < 20 and desk.handler.late == []
    small.data_received(frame(50))
    desk.clock.advance(300)
    await asyncio.sleep(0)
    late = [opaque for opaque, _ in desk.handler.late]
    assert late == desk.transports[0].opaques()[answered:]
    assert {waited_ms for _, waited_ms in desk.handler.late} == {300}
    assert desk.transports[1].opaques() == [50] and len(desk.bulk.calls) == bulk_calls + 1
    await turns(100)
    assert desk.transports[0].opaques() == list(range(30))
    assert [opaque for opaque, _ in desk.handler.late] == late, "only what waited then"


async def test_what_a_congested_peer_has_sent_is_handled_when_it_reads_again_or_ends() -> None:
    desk = Desk(2)
    for number, session in enumerate(desk.sessions):
        session.data_received(frame(number))
        session.pause_writing()
    await asyncio.sleep(0)
    assert desk.bulk.calls == [] and not any(transport.is_read for transport in desk.transports)
    desk.sessions[0].resume_writing()
    desk.sessions[0].data_received(frame(10))
    await asyncio.sleep(0)
    assert desk.transports[0].is_read and desk.transports[0].opaques() == [0, 10]
    desk.sessions[1].eof_received()
    assert desk.transports[1].opaques() == [1]


async def test_reading_stays_stopped_if_answers_that_waited_congest_the_peer_again() -> None:
    desk = Desk(1)
    (session,), (transport,) = desk.sessions, desk.transports
    session.pause_writing()
    session.when_drained(session.pause_writing)
    session.resume_writing()
    assert session.congested and not transport.is_read
    session.resume_writing()
    assert not session.congested and transport.is_read


@pytest.mark.parametrize("end", ["eof", "lost"])
async def test_all_that_came_before_the_end_of_a_connection_is_handled_however_much_it_is(end: str) -> None:
    desk = Desk(2, turn_max=SHARE_MIN)
    count = 2 * READ_MAX // 400
    desk.sessions[0].data_received(frames(0, count))
    desk.sessions[1].data_received(frames(0, 30))
    await asyncio.sleep(0)
    if end == "eof":
        desk.sessions[0].eof_received()
    else:
        desk.sessions[0].connection_lost(None)
    assert desk.transports[0].opaques() == list(range(count))
    assert len(desk.transports[1].opaques()) < 30, "the others have their turn as ever"


async def test_a_peer_that_breaks_the_protocol_is_heard_no_further(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.CRITICAL):
        desk = Desk(1, turn_max=SHARE_MIN, unhandled_max=1 << 20)
        desk.sessions[0].data_received(frame(1) + bytes(2 * READ_MAX) + frame(2))
        await turns(100)
        assert desk.transports[0].opaques() == [1] and desk.sessions[0].closed
