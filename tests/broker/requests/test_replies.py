"""Replies to requests: who gets them, what is stored of them, what who replied is told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.broker.conftest import Bench, Client, send_header, serving
from tests.broker.halves import records

from cometmq.broker import client_calls
from cometmq.errors import MessageIllegal, StoreNotWritable
from cometmq.format import properties
from cometmq.format.host import host_text
from cometmq.format.message_id import parse_offset_message_id
from cometmq.store.append import NewMessage
from cometmq.wire.bodies import Heartbeat
from cometmq.wire.bodies.heartbeat import ProducerData
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import ONEWAY_FLAG, Command, response
from cometmq.wire.headers import PushReplyHeader, SendHeader, fields, parse

V1, V2 = RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2
TOPIC = "DefaultCluster_REPLY_TOPIC"
REPLY = {"REPLY_TO_CLIENT": "asker", "CORRELATION_ID": "42", "MSG_TYPE": "reply", "TTL": "3000"}
ADDED = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
OK, FAILED = ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR


@asynccontextmanager
async def producer(bench: Bench, client_id: str = "asker", group: str = "pg") -> AsyncIterator[Client]:
    """Be a producer that waits for replies."""
    client = await Client.open(bench.address)
    beat = Heartbeat(client_id, producers=[ProducerData(group)])
    assert (await client.ask(RequestCode.HEART_BEAT, body=beat)).code == OK
    yield client
    await client.connection.close()


def reply(bench: Bench, body: bytes = b"yes", **changes: Any) -> "asyncio.Future[Command]":
    return bench.ask_later(V2, replace(send_header(TOPIC, 0, **REPLY), **changes), body)


def stored(bench: Bench) -> list[tuple[bytes, dict[str, str], int]]:
    found = records(bench, TOPIC)
    return [(one.body, properties.decode(one.properties), one.sys_flag) for one in found]


async def not_taken(bench: Bench, remark: str, **changes: Any) -> Command:
    answer = await reply(bench, **changes)
    assert (answer.code, answer.remark) == (FAILED, remark)
    return answer


@pytest.mark.parametrize("code", [V1, V2])
async def test_a_reply_is_passed_on_to_who_asked_and_stored(tmp_path: Path, code: RequestCode) -> None:
    async with serving(tmp_path) as bench, producer(bench) as asker:
        header = replace(send_header(TOPIC, 0, **REPLY), sys_flag=0x301, flag=5, reconsume_times=2)
        asked = {name: getattr(header, name) for name in SendHeader.__struct_fields__}
        told = bench.ask_later(code, SendHeader(**asked) if code == V1 else header, b"packed")
        pushed = await asker.told.get()
        assert (pushed.code, pushed.body, pushed.is_oneway) == (
            RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
            b"packed",
            False,
        )
        got = parse(PushReplyHeader, pushed.ext_fields)
        assert (got.producer_group, got.topic, got.queue_id) == ("pg", TOPIC, 0)
        assert (got.sys_flag, got.flag, got.born_time, got.reconsume_times) == (
            0x301,
            5,
            header.born_time,
            2,
        )
        host, now_ms = bench.address, bench.clock.now_ms()
        assert (got.store_host, got.store_time) == (host, now_ms)
        assert got.born_host.startswith("127.0.0.1:") and got.born_host != host
        assert properties.decode(got.properties.encode()) == (
            REPLY | ADDED | {"PUSH_REPLY_TIME": str(now_ms)}
        )
        asker.connection.send(response(pushed))
        answer = await told
        assert (answer.code, answer.remark) == (OK, None)
        (record,) = records(bench, TOPIC)
        assert answer.ext_fields == ADDED | {
            "msgId": answer.ext_fields["msgId"],
            "queueId": "0",
            "queueOffset": "0",
        }
        where = parse_offset_message_id(answer.ext_fields["msgId"])
        assert where.physical_offset == record.physical_offset
        assert host_text(record.born_host) == got.born_host
        assert stored(bench) == [(b"packed", REPLY | ADDED, 0x301)]


async def test_without_storing_a_reply_is_passed_on_only(tmp_path: Path) -> None:
    async with serving(tmp_path, store_reply_message_enable=False) as bench, producer(bench) as asker:
        told = reply(bench, queue_id=-1)
        pushed = await asker.told.get()
        assert pushed.ext_fields["queueId"] == "-1"
        asker.connection.send(response(pushed))
        answer = await told
        assert (answer.code, answer.ext_fields) == (
            OK,
            ADDED | {"msgId": "0", "queueId": "0", "queueOffset": "0"},
        )
        assert stored(bench) == []


async def test_each_of_many_replies_goes_to_its_own_producer(tmp_path: Path) -> None:
    async with (
        serving(tmp_path) as bench,
        producer(bench, "one") as one,
        producer(bench, "two") as two,
    ):
        named = [properties.encode(REPLY | {"REPLY_TO_CLIENT": name}).decode() for name in ("one", "two")]
        told = [reply(bench, b"%d" % number, properties=named[number % 2]) for number in range(10)]
        for client, bodies in ((two, b"13579"), (one, b"02468")):
            pushed = [await client.told.get() for _ in bodies]
            assert b"".join(command.body for command in pushed) == bodies
            for command in pushed:
                client.connection.send(response(command))
        assert [(await answer).code for answer in told] == [OK] * 10
        assert bench.parts.calls.waiting_count == 0


async def test_a_reply_that_nobody_can_take_is_told_of_and_stored(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        remark = "push reply message fail, channel of <asker> not found."
        answer = await not_taken(bench, remark)
        assert answer.ext_fields["queueOffset"] == "0" and len(answer.ext_fields["msgId"]) == 32
        remark = "reply message properties[REPLY_TO_CLIENT] is null"
        answer = await not_taken(bench, remark, properties="")
        assert answer.ext_fields["queueOffset"] == "1"
        assert [named for _, named, _ in stored(bench)] == [REPLY | ADDED, ADDED]


async def test_a_reply_that_is_neither_taken_nor_stored_is_nowhere(tmp_path: Path) -> None:
    async with serving(tmp_path, store_reply_message_enable=False) as bench:
        answer = await reply(bench)
        assert (answer.code, answer.ext_fields) == (FAILED, ADDED)


async def test_a_producer_that_has_left_is_not_asked(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench, producer(bench) as asker:
        leave = Command(
            RequestCode.UNREGISTER_CLIENT, ext_fields={"clientID": "asker", "producerGroup": "pg"}
        )
        await asker.connection.request(leave)
        await not_taken(bench, "push reply message fail, channel of <asker> not found.")
        assert asker.told.empty()


@pytest.mark.parametrize(("remark", "why"), [("too late", "too late"), (None, "code 1")])
async def test_what_the_producer_says_against_it_is_passed_back(
    tmp_path: Path, remark: str | None, why: str
) -> None:
    async with serving(tmp_path) as bench, producer(bench) as asker:
        told = reply(bench)
        asker.connection.send(response(await asker.told.get(), FAILED, remark))
        answer = await told
        assert (answer.code, answer.remark) == (FAILED, f"push reply message to asker fail: {why}")
        assert answer.ext_fields["queueOffset"] == "0"


async def test_a_producer_that_goes_or_is_silent_leaves_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path) as bench, producer(bench) as asker:
        told = reply(bench)
        await asker.told.get()
        await asker.connection.close()
        assert "asker fail: it is gone" in ((await told).remark or "")
        monkeypatch.setattr(client_calls, "ANSWER_S_MAX", 0.01)
        async with producer(bench):
            assert "asker fail: it has not answered within" in ((await reply(bench)).remark or "")


async def test_a_one_way_reply_is_passed_on_and_not_answered(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench, producer(bench) as asker:
        for to in ("asker", "nobody"):
            named = properties.encode(REPLY | {"REPLY_TO_CLIENT": to}).decode()
            header = replace(send_header(TOPIC), properties=named)
            bench.connection.oneway(Command(V2, flag=ONEWAY_FLAG, ext_fields=fields(header), body=b"yes"))
        asker.connection.send(response(await asker.told.get()))
        assert (await bench.send("T")).code == OK
        assert len(stored(bench)) == 2


@pytest.mark.parametrize(
    ("changes", "body", "code", "words"),
    [
        ({}, b"", ResponseCode.MESSAGE_ILLEGAL, "0 bytes: send 1 to 5000"),
        ({}, bytes(5_001), ResponseCode.MESSAGE_ILLEGAL, "5001 bytes: send 1 to 5000"),
        ({"topic": "a b"}, b"x", ResponseCode.INVALID_PARAMETER, "a b"),
        ({"topic": "RMQ_SYS_TRANS_HALF_TOPIC"}, b"x", ResponseCode.NO_PERMISSION, "the broker's own"),
        ({"topic": "T", "default_topic": "?"}, b"x", ResponseCode.TOPIC_NOT_EXIST, "does not exist"),
        ({"queue_id": 1}, b"x", ResponseCode.INVALID_PARAMETER, "has no queue 1"),
        ({"properties": f"a\1{'x' * 32_767}\2"}, b"x", ResponseCode.MESSAGE_ILLEGAL, "the limit is 32767"),
    ],
)
async def test_what_breaks_a_rule_is_refused_and_neither_passed_on_nor_stored(
    tmp_path: Path, changes: dict[str, Any], body: bytes, code: ResponseCode, words: str
) -> None:
    async with serving(tmp_path, {"max_message_size": 5_000}) as bench, producer(bench) as asker:
        answer = await reply(bench, body, **changes)
        assert (answer.code, answer.ext_fields) == (code, ADDED)
        assert words in (answer.remark or "")
        assert bench.parts.rates.refused.total == 1
        assert asker.told.empty() and stored(bench) == []
        assert (await bench.send("T")).code == OK


@pytest.mark.parametrize("error", [StoreNotWritable("the disk is full"), MessageIllegal("too long")])
async def test_what_cannot_be_stored_is_passed_on(
    tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path) as bench, producer(bench) as asker:

        def refuse(_: list[NewMessage]) -> None:
            raise error

        monkeypatch.setattr(bench.store, "append", refuse)
        told = reply(bench)
        asker.connection.send(response(await asker.told.get()))
        answer = await told
        assert (answer.code, answer.ext_fields["msgId"]) == (OK, "0")
        assert f"not stored in topic {TOPIC}: {error}" in caplog.text


async def test_too_many_replies_on_their_way_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_calls, "WAITING_MAX", 0)

    async with serving(tmp_path) as bench, producer(bench):
        answer = await reply(bench)
        assert (answer.code, answer.ext_fields) == (ResponseCode.SYSTEM_BUSY, ADDED)
