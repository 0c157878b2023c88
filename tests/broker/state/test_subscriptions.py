from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.broker.conftest import Bench, bodies, pull_header, serving

from cometmq.broker.state.newer_subscriptions import NewerSubscriptions
from cometmq.broker.state.subscriptions import EXPRESSION_KNOWN_LENGTH_MAX
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


async def test_a_pull_without_a_subscription_gets_what_its_group_registered(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T", b"a", TAGS="A")
        await bench.send("T", b"b", TAGS="B")
        await bench.heartbeat("cg", "T", tags="B")
        answer = await bench.ask(PULL, replace(pull_header("T"), **REGISTERED))
        assert bodies(answer) == [b"b"]


@pytest.mark.parametrize("other", ["C", "x" * EXPRESSION_KNOWN_LENGTH_MAX])
async def test_a_tag_expression_of_any_length_chooses_its_tags(tmp_path: Path, other: str) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T", b"a", TAGS="A")
        await bench.send("T", b"b", TAGS="B")
        answer = await bench.ask(PULL, replace(pull_header("T"), subscription=f"B || {other}"))
        assert bodies(answer) == [b"b"]


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
async def test_a_pull_that_may_not_be_is_refused_with_rocketmqs_code(
    tmp_path: Path, settings: dict[str, Any], changes: dict[str, Any], code: ResponseCode, says: str
) -> None:
    async with serving(tmp_path, **settings) as bench:
        await bench.send("T")
        bench.parts.topics.put(TopicConfig(topic="mute", perm=2))
        await bench.ask(
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
            body=GroupConfig(group="idle", consume_enable=False),
        )
        answer = await bench.ask(PULL, replace(pull_header("T"), **changes))
        assert (answer.code, says in (answer.remark or "")) == (code, True), answer


@pytest.mark.parametrize(
    ("subscription", "sub_version", "code"),
    [
        (tag_subscription("other", "*", 1), 0, ResponseCode.SUBSCRIPTION_NOT_EXIST),
        (tag_subscription("T", "*", 1), 2, ResponseCode.SUBSCRIPTION_NOT_LATEST),
        (SubscriptionData("T", "a > 1", "SQL92"), 0, ResponseCode.SYSTEM_ERROR),
        (SubscriptionData("T", "a > ", "SQL92"), 0, ResponseCode.FILTER_DATA_NOT_EXIST),
        (SubscriptionData("T", "a > 1", "SQL99"), 0, ResponseCode.FILTER_DATA_NOT_EXIST),
    ],
)
async def test_a_registered_subscription_must_fit_the_pull(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    subscription: SubscriptionData,
    sub_version: int,
    code: ResponseCode,
) -> None:
    monkeypatch.setattr(NewerSubscriptions, "wait", lambda *_: False)  # the member is not asked
    async with serving(tmp_path) as bench:
        await bench.send("T")
        beat = Heartbeat("c", consumers=[ConsumerData("cg", subscriptions=[subscription])])
        await bench.ask(RequestCode.HEART_BEAT, body=beat)
        header = replace(pull_header("T"), sub_version=sub_version, **REGISTERED)
        assert (await bench.ask(PULL, header)).code == code


async def test_a_group_may_be_kept_from_broadcasting(tmp_path: Path) -> None:
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


BY_SQL = {"expression_type": "SQL92", "subscription": "size > 3"}


async def send_sizes(bench: Bench, topic: str = "T", came_from: str = "") -> None:
    for size in range(6):
        await bench.send(topic, b"%d" % size, size=str(size), RETRY_TOPIC=came_from)


async def test_a_pull_by_sql_gets_what_the_properties_let_pass(tmp_path: Path) -> None:
    async with serving(tmp_path, enable_property_filter=True) as bench:
        await send_sizes(bench)
        answer = await bench.ask(PULL, replace(pull_header("T"), **BY_SQL))
        assert bodies(answer) == [b"4", b"5"]
        none = await bench.ask(PULL, replace(pull_header("T"), **BY_SQL | {"subscription": "size = 9"}))
        assert (none.code, none.remark) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE")
        assert none.ext_fields["nextBeginOffset"] == "6"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"subscription": "size > 'x'"}, "at character 8"),
        ({"subscription": ""}, "ends too early"),
        ({"subscription": None}, "ends too early"),
        ({"expression_type": "SQL99"}, "use TAG or SQL92"),
    ],
)
async def test_a_filter_that_means_nothing_is_refused_with_its_place(
    tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    async with serving(tmp_path, enable_property_filter=True) as bench:
        await bench.send("T")
        answer = await bench.ask(PULL, replace(pull_header("T"), **BY_SQL | changes))
        assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
        assert says in (answer.remark or "")


async def test_a_filter_that_a_heartbeat_registered_holds_for_the_groups_pulls(tmp_path: Path) -> None:
    async with serving(tmp_path, enable_property_filter=True) as bench:
        await send_sizes(bench)
        wanted = SubscriptionData("T", "size < 2", "SQL92", version=5)
        beat = Heartbeat("c", consumers=[ConsumerData("cg", subscriptions=[wanted])])
        await bench.ask(RequestCode.HEART_BEAT, body=beat)
        header = replace(pull_header("T"), sub_version=5, **REGISTERED)
        assert bodies(await bench.ask(PULL, header)) == [b"0", b"1"]
        newer = SubscriptionData("T", "size <", "SQL92", version=6)
        beat = Heartbeat("c", consumers=[ConsumerData("cg", subscriptions=[newer])])
        await bench.ask(RequestCode.HEART_BEAT, body=beat)
        assert (await bench.ask(PULL, header)).code == ResponseCode.FILTER_DATA_NOT_EXIST


async def test_a_filter_older_than_the_pulls_is_not_used(tmp_path: Path) -> None:
    async with serving(tmp_path, enable_property_filter=True) as bench:
        await bench.send("T")
        filters, consumers = bench.parts.filters, [SubscriptionData("T", "a = 1", "SQL92", version=5)]
        beat = Heartbeat("c", consumers=[ConsumerData("cg", subscriptions=consumers)])
        await bench.ask(RequestCode.HEART_BEAT, body=beat)
        filters.unregister("cg")
        bench.clock.advance(24 * 3_600_000)
        filters.take_changed()
        filters.register("cg", [SubscriptionData("T", "a = 1", "SQL92", version=4)])
        header = replace(pull_header("T"), sub_version=5, **REGISTERED)
        assert (await bench.ask(PULL, header)).code == ResponseCode.FILTER_DATA_NOT_LATEST


@pytest.mark.parametrize("filter_retry", [False, True])
async def test_a_retry_topic_is_filtered_by_what_its_messages_came_from(
    tmp_path: Path, *, filter_retry: bool
) -> None:
    async with serving(tmp_path, enable_property_filter=True, filter_support_retry=filter_retry) as bench:
        subscriptions = [
            SubscriptionData("T", "size > 3", "SQL92", version=1),
            SubscriptionData("%RETRY%cg", "size > 4", "SQL92", version=1),
        ]
        beat = Heartbeat("c", consumers=[ConsumerData("cg", subscriptions=subscriptions)])
        await bench.ask(RequestCode.HEART_BEAT, body=beat)
        await send_sizes(bench, "%RETRY%cg", came_from="T")
        await bench.send("%RETRY%cg", b"other", RETRY_TOPIC="U")
        answer = await bench.ask(PULL, replace(pull_header("%RETRY%cg"), **REGISTERED))
        assert bodies(answer) == ([b"4", b"5", b"other"] if filter_retry else [b"5"])
