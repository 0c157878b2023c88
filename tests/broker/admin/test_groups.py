from pathlib import Path

from tests.broker.conftest import BROKER, pull_header, serving

from cometmq.format.java import fastjson
from cometmq.message import MessageQueue
from cometmq.wire.bodies import (
    ConsumeOffset,
    ConsumerConnections,
    ConsumeStats,
    GroupConfig,
    GroupConfigs,
    Heartbeat,
    ProducerConnections,
    ProducerData,
    TopicNames,
    decode,
)
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.headers import (
    ConsumerGroupHeader,
    DeleteGroupHeader,
    GetAllGroupConfigHeader,
    GetConsumeStatsHeader,
    GroupHeader,
    ProducerGroupHeader,
)

CREATE = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP


async def test_a_group_is_created_shown_and_deleted(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        config = GroupConfig(group="g", retry_max_times=3)
        assert (await bench.ask(CREATE, body=config)).code == ResponseCode.SUCCESS
        header = GroupHeader("g")
        shown = await bench.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, header)
        assert decode(GroupConfig, shown.body) == config
        bench.parts.offsets.commit("g", "T", 0, 1)
        topics = await bench.ask(RequestCode.QUERY_TOPICS_BY_CONSUMER, header)
        assert decode(TopicNames, topics.body).topics == ["T"]
        await bench.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, DeleteGroupHeader("g", clean_offset=True))
        gone = await bench.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, header)
        assert gone.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        assert bench.parts.offsets.topics_of("g") == set()


async def test_an_illegal_name_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        answer = await bench.ask(CREATE, body=GroupConfig(group="a/b"))
        assert answer.code == ResponseCode.INVALID_PARAMETER


async def test_attributes_are_changed_by_their_signs_and_stay_otherwise(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        for change, attributes in (
            ({"+a": "1", "+b": "2"}, {"a": "1", "b": "2"}),
            ({}, {"a": "1", "b": "2"}),
            ({"-a": "", "+b": "3", "-none": ""}, {"b": "3"}),
        ):
            answer = await bench.ask(CREATE, body=GroupConfig(group="g", attributes=change))
            assert answer.code == ResponseCode.SUCCESS
            shown = await bench.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, GroupHeader("g"))
            assert decode(GroupConfig, shown.body).attributes == attributes
        for name in ("b", "", "+"):
            answer = await bench.ask(CREATE, body=GroupConfig(group="g", attributes={name: "4"}))
            assert (answer.code, "attribute" in (answer.remark or "")) == (29, True)


async def test_all_groups_are_shown_at_once_or_by_the_page(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
        answer = await bench.ask(code, GetAllGroupConfigHeader())
        everything = decode(GroupConfigs, answer.body).groups
        assert answer.ext_fields["totalGroupNum"] == str(len(everything))
        page = await bench.ask(code, GetAllGroupConfigHeader(first=2, max_count=3))
        assert list(decode(GroupConfigs, page.body).groups) == sorted(everything)[2:5]


async def test_the_members_of_groups_are_shown(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        beat = Heartbeat("me", producers=[ProducerData("pg")])
        await bench.ask(RequestCode.HEART_BEAT, body=beat)
        await bench.heartbeat("cg", "T", tags="A", client_id="me")
        header = ConsumerGroupHeader("cg")
        answer = await bench.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, header)
        consumers = decode(ConsumerConnections, answer.body)
        (connection,) = consumers.connections
        assert connection.client_id == "me" and connection.client_addr.startswith("127.0.0.1:")
        assert consumers.subscriptions["T"].tags == {"A"}
        answer = await bench.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, ProducerGroupHeader("pg"))
        assert decode(ProducerConnections, answer.body).connections == [connection]


async def test_groups_without_members_are_not_online(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        header = ConsumerGroupHeader("cg")
        answer = await bench.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, header)
        assert (answer.code, answer.remark) == (
            ResponseCode.CONSUMER_NOT_ONLINE,
            "the consumer group[cg] not online",
        )
        answer = await bench.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, ProducerGroupHeader("pg"))
        assert answer.code == ResponseCode.SYSTEM_ERROR


async def test_how_far_a_group_is_behind_is_told_for_each_queue(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        for _ in range(3):
            await bench.send("T")
        await bench.ask(RequestCode.PULL_MESSAGE, pull_header("T"))
        bench.parts.offsets.commit("cg", "T", 0, 2)
        bench.parts.offsets.commit("cg", "deleted", 0, 2)
        answer = await bench.ask(RequestCode.GET_CONSUME_STATS, GetConsumeStatsHeader("cg"))
        offsets = decode(ConsumeStats, answer.body).offsets
        assert offsets[MessageQueue("T", BROKER, 0)] == ConsumeOffset(3, 2, bench.clock.now_ms(), 3)
        assert offsets[MessageQueue("T", BROKER, 1)] == ConsumeOffset()
        assert {queue.topic for queue in offsets} == {"T"}
        await bench.heartbeat("cg", "U")
        for header in (GetConsumeStatsHeader("cg", topic="T"), GetConsumeStatsHeader("cg")):
            answer = await bench.ask(RequestCode.GET_CONSUME_STATS, header)
            assert decode(ConsumeStats, answer.body).offsets == {}, "T is no longer subscribed to"
        listed = GetConsumeStatsHeader("cg", topic="U", topics="T;none")
        answer = await bench.ask(RequestCode.GET_CONSUME_STATS, listed)
        assert decode(ConsumeStats, answer.body).offsets == offsets, "who lists topics wants them all"


async def test_all_offsets_are_told(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        bench.parts.offsets.commit("cg", "T", 0, 2)
        answer = await bench.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)
        assert fastjson.loads(answer.body)["offsetTable"] == {"T@cg": {0: 2}}
