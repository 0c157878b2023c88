from pathlib import Path
from typing import Any

import pytest
from tests.broker.conftest import BROKER, Bench, Client, serving

from cometmq.broker import client_calls
from cometmq.format.java import fastjson
from cometmq.format.record import decode as decode_record
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import ConsumeDirectlyHeader, RunningInfoHeader, SendResponseHeader, parse
from cometmq.wire.headers.admin import ConsumerStatusHeader

HOW = RequestCode.GET_CONSUMER_RUNNING_INFO
DIRECTLY = RequestCode.CONSUME_MESSAGE_DIRECTLY
STATUS = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
FROM_CLIENT = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
QUESTION = RunningInfoHeader("g", "member")


async def member(bench: Bench) -> Client:
    """Connect a second client as a member of a group."""
    client = await Client.open(bench.address)
    await client.heartbeat("g", "T", client_id="member")
    await client.told.get()  # that the members changed
    return client


async def test_a_question_is_passed_on_and_the_answer_back(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        client = await member(bench)
        asked = bench.ask_later(HOW, QUESTION)
        question = await client.told.get()
        assert (question.code, question.ext_fields["clientId"]) == (HOW, "member")
        client.connection.send(response(question, remark="well", body=b"{}"))
        answer = await asked
        assert (answer.code, answer.remark, answer.body) == (ResponseCode.SUCCESS, "well", b"{}")
        client.connection.send(response(question, body=b"twice"))  # nobody waits for it any more
        assert (await bench.ask(HOW, RunningInfoHeader("g", "nobody"))).remark == (
            "The Consumer <g> <nobody> not online"
        )
        await client.connection.close()


async def test_a_message_is_passed_on_as_the_log_has_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        client = await member(bench)
        sent = parse(SendResponseHeader, (await bench.send("T", b"hello")).ext_fields)
        asked = bench.ask_later(DIRECTLY, ConsumeDirectlyHeader("g", "member", sent.message_id))
        order = await client.told.get()
        assert decode_record(order.body).body == b"hello"
        assert order.ext_fields["brokerName"] == BROKER
        client.connection.send(response(order))
        assert (await asked).code == ResponseCode.SUCCESS
        await client.connection.close()


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"client_id": None}, ResponseCode.SYSTEM_ERROR, "not online"),
        ({"consumer_group": "x"}, ResponseCode.SYSTEM_ERROR, "not online"),
        ({"message_id": None}, ResponseCode.INVALID_PARAMETER, "offset message id"),
        ({"message_id": "7F00000100002A9F0000000000000001"}, ResponseCode.SYSTEM_ERROR, "the offset, 1"),
    ],
)
async def test_what_is_not_there_is_refused(
    tmp_path: Path, changes: dict[str, Any], code: int, words: str
) -> None:
    async with serving(tmp_path) as bench:
        client = await member(bench)
        named = {"consumer_group": "g", "client_id": "member", "message_id": "0" * 32} | changes
        answer = await bench.ask(DIRECTLY, ConsumeDirectlyHeader(**named))
        assert answer.code == code and answer.remark is not None and words in answer.remark
        await client.connection.close()


async def test_who_waits_for_a_client_that_goes_is_told(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        client = await member(bench)
        asked = bench.ask_later(HOW, QUESTION)
        await client.told.get()
        await client.connection.close()
        answer = await asked
        assert answer.code == ResponseCode.SYSTEM_ERROR and "member is gone" in (answer.remark or "")


async def test_a_client_that_does_not_answer_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_calls, "ANSWER_S_MAX", 0.01)

    async with serving(tmp_path) as bench:
        client = await member(bench)
        answer: Command = await bench.ask(HOW, QUESTION)
        assert answer.code == ResponseCode.CONSUME_MSG_TIMEOUT
        await client.connection.close()


async def test_the_offsets_of_all_members_are_collected(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        clients = {}
        for client_id in ("one", "two", "three"):
            clients[client_id] = await Client.open(bench.address)
            await clients[client_id].heartbeat("g", "T", client_id=client_id)
        asked = bench.ask_later(STATUS, ConsumerStatusHeader("T", "g"))
        for client_id, body in (
            ("two", b'{"messageQueueTable":{{"brokerName":"broker-a","queueId":1,"topic":"T"}:7}}'),
            ("one", b'{"messageQueueTable":{}}'),
            ("three", b"no JSON"),
        ):
            assert not asked.done()
            while (question := await clients[client_id].told.get()).code != FROM_CLIENT:
                pass
            assert question.ext_fields == {"topic": "T", "group": "g"}
            clients[client_id].connection.send(response(question, body=body))
        answer = await asked
        assert fastjson.loads(answer.body) == fastjson.loads(
            b'{"consumerTable":{"one":{},"two":{{"brokerName":"broker-a","queueId":1,"topic":"T"}:7}},'
            b'"messageQueueTable":{}}'
        )
        for client in clients.values():
            await client.connection.close()


async def test_the_offsets_of_one_member_are_those_that_it_answers(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        client = await member(bench)
        asked = bench.ask_later(STATUS, ConsumerStatusHeader("T", "g", "member"))
        question = await client.told.get()
        body = b'{"messageQueueTable":{{"brokerName":"b","queueId":0,"topic":"T"}:3}}'
        client.connection.send(response(question, body=body))
        assert (await asked).body == (
            b'{"consumerTable":{"member":{{"brokerName":"b","queueId":0,"topic":"T"}:3}},"messageQueueTable":{}}'
        )
        asked = bench.ask_later(STATUS, ConsumerStatusHeader("T", "g"))
        question = await client.told.get()
        client.connection.send(response(question, ResponseCode.SYSTEM_ERROR, "no"))
        assert (await asked).body == b'{"consumerTable":{},"messageQueueTable":{}}'
        for header, named in (
            (ConsumerStatusHeader("T", "g", "other"), "[g] of id other"),
            (ConsumerStatusHeader("T", "x"), "[x]"),
        ):
            answer = await bench.ask(STATUS, header)
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert answer.remark == f"No Any Consumer online in the consumer group: {named}"
        await client.connection.close()
