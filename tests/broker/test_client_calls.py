"""Calls of clients: see also ``test_relay`` and ``test_replies``."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest
from tests.broker.conftest import Client

from cometmq.broker import client_calls
from cometmq.broker.client_calls import ClientCalls, NoAnswer
from cometmq.broker.refused import Refused
from cometmq.errors import ProtocolError
from cometmq.net.server import Server, Session
from cometmq.wire.codes import ResponseCode
from cometmq.wire.frame import FRAME_LENGTH_MAX, ONEWAY_FLAG, Command, response

TELL = 7
"""Asks the server to ask the client that said its name by …"""
HELLO = 8
QUESTION = 9


class Host:
    """A server that asks the client for whoever wants to be told."""

    def __init__(self) -> None:
        self.calls = ClientCalls()
        self.made: list[Command | NoAnswer] = []
        self.fails = False
        self._client: Session | None = None

    def handle(self, session: Session, commands: list[Command]) -> None:
        for command in commands:
            if command.is_response:
                self.calls.answered(session, command)
            elif command.code == HELLO:
                self._client = session
                session.send(response(command))
            else:
                assert self._client is not None
                request = Command(QUESTION, body=command.body)
                self.calls.call(session, command, self._client, request, self._make)

    def closed(self, session: Session) -> None:
        self.calls.closed(session)

    def _make(self, command: Command, answer: Command | NoAnswer) -> Command:
        assert command.body == b""
        self.made.append(answer)
        if self.fails:
            raise ValueError("a mistake")
        told = answer.why if isinstance(answer, NoAnswer) else answer.remark
        return response(command, answer.code, told)


class Scene(NamedTuple):
    host: Host
    asker: Client
    client: Client

    def tell(self, **changes: Any) -> "asyncio.Future[Command]":
        return self.asker.connection.request(Command(TELL, **{"body": b"how are you"} | changes))


async def play(scene: Callable[[Scene], Awaitable[None]]) -> None:
    host = Host()
    server = Server(host)
    address = f"127.0.0.1:{await server.start('127.0.0.1', 0)}"
    asker, client = await Client.open(address), await Client.open(address)
    await client.connection.request(Command(HELLO))
    try:
        await scene(Scene(host, asker, client))
        assert host.calls.waiting_count == 0
    finally:
        await asker.connection.close()
        await client.connection.close()
        await server.stop()


async def test_who_asks_gets_what_is_made_of_the_answer_and_nothing_of_a_second_one() -> None:
    async def scene(scene: Scene) -> None:
        told = scene.tell()
        question = await scene.client.told.get()
        assert (question.code, question.body, question.is_oneway) == (QUESTION, b"how are you", False)
        scene.client.connection.send(response(question, 42, "well"))
        answer = await told
        assert (answer.code, answer.remark) == (42, "well")
        scene.client.connection.send(response(question, 43, "again"))
        scene.client.connection.send(response(Command(QUESTION, opaque=999), 44, "unasked"))
        await scene.client.connection.request(Command(HELLO))
        assert len(scene.host.made) == 1

    await play(scene)


async def test_answers_find_their_questions_whatever_their_order() -> None:
    async def scene(scene: Scene) -> None:
        told = [scene.tell(body=b"%d" % number) for number in range(5)]
        questions = [await scene.client.told.get() for _ in told]
        for question in reversed(questions):
            scene.client.connection.send(response(question, remark=question.body.decode()))
        assert [(await answer).remark for answer in told] == list("01234")

    await play(scene)


async def test_another_client_cannot_answer_in_its_place() -> None:
    async def scene(scene: Scene) -> None:
        told = scene.tell()
        question = await scene.client.told.get()
        scene.asker.connection.send(response(question, 43, "a lie"))
        await scene.asker.connection.request(Command(HELLO))
        assert scene.host.made == []
        scene.client.connection.send(response(question, 42, "the truth"))
        assert (await told).code == 42

    await play(scene)


async def test_who_asks_a_client_that_goes_is_told() -> None:
    async def scene(scene: Scene) -> None:
        told = [scene.tell(), scene.tell()]
        await scene.client.told.get()
        await scene.client.connection.close()
        for answer in told:
            assert (await answer).remark == "is gone: it closed its connection"

    await play(scene)


async def test_who_asks_a_client_that_says_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_calls, "ANSWER_S_MAX", 0.01)

    async def scene(scene: Scene) -> None:
        told = scene.tell()
        question = await scene.client.told.get()
        answer = await told
        assert (answer.code, answer.remark) == (
            ResponseCode.CONSUME_MSG_TIMEOUT,
            "has not answered within 0.01 s",
        )
        scene.client.connection.send(response(question))  # nobody waits for it any more
        await scene.client.connection.request(Command(HELLO))
        assert len(scene.host.made) == 1

    await play(scene)


async def test_what_fails_when_the_answer_is_made_is_answered_all_the_same() -> None:
    async def scene(scene: Scene) -> None:
        scene.host.fails = True
        told = scene.tell()
        scene.client.connection.send(response(await scene.client.told.get()))
        assert (await told).code == ResponseCode.SYSTEM_ERROR

    await play(scene)


async def test_a_one_way_request_is_passed_on_and_not_answered() -> None:
    async def scene(scene: Scene) -> None:
        scene.asker.connection.oneway(Command(TELL, flag=ONEWAY_FLAG))
        scene.client.connection.send(response(await scene.client.told.get()))
        await scene.client.connection.request(Command(HELLO))
        assert scene.host.made == [] and scene.asker.told.empty()

    await play(scene)


async def test_no_more_is_asked_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_calls, "WAITING_MAX", 1)

    async def scene(scene: Scene) -> None:
        told = scene.tell()
        question = await scene.client.told.get()
        with pytest.raises(Refused, match="1 requests wait for answers of clients"):
            scene.host.handle(next(iter(scene.host.calls._calls)), [Command(TELL)])
        scene.client.connection.send(response(question))
        assert (await told).code == ResponseCode.SUCCESS

    await play(scene)


async def test_what_is_too_long_to_be_sent_is_not_waited_for() -> None:
    async def scene(scene: Scene) -> None:
        session = scene.host._client
        assert session is not None
        with pytest.raises(ProtocolError, match="frame length"):
            scene.host.handle(session, [Command(TELL, body=bytes(FRAME_LENGTH_MAX))])

    await play(scene)
