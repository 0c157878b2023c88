from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.broker.conftest import Client, pull_header, serving
from tests.broker.pops import come_back

from cometmq.format.java import fastjson
from cometmq.wire import headers as h
from cometmq.wire.bodies import (
    ConsumerConnections,
    GroupConfig,
    GroupConfigs,
    Heartbeat,
    ProducerConnections,
    ProducerData,
    TopicConfig,
    TopicNames,
    decode,
)
from cometmq.wire.codes import RequestCode, ResponseCode

CREATE = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
FACTOR, MODEL = "priority.factor", "lite.sub.model"


async def test_a_group_is_created_shown_and_deleted(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        config = GroupConfig(group="g", retry_max_times=3)
        assert (await bench.ask(CREATE, body=config)).code == ResponseCode.SUCCESS
        header = h.GroupHeader("g")
        shown = await bench.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, header)
        assert decode(GroupConfig, shown.body) == config
        bench.parts.offsets.commit("g", "T", 0, 1)
        topics = await bench.ask(RequestCode.QUERY_TOPICS_BY_CONSUMER, header)
        assert decode(TopicNames, topics.body).topics == ["T"]
        await bench.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, h.DeleteGroupHeader("g", clean_offset=True))
        gone = await bench.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, header)
        assert gone.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        assert bench.parts.offsets.topics_of("g") == set()


async def test_the_retry_topics_of_a_deleted_group_s_pops_go_with_all_in_them(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        topics, offsets = bench.parts.topics, bench.parts.offsets
        for name in ("g", "g_T"):
            bench.parts.groups.put(GroupConfig(name))
        stay = ["%RETRY%g2_T", "%RETRY%g_T", "%RETRY%g_T_T", "%RETRY%other+T", "%DLQ%g", "T", "T2"]
        for name in ("%RETRY%g_T2", "%RETRY%g+T", *stay):
            topics.put(TopicConfig(topic=name))
            come_back(bench, name, b"x")
        offsets.commit("g_T", "%RETRY%g_T_T", 0, 0)
        offsets.commit("g", "%RETRY%g_T2", 0, 1)
        deleted = await bench.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, h.DeleteGroupHeader("g"))
        assert deleted.code == ResponseCode.SUCCESS
        assert topics.find("%RETRY%g_T2") is topics.find("%RETRY%g+T") is None
        assert [topics.find(name) is not None for name in stay] == [True] * len(stay)
        assert bench.store.max_queue_offset("%RETRY%g_T2", 0) == 0
        assert offsets.committed("g", "%RETRY%g_T2", 0) is None


async def test_an_illegal_name_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        answer = await bench.ask(CREATE, body=GroupConfig(group="a/b"))
        assert answer.code == ResponseCode.INVALID_PARAMETER


async def test_attributes_are_changed_by_their_signs_and_stay_otherwise(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        for change, attributes in (
            ({f"+{FACTOR}": "1", f"+{MODEL}": "Shared"}, {FACTOR: "1", MODEL: "Shared"}),
            ({}, {FACTOR: "1", MODEL: "Shared"}),
            ({f"-{FACTOR}": "", f"+{MODEL}": "Exclusive", "-none": ""}, {MODEL: "Exclusive"}),
        ):
            answer = await bench.ask(CREATE, body=GroupConfig(group="g", attributes=change))
            assert answer.code == ResponseCode.SUCCESS
            shown = await bench.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, h.GroupHeader("g"))
            assert decode(GroupConfig, shown.body).attributes == attributes
        for name in (MODEL, "", "+", "+no.such.attribute"):
            answer = await bench.ask(CREATE, body=GroupConfig(group="g", attributes={name: "4"}))
            assert (answer.code, "attribute" in (answer.remark or "")) == (29, True)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("priority.factor", ("0", "100"), ("-1", "101", "many", "", "1.5")),
        ("lite.sub.client.quota", ("-1", "9223372036854775807"), ("-2", "9223372036854775808")),
        ("lite.sub.client.max.event.cnt", ("10",), ("9",)),
        ("lite.sub.model", ("Shared", "Exclusive"), ("shared",)),
        ("lite.sub.reset.offset.exclusive", ("true", "false"), ("yes",)),
        ("lite.sub.reset.offset.unsubscribe", ("true", "false"), ("1",)),
        ("lite.sub.wildcard", ("*",), ("",)),
        ("lite.bind.topic", ("T", "t" * 127), ("", "T,U")),
    ],
)
async def test_an_attribute_has_only_values_that_it_allows(
    tmp_path: Path, name: str, good: tuple[str, ...], bad: tuple[str, ...]
) -> None:
    async with serving(tmp_path) as bench:
        for value in good:
            answer = await bench.ask(CREATE, body=GroupConfig(group="g", attributes={f"+{name}": value}))
            assert answer.code == ResponseCode.SUCCESS
        for value in bad:
            answer = await bench.ask(CREATE, body=GroupConfig(group="g", attributes={f"+{name}": value}))
            assert answer.code == ResponseCode.INVALID_PARAMETER
            assert name in (answer.remark or "") and repr(value) in (answer.remark or "")
        group = bench.parts.groups.find("g")
        assert group is not None and group.attributes == {name: good[-1]}


