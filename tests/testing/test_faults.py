"""Faults, by a client of raw commands: who sees which answer, and what is done."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from cometmq.errors import NetworkError, RequestTimeout
from cometmq.net.connection import Connection
from cometmq.net.server import Server, Session
from cometmq.testing.faults import REMARK, Fault, Faults
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response

SEND, PULL = RequestCode.SEND_MESSAGE_V2, RequestCode.PULL_MESSAGE


class Done:
    """Answers all, and notes what it did."""

    def __init__(self) -> None:
        self.codes: list[int] = []
        self.gone = 0

    def handle(self, session: Session, commands: list[Command]) -> None:
        for command in commands:
            self.codes.append(command.code)
            if not command.is_oneway:
                session.send(response(command))

    def closed(self, _: Session) -> None:
        self.gone += 1


@asynccontextmanager
async def serving(faults: Faults, sound: Done) -> AsyncIterator[Connection]:
    faults.sound = sound
    server = Server(faults)
    port = await server.start("127.0.0.1", 0)
    connection = await Connection.open(f"127.0.0.1:{port}")
    try:
        yield connection
    finally:
        await connection.close()
        await server.stop()


def send(topic: str = "T") -> Command:
    return Command(SEND, ext_fields={"b": topic})


async def test_only_what_was_planned_fails_and_only_so_often() -> None:
    done = Done()
    faults = Faults()
    async with serving(faults, done) as connection:
        faults.plan({SEND}, "T", 2, Fault.REFUSE, ResponseCode.SYSTEM_BUSY)
        commands = [send(), send("other"), Command(PULL, ext_fields={"topic": "T"}), send(), send()]
        answers = await asyncio.gather(*map(connection.request, commands))
        codes = [answer.code for answer in answers]
        assert codes == [ResponseCode.SYSTEM_BUSY, 0, 0, ResponseCode.SYSTEM_BUSY, 0]
        assert answers[0].remark == REMARK
        assert done.codes == [SEND, PULL, SEND]
        assert faults.pending == 0


async def test_a_plan_of_no_failure_lets_none_happen() -> None:
    faults, done = Faults(), Done()
    async with serving(faults, done) as connection:
        faults.plan({SEND}, "T", 0, Fault.IGNORE, ResponseCode.SYSTEM_BUSY)
        assert (await connection.request(send())).code == 0


async def test_a_plan_without_a_topic_is_about_all_requests_of_its_kind() -> None:
    faults = Faults()
    async with serving(faults, Done()) as connection:
        faults.plan({PULL}, None, 1, Fault.REFUSE, ResponseCode.SYSTEM_ERROR)
        assert (await connection.request(send())).code == 0
        assert (await connection.request(Command(PULL))).code == ResponseCode.SYSTEM_ERROR


async def test_an_ignored_request_is_not_done_and_the_connection_goes_on() -> None:
    done = Done()
    faults = Faults()
    async with serving(faults, done) as connection:
        faults.plan({SEND}, None, 1, Fault.IGNORE, 0)
        ignored = connection.request(send(), timeout_ms=60_000)
        assert (await connection.request(Command(PULL))).code == 0
        assert not ignored.done()
        assert done.codes == [PULL]
        connection.abort("enough")
        with pytest.raises(NetworkError):
            await ignored


@pytest.mark.parametrize(("fault", "is_done"), [(Fault.CUT, False), (Fault.LOSE_ANSWER, True)])
async def test_a_cut_loses_the_answer_and_maybe_the_request(fault: Fault, *, is_done: bool) -> None:
    done = Done()
    faults = Faults()
    async with serving(faults, done) as connection:
        faults.plan({SEND}, None, 1, fault, 0)
        with pytest.raises(NetworkError) as raised:
            await connection.request(send(), timeout_ms=60_000)
        assert not isinstance(raised.value, RequestTimeout)
        assert done.codes == [SEND] * is_done
    assert done.gone == 1


def test_what_is_pending_can_be_called_off() -> None:
    faults = Faults()
    faults.plan({SEND}, None, 3, Fault.CUT, 0)
    faults.plan({PULL}, None, 2, Fault.CUT, 0)
    assert faults.pending == 5
    faults.clear()
    assert faults.pending == 0
