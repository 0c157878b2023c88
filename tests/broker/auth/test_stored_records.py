"""Whoever may read one topic cannot read another by the places of its messages."""

import asyncio
from pathlib import Path

import pytest
from tests.broker.auth.signing import ANN, ROOT, allow, checking, client_of
from tests.broker.conftest import Client, bodies, send_header

from cometmq.broker.broker import Broker
from cometmq.format.message_id import parse_offset_message_id
from cometmq.wire import headers as h
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response

NO_PERMISSION = ResponseCode.NO_PERMISSION
SECRET = "User:ann has no permission to access Topic:secret from 127.0.0.1, no matched policies."
COMMIT = 8


def allow_mine(broker: Broker) -> None:
    allow(broker, "Topic:mine", "All")
    allow(broker, "Group:g", "All")
    allow(broker, "Topic:RMQ_SYS_TRANS_HALF_TOPIC", "All")
    allow(broker, "Topic:SCHEDULE_TOPIC_XXXX", "All")


async def sent_by(client: Client, topic: str, **named: str) -> str:
    """Send a message; return its offset id."""
    answer = await client.ask(RequestCode.SEND_MESSAGE_V2, send_header(topic, 0, **named), topic.encode())
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return answer.ext_fields["msgId"]


def place(message_id: str) -> int:
    return parse_offset_message_id(message_id).physical_offset


async def test_a_message_is_shown_to_those_who_may_see_its_own_topic(tmp_path: Path) -> None:
    async with checking(tmp_path) as broker, client_of(broker, ROOT) as root, client_of(broker, ANN) as ann:
        allow_mine(broker)
        mine, secret = await sent_by(root, "mine"), await sent_by(root, "secret")
        seen = await ann.ask(RequestCode.VIEW_MESSAGE_BY_ID, h.ViewMessageHeader(place(mine), "mine"))
        assert bodies(seen) == [b"mine"]
        refused = await ann.ask(RequestCode.VIEW_MESSAGE_BY_ID, h.ViewMessageHeader(place(secret), "mine"))
        assert (refused.code, refused.remark) == (NO_PERMISSION, SECRET)
        all_seen = await root.ask(RequestCode.VIEW_MESSAGE_BY_ID, h.ViewMessageHeader(place(secret)))
        assert bodies(all_seen) == [b"secret"]


async def test_nobody_sends_anothers_message_back_to_a_group_of_his(tmp_path: Path) -> None:
    async with checking(tmp_path) as broker, client_of(broker, ROOT) as root, client_of(broker, ANN) as ann:
        allow_mine(broker)
        mine, secret = await sent_by(root, "mine"), await sent_by(root, "secret")
        refused = await ann.ask(
            RequestCode.CONSUMER_SEND_MSG_BACK, h.SendBackHeader(place(secret), "g", 0, origin_topic="mine")
        )
        assert (refused.code, refused.remark) == (NO_PERMISSION, SECRET)
        back = await ann.ask(RequestCode.CONSUMER_SEND_MSG_BACK, h.SendBackHeader(place(mine), "g", 0))
        assert back.code == ResponseCode.SUCCESS


@pytest.mark.parametrize("named", [None, "mine"])
async def test_nobody_ends_anothers_transaction(tmp_path: Path, named: str | None) -> None:
    async with checking(tmp_path) as broker, client_of(broker, ROOT) as root, client_of(broker, ANN) as ann:
        allow_mine(broker)
        for topic, code in (("secret", NO_PERMISSION), ("mine", ResponseCode.SUCCESS)):
            properties = {"TRAN_MSG": "true", "PGROUP": "pg", "UNIQ_KEY": topic}
            answer = await root.ask(RequestCode.SEND_MESSAGE_V2, send_header(topic, 0, **properties), b"x")
            header = h.EndTransactionHeader(
                "pg", int(answer.ext_fields["queueOffset"]), place(answer.ext_fields["msgId"]), COMMIT, topic
            )
            header.topic = named
            ended = await ann.ask(RequestCode.END_TRANSACTION, header)
            assert ended.code == code, ended.remark