async def test_all_groups_are_shown_at_once_or_by_the_page(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
        answer = await bench.ask(code, h.GetAllGroupConfigHeader())
        everything = decode(GroupConfigs, answer.body).groups
        assert answer.ext_fields["totalGroupNum"] == str(len(everything))
        page = await bench.ask(code, h.GetAllGroupConfigHeader(first=2, max_count=3))
        assert list(decode(GroupConfigs, page.body).groups) == sorted(everything)[2:5]


async def test_the_members_of_groups_are_shown(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        beat = Heartbeat("me", producers=[ProducerData("pg")])
        await bench.ask(RequestCode.HEART_BEAT, body=beat)
        await bench.heartbeat("cg", "T", tags="A", client_id="me")
        header = h.ConsumerGroupHeader("cg")
        answer = await bench.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, header)
        consumers = decode(ConsumerConnections, answer.body)
        (connection,) = consumers.connections
        assert connection.client_id == "me" and connection.client_addr.startswith("127.0.0.1:")
        assert consumers.subscriptions["T"].tags == {"A"}
        answer = await bench.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, h.ProducerGroupHeader("pg"))
        assert decode(ProducerConnections, answer.body).connections == [connection]


async def test_groups_without_members_are_not_online(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        header = h.ConsumerGroupHeader("cg")
        answer = await bench.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, header)
        assert (answer.code, answer.remark) == (
            ResponseCode.CONSUMER_NOT_ONLINE,
            "the consumer group[cg] not online",
        )
        answer = await bench.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, h.ProducerGroupHeader("pg"))
        assert answer.code == ResponseCode.SYSTEM_ERROR


async def test_many_groups_are_created_at_once_or_none(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST
        body = b'{"groupConfigList":[{"groupName":"g1","retryMaxTimes":3},{"groupName":"g2"}]}'
        assert (await bench.ask(code, body=body)).code == ResponseCode.SUCCESS
        saved = fastjson.loads((tmp_path / "config" / "subscriptionGroup.json").read_bytes())
        assert saved["subscriptionGroupTable"]["g1"]["retryMaxTimes"] == 3
        assert "g2" in saved["subscriptionGroupTable"]
        body = b'{"groupConfigList":[{"groupName":"g3"},{"groupName":"a/b"}]}'
        assert (await bench.ask(code, body=body)).code == ResponseCode.INVALID_PARAMETER
        assert bench.parts.groups.find("g3") is None


async def test_the_subscription_of_a_group_to_a_topic_is_shown(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        code = RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER
        await bench.heartbeat("cg", "T", tags="A")
        answer = await bench.ask(code, h.GroupSubscriptionHeader("cg", "T"))
        shown = fastjson.loads(answer.body)
        assert (shown["group"], shown["topic"]) == ("cg", "T")
        assert (shown["subscriptionData"]["subString"], shown["subscriptionData"]["tagsSet"]) == ("A", ["A"])
        for group, topic, body in (
            ("cg", "U", b'{"group":"cg","topic":"U"}'),
            ("x", "T", b'{"group":"x","topic":"T"}'),
            ("x", None, b'{"group":"x"}'),
        ):
            answer = await bench.ask(code, h.GroupSubscriptionHeader(group, topic))
            assert (answer.code, answer.body) == (ResponseCode.SUCCESS, body)


async def test_a_group_that_may_not_read_a_topic_is_refused_until_it_may(tmp_path: Path) -> None:
    pull = replace(pull_header("T"), sys_flag=0)
    async with serving(tmp_path) as bench:
        await bench.send("T")
        await bench.heartbeat("cg", "T")
        assert (await bench.ask(RequestCode.PULL_MESSAGE, pull)).code == ResponseCode.SUCCESS
        code = RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN
        answer = await bench.ask(code, h.GroupForbiddenHeader("cg", "T"))
        assert answer.body == b'{"group":"cg","readable":true,"topic":"T"}'
        answer = await bench.ask(code, h.GroupForbiddenHeader("cg", "T", is_readable=False))
        assert answer.body == b'{"group":"cg","readable":false,"topic":"T"}'
        refused = await bench.ask(RequestCode.PULL_MESSAGE, pull)
        assert refused.code == ResponseCode.NO_PERMISSION
        assert refused.remark == "the consumer group[cg] is forbidden for topic[T]"
    async with serving(tmp_path) as bench:
        await bench.heartbeat("cg", "T")
        answer = await bench.ask(code, h.GroupForbiddenHeader("cg", "T"))
        assert answer.body == b'{"group":"cg","readable":false,"topic":"T"}'
        assert (await bench.ask(RequestCode.PULL_MESSAGE, pull)).code == ResponseCode.NO_PERMISSION
        await bench.ask(code, h.GroupForbiddenHeader("cg", "T", is_readable=True))
        assert (await bench.ask(RequestCode.PULL_MESSAGE, pull)).code == ResponseCode.SUCCESS
        answer = await bench.ask(code, h.GroupForbiddenHeader("cg", "a/b", is_readable=False))
        assert answer.code == ResponseCode.INVALID_PARAMETER


async def test_the_producers_of_all_groups_are_shown(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        assert (await bench.ask(RequestCode.GET_ALL_PRODUCER_INFO)).body == b'{"data":{}}'
        other = await Client.open(bench.address)
        beat = Heartbeat("me", producers=[ProducerData("p1"), ProducerData("p2")])
        await bench.ask(RequestCode.HEART_BEAT, body=beat)
        heard_time = bench.clock.now_ms()
        bench.clock.advance(7_000)
        await other.ask(RequestCode.HEART_BEAT, body=Heartbeat("other", producers=[ProducerData("p2")]))
        answer = await bench.ask(RequestCode.GET_ALL_PRODUCER_INFO)
        groups = fastjson.loads(answer.body)["data"]
        assert {name: [one["clientId"] for one in members] for name, members in groups.items()} == {
            "p1": ["me"],
            "p2": ["me", "other"],
        }
        (first,) = groups["p1"]
        assert first.keys() == {"clientId", "language", "lastUpdateTimestamp", "remoteIP", "version"}
        assert (first["lastUpdateTimestamp"], first["language"]) == (heard_time, "PYTHON")
        assert first["remoteIP"].startswith("/127.0.0.1:")
        await other.connection.close()
