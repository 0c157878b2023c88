"""Requests whose header fields or bodies are missing, ill-typed, huge or wild: each is answered."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.adversity.conftest import attacked
from tests.broker.conftest import Client
from tests.kit.refusals import CODES, answer, assert_log_is_sound, kinds, plain

from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import ONEWAY_FLAG, Command
from cometmq.wire.headers import Header
from cometmq.wire.requests import REQUESTS

HUGE = 100_000
ILL_TYPED = ("", "x", "1.5", "1e400", "9" * 20, "9" * 5_000, "-", "0x10", "NaN", "null", "[]", " 1", "١٢")
WILD = (-1, -(2**31), 2**31 - 1, -(2**63), 2**63 - 1)
TOPICS = RequestCode.UPDATE_AND_CREATE_TOPIC_LIST
GROUP = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
NOT_SUPPORTED = ResponseCode.REQUEST_CODE_NOT_SUPPORTED


GARBAGE_BODIES = (
    b"",
    b"{",
    b"null",
    b"[]",
    b"5",
    b'"x"',
    b"\xff\xfe",
    b"[" * 200_000,
    b'{"a":' * 100_000,
    b'{"clientID":5,"groupName":[],"topicConfigList":{},"mqSet":"x","consumerGroup":{}}',
    b'{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{"topic":7}]}]}',
    b'{"clientID":"c","producerDataSet":[{}],"mqSet":[{"topic":"T","queueId":9e99}]}',
    b'{"groupName":"g","retryMaxTimes":"x"}',
    b'{"topicConfigList":[{"topicName":"T","readQueueNums":[]}]}',
    b"x\x9c" + bytes(100),
    b"a=" + b"\\u12",
)


def spoiled(header_type: type[Header]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the field that is wrong, and all fields."""
    good = plain(header_type)
    for field in msgspec.structs.fields(header_type):
        name = field.encode_name
        if field.required:
            yield name, {other: value for other, value in good.items() if other != name}
        if str not in kinds(field.type):
            for value in ILL_TYPED if field.required else set(ILL_TYPED) - {"null"}:
                yield name, good | {name: value}


def odd(header_type: type[Header]) -> Iterator[dict[str, str]]:
    """Yield fields that can be read and ask for something odd."""
    good = plain(header_type)
    for field in msgspec.structs.fields(header_type):
        if str in kinds(field.type):
            yield good | {field.encode_name: "x" * HUGE}
            yield good | {field.encode_name: "\0\x01\x02\x1b\u2028\U0001f4a5"}
        elif int in kinds(field.type):
            yield from (good | {field.encode_name: str(number)} for number in WILD)
    yield good | {f"x{number}": "y" for number in range(10_000)}
    yield good | {"x" * HUGE: "y"}


async def test_a_field_that_is_missing_or_ill_typed_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> int:
        answers = 0
        async with attacked(tmp_path) as scene:
            for address in scene.addresses:
                client = await Client.open(address)
                for code in CODES:
                    header_type = REQUESTS[code].header
                    known = (await answer(client, code, plain(header_type))).code != NOT_SUPPORTED
                    for name, ext_fields in spoiled(header_type):
                        got = await answer(client, code, ext_fields)
                        answers += known
                        if known:
                            assert got.code != ResponseCode.SUCCESS, (code, ext_fields)
                            assert f"header field {name}: " in (got.remark or ""), (code, ext_fields, got)
                        else:
                            assert got.code == NOT_SUPPORTED
                await client.connection.close()
        return answers

    caplog.set_level(logging.INFO)
    assert await main() > 1_000
    assert_log_is_sound(caplog)


async def test_an_odd_value_is_answered_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with attacked(tmp_path) as scene:
        for address in scene.addresses:
            client = await Client.open(address)
            for code in CODES:
                for ext_fields in odd(REQUESTS[code].header):
                    await answer(client, code, ext_fields)
            await client.connection.close()
    assert_log_is_sound(caplog)


async def test_a_body_that_is_garbage_is_answered(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with attacked(tmp_path) as scene:
        for address in scene.addresses:
            client = await Client.open(address)
            for code in CODES:
                for body in GARBAGE_BODIES:
                    await answer(client, code, plain(REQUESTS[code].header), body)
            await client.connection.close()
    assert_log_is_sound(caplog)


async def test_who_wants_no_answer_gets_none_even_for_nonsense(tmp_path: Path) -> None:
    async with attacked(tmp_path) as scene:
        for address in scene.addresses:
            told: asyncio.Queue[Command] = asyncio.Queue()
            client = await Client.open(address)
            client.told = told
            for code in CODES:
                for _, ext_fields in spoiled(REQUESTS[code].header):
                    client.connection.send(Command(code, 0, flag=ONEWAY_FLAG, ext_fields=ext_fields))
            await answer(client, 9_999, {})
            assert told.empty()
            await client.connection.close()


WILD_BODIES: list[tuple[RequestCode, dict[str, Any], tuple[str, ...]]] = [
    (TOPICS, {"topicName": "T", "readQueueNums": 65_536}, ("readQueueNums", "65535")),
    (TOPICS, {"topicName": "T", "writeQueueNums": -1}, ("writeQueueNums", "65535")),
    (TOPICS, {"topicName": "T", "perm": 8}, ("perm", "7")),
    (TOPICS, {"topicName": "T", "topicSysFlag": 2**31}, ("topicSysFlag", "2147483647")),
    (TOPICS, {"topicName": "T", "topicFilterType": "x"}, ("topicFilterType", "SINGLE_TAG")),
    (TOPICS, {"topicName": "T", "attributes": {"+message.type": "x"}}, ("message.type", "NORMAL")),
    (GROUP, {"groupName": "g", "retryQueueNums": 65_536}, ("retryQueueNums", "65535")),
    (GROUP, {"groupName": "g", "retryQueueNums": -1}, ("retryQueueNums", "65535")),
    (GROUP, {"groupName": "g", "retryMaxTimes": 2**31}, ("retryMaxTimes", "2147483647")),
    (GROUP, {"groupName": "g", "whichBrokerWhenConsumeSlowly": 2**63}, ("whichBroker", str(2**63 - 1))),
]


async def test_no_table_takes_a_value_that_a_java_broker_could_not_read(tmp_path: Path) -> None:
    async with attacked(tmp_path) as scene:
        for code, body, words in WILD_BODIES:
            whole = {"topicConfigList": [body]} if code is TOPICS else body
            got = await answer(scene.client, code, {}, msgspec.json.encode(whole))
            assert got.code != ResponseCode.SUCCESS, body
            assert [word for word in words if word not in (got.remark or "")] == [], got
