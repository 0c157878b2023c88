import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.broker.conftest import bodies, pull_header, serving

from cometmq.wire.bodies import (
    ConsumerData,
    GroupConfig,
    Heartbeat,
    MessageModel,
    SubscriptionData,
    TopicConfig,
    tag_subscription,
)
from cometmq.wire.codes import RequestCode, ResponseCode

PULL = RequestCode.PULL_MESSAGE
REGISTERED = {"sys_flag": 0, "subscription": None}


def test_a_pull_without_a_subscription_gets_what_its_group_registered(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as bench:
            await bench.send("T", b"a", TAGS="A")
            await bench.send("T", b"b", TAGS="B")
            await bench.heartbeat("cg", "T", tags="B")
            answer = await bench.ask(PULL, replace(pull_header("T"), **REGISTERED))
            assert bodies(answer) == [b"b"]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("settings", "changes", "code", "says"),
    [
        ({"broker_permission": 2}, {}, ResponseCode.NO_PERMISSION, "brokerPermission is 2"),
        (
            {"auto_create_subscription_group": False},
            {},
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            "autoCreateSubscriptionGroup",
        ),
        ({}, {"consumer_group": "idle"}, ResponseCode.NO_PERMISSION, "may not consume"),
        ({}, {"topic": "none"}, ResponseCode.TOPIC_NOT_EXIST, "none"),
        ({}, {"topic": "mute"}, ResponseCode.NO_PERMISSION, "perm is 2"),
        ({}, {"queue_id": 4}, ResponseCode.INVALID_PARAMETER, "readQueueNums:[4]"),
        ({}, {"queue_id": -1}, ResponseCode.INVALID_PARAMETER, "readQueueNums:[4]"),
        ({}, {"subscription": "||"}, ResponseCode.SUBSCRIPTION_PARSE_FAILED, "names no tag"),
        ({}, {"expression_type": "SQL92"}, ResponseCode.SYSTEM_ERROR, "filter message by SQL92"),
        ({}, REGISTERED, ResponseCode.SUBSCRIPTION_NOT_EXIST, "no heartbeat of cg"),
        ({}, {"consumer_group": "a b"}, ResponseCode.SYSTEM_ERROR, "'a b'"),
    ],
)
def test_a_pull_that_may_not_be_is_refused_with_rocketmqs_code(
    tmp_path: Path, settings: dict[str, Any], changes: dict[str, Any], code: ResponseCode, says: str
) -> None:
    async def main() -> None:
        async with serving(tmp_path, **settings) as bench:
            await bench.send("T")
            bench.parts.topics.put(TopicConfig(topic="mute", perm=2))
            await bench.ask(
                RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
                body=GroupConfig(group="idle", consume_enable=False),
            )
            answer = await bench.ask(PULL, replace(pull_header("T"), **changes))
            assert (answer.code, says in (answer.remark or "")) == (code, True), answer

    asyncio.run(main())


@pytest.mark.parametrize(
    ("subscription", "sub_version", "code"),
    [
        (tag_subscription("other", "*", 1), 0, ResponseCode.SUBSCRIPTION_NOT_EXIST),
        (tag_subscription("T", "*", 1), 2, ResponseCode.SUBSCRIPTION_NOT_LATEST),
        (SubscriptionData("T", expression_type="SQL92"), 0, ResponseCode.SYSTEM_ERROR),
    ],
)
def test_a_registered_subscription_must_fit_the_pull(
    tmp_path: Path, subscription: SubscriptionData, sub_version: int, code: ResponseCode
) -> None:
    async def main() -> None:
        async with serving(tmp_path) as bench:
            await bench.send("T")
            beat = Heartbeat("c", consumers=[ConsumerData("cg", subscriptions=[subscription])])
            await bench.ask(RequestCode.HEART_BEAT, body=beat)
            header = replace(pull_header("T"), sub_version=sub_version, **REGISTERED)
            assert (await bench.ask(PULL, header)).code == code

    asyncio.run(main())


def test_a_group_may_be_kept_from_broadcasting(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as bench:
            await bench.send("T")
            config = GroupConfig(group="cg", consume_broadcast_enable=False)
            await bench.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=config)
            data = ConsumerData(
                "cg",
                message_model=MessageModel.BROADCASTING,
                subscriptions=[tag_subscription("T", "*", 1)],
            )
            await bench.ask(RequestCode.HEART_BEAT, body=Heartbeat("c", consumers=[data]))
            answer = await bench.ask(PULL, replace(pull_header("T"), **REGISTERED))
            assert answer.code == ResponseCode.NO_PERMISSION

    asyncio.run(main())