async def test_a_delayed_message_is_of_the_topic_that_it_waits_for(tmp_path: Path) -> None:
    async with checking(tmp_path) as broker, client_of(broker, ROOT) as root, client_of(broker, ANN) as ann:
        allow_mine(broker)
        secret = await sent_by(root, "secret", DELAY="3")
        refused = await ann.ask(RequestCode.VIEW_MESSAGE_BY_ID, h.ViewMessageHeader(place(secret), "mine"))
        assert refused.remark == SECRET


async def test_requests_by_message_id_are_checked_too(tmp_path: Path) -> None:
    async with checking(tmp_path) as broker, client_of(broker, ROOT) as root, client_of(broker, ANN) as ann:
        allow_mine(broker)
        secret = await sent_by(root, "secret")
        await ann.heartbeat("g", "mine", client_id="a")
        directly = h.ConsumeDirectlyHeader("g", client_id="a", message_id=secret, topic="mine")
        refused = await ann.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, directly)
        assert (refused.code, refused.remark) == (NO_PERMISSION, SECRET)
        resumed = await ann.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, h.ResumeCheckHeader("mine", secret))
        assert (resumed.code, resumed.remark) == (NO_PERMISSION, SECRET)


async def test_a_place_without_a_message_is_refused_as_ever(tmp_path: Path) -> None:
    async with checking(tmp_path) as broker, client_of(broker, ANN) as ann:
        allow_mine(broker)
        seen = await ann.ask(RequestCode.VIEW_MESSAGE_BY_ID, h.ViewMessageHeader(10**9, "mine"))
        assert seen.remark == "can not find message by the offset, 1000000000"
        resumed = await ann.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, h.ResumeCheckHeader("mine", "no id"))
        assert resumed.code == ResponseCode.INVALID_PARAMETER


async def test_without_authorization_places_are_not_looked_at(tmp_path: Path) -> None:
    async with checking(tmp_path, authorization_enabled=False) as broker, client_of(broker, ANN) as ann:
        sent = await ann.connection.request(Command(RequestCode.SEND_MESSAGE_V2, ext_fields={}, body=b""))
        assert sent.code != NO_PERMISSION
        secret = await sent_by(ann, "secret")
        seen = await ann.ask(RequestCode.VIEW_MESSAGE_BY_ID, h.ViewMessageHeader(place(secret)))
        assert bodies(seen) == [b"secret"]


async def test_a_message_is_passed_on_to_a_consumer_whose_user_may_receive_it(tmp_path: Path) -> None:
    async with checking(tmp_path) as broker, client_of(broker, ROOT) as root, client_of(broker, ANN) as ann:
        allow_mine(broker)
        mine, secret = await sent_by(root, "mine"), await sent_by(root, "secret")
        assert (await ann.heartbeat("g", "mine", client_id="a")).code == ResponseCode.SUCCESS

        def passed_on(message_id: str) -> "asyncio.Future[Command]":
            header = h.ConsumeDirectlyHeader("g", client_id="a", message_id=message_id)
            return root.ask_later(RequestCode.CONSUME_MESSAGE_DIRECTLY, header)

        async def got(client: Client) -> Command:
            while (command := await client.told.get()).code != RequestCode.CONSUME_MESSAGE_DIRECTLY:
                pass
            client.connection.send(response(command))
            return command

        refused = await passed_on(secret)
        assert refused.code == NO_PERMISSION
        assert (refused.remark or "").startswith("The Consumer <g> <a> is of a user who may not receive")
        asked = passed_on(mine)
        assert bodies(await got(ann)) == [b"mine"] and (await asked).code == ResponseCode.SUCCESS
        await root.heartbeat("g", "mine", client_id="a")  # another client of the same id
        asked = passed_on(secret)
        assert bodies(await got(root)) == [b"secret"] and (await asked).code == ResponseCode.SUCCESS
        allow(broker, "Topic:mine", "Get")
        asked = passed_on(mine)
        assert bodies(await got(root)) == [b"mine"] and (await asked).code == ResponseCode.SUCCESS
