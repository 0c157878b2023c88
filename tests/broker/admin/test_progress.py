from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.broker.conftest import BROKER, Bench, pull_header, serving
from tests.broker.pops import ack, popped
from tests.kit.brokers import sample, until

from cometmq.broker.admin import progress
from cometmq.message import MessageQueue
from cometmq.wire.bodies import (
    ConsumeOffset,
    ConsumeStats,
    GroupConfig,
    TopicConfig,
    decode,
)
from cometmq.wire.bodies.stats import NOT_KNOWN
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.headers import GetConsumeStatsHeader
from cometmq.wire.headers.admin import BrokerConsumeStatsHeader, GroupTopicHeader


def span(queue_id: int, first: int, last: int, consumed: int, waited_ms: int) -> str:
    return (
        f'{{"consumeTimeStamp":{consumed},"delayTime":{waited_ms},"maxTimeStamp":{last},"messageQueue":'
        f'{{"brokerName":"{BROKER}","queueId":{queue_id},"topic":"T"}},"minTimeStamp":{first}}}'
    )


def spans(*each: str) -> str:
    return f'{{"consumeTimeSpanSet":[{",".join(each)}]}}'


async def progress_in(bench: Bench, header: GetConsumeStatsHeader) -> dict[int, ConsumeOffset]:
    """Return the progress by queue id."""
    answer = await bench.ask(RequestCode.GET_CONSUME_STATS, header)
    return {queue.queue_id: at for queue, at in decode(ConsumeStats, answer.body).offsets.items()}


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
        assert offsets[MessageQueue("T", BROKER, 1)] == ConsumeOffset(begin=0)
        assert {queue.topic for queue in offsets} == {"T"}
        await bench.heartbeat("cg", "U")
        for header in (GetConsumeStatsHeader("cg", topic="T"), GetConsumeStatsHeader("cg")):
            answer = await bench.ask(RequestCode.GET_CONSUME_STATS, header)
            assert decode(ConsumeStats, answer.body).offsets == {}, "T is no longer subscribed to"
        listed = GetConsumeStatsHeader("cg", topic="U", topics="T;none")
        answer = await bench.ask(RequestCode.GET_CONSUME_STATS, listed)
        assert decode(ConsumeStats, answer.body).offsets == offsets, "who lists topics wants them all"


async def test_the_messages_that_a_group_has_popped_are_counted_until_they_are_acknowledged(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as bench:
        bench.parts.topics.put(TopicConfig("T", 1, 1))

        async def progress_of(group: str) -> ConsumeOffset:
            header = GetConsumeStatsHeader(group, topic="T")
            answer = await bench.ask(RequestCode.GET_CONSUME_STATS, header)
            return decode(ConsumeStats, answer.body).offsets[MessageQueue("T", BROKER, 0)]

        for _ in range(5):
            await bench.send("T")
        held = await popped(bench, max_msg_nums=3)
        now = await progress_of("g")
        assert (now.broker_offset, now.consumer_offset, now.pull_offset, now.popped) == (5, 3, 3, 3)
        await ack(bench, held[1])
        assert (await progress_of("g")).popped == 2
        for message in (held[0], held[2]):
            await ack(bench, message)
        now = await progress_of("g")
        assert (now.consumer_offset, now.pull_offset, now.popped) == (3, 3, None)


async def test_a_group_that_has_committed_nothing_is_counted_from_where_it_began(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as bench:
        bench.parts.topics.put(TopicConfig("T", 2, 2))
        for _ in range(5):
            await bench.send("T")
        await bench.heartbeat("cg", "T")
        assert await progress_in(bench, GetConsumeStatsHeader("cg")) == {}, "nothing is made up"
        await bench.ask(
            RequestCode.PULL_MESSAGE, replace(pull_header("T", 2), max_message_count=1)
        )  # and its handlers hang
        found = await progress_in(bench, GetConsumeStatsHeader("cg"))
        assert found == {0: ConsumeOffset(5, 2, pull_offset=3, begin=2)}
        answer = await bench.ask(
            RequestCode.GET_BROKER_CONSUME_STATS, BrokerConsumeStatsHeader(is_order=False)
        )
        assert '"totalDiff":3,"totalInflightDiff":1' in answer.body.decode()
        bench.parts.offsets.commit("cg", "T", 0, 3)
        now = (await progress_in(bench, GetConsumeStatsHeader("cg")))[0]
        assert (now.consumer_offset, now.begin) == (3, None)


async def test_a_member_that_waits_at_the_end_has_begun_there(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        bench.parts.topics.put(TopicConfig("T", 1, 1))
        await bench.send("T")
        await bench.heartbeat("cg", "T")
        held = bench.ask_later(RequestCode.PULL_MESSAGE, pull_header("T", 1, wait_ms=60_000))
        await until(bench, lambda: bench.parts.pulls.held_count == 1)
        assert await progress_in(bench, GetConsumeStatsHeader("cg")) == {
            0: ConsumeOffset(1, 1, pull_offset=1, begin=1)
        }
        await bench.send("T")
        await held
        assert await progress_in(bench, GetConsumeStatsHeader("cg")) == {
            0: ConsumeOffset(2, 1, pull_offset=2, begin=1)
        }


async def test_a_group_without_members_and_commits_has_zeros_only_where_it_is_asked_for(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as bench:
        bench.parts.topics.put(TopicConfig("T", 1, 1))
        await bench.send("T")
        assert await progress_in(bench, GetConsumeStatsHeader("cg")) == {}
        asked = await progress_in(bench, GetConsumeStatsHeader("cg", topic="T"))
        assert asked == {0: ConsumeOffset(1, 0, begin=NOT_KNOWN)}, "as a Java broker answers, and marked"


async def test_the_next_message_of_a_group_waits_since_where_it_begins(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        bench.parts.topics.put(TopicConfig("T", 1, 1))
        for _ in range(2):
            await bench.send("T")
            bench.clock.advance(1_000)
        await bench.ask(RequestCode.PULL_MESSAGE, pull_header("T", 1))
        answer = await bench.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, GroupTopicHeader("T", "cg"))
        assert '"delayTime":1000,' in answer.body.decode()


async def test_messages_popped_in_order_are_in_flight_until_they_are_acknowledged(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        bench.parts.topics.put(TopicConfig("T", 1, 1))
        for _ in range(5):
            await bench.send("T")
        held = await popped(bench, max_msg_nums=3, order=True)
        await ack(bench, held[0])
        answer = await bench.ask(RequestCode.GET_CONSUME_STATS, GetConsumeStatsHeader("g", topic="T"))
        now = decode(ConsumeStats, answer.body).offsets[MessageQueue("T", BROKER, 0)]
        assert (now.broker_offset, now.consumer_offset, now.pull_offset, now.popped) == (5, 1, 3, None)


async def test_the_rate_of_a_group_is_that_of_the_last_minute(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        for _ in range(5):
            await bench.send("T")
        await bench.ask(RequestCode.PULL_MESSAGE, pull_header("T"))
        bench.parts.offsets.commit("cg", "T", 0, 5)
        await sample(bench)
        answer = await bench.ask(RequestCode.GET_CONSUME_STATS, GetConsumeStatsHeader("cg"))
        assert decode(ConsumeStats, answer.body).consume_tps == 0.5


async def test_how_far_all_groups_are_behind_is_shown_at_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        code = RequestCode.GET_BROKER_CONSUME_STATS
        for group in list(bench.parts.groups):
            bench.parts.groups.delete(group.group)
        await bench.send("T")
        await bench.send("T")
        bench.parts.topics.put(TopicConfig("T", 1, 1))
        bench.parts.topics.put(TopicConfig("Ordered", 1, 1, order=True))
        await bench.ask(RequestCode.PULL_MESSAGE, pull_header("T"))
        bench.parts.offsets.commit("cg", "T", 0, 1)
        bench.parts.offsets.commit("cg", "Ordered", 0, 0)
        answer = await bench.ask(code, BrokerConsumeStatsHeader(is_order=False))
        assert answer.body.decode() == (
            f'{{"brokerAddr":"{bench.address}",'
            '"consumeStatsList":[{"cg":['
            '{"consumeTps":0.0,"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"Ordered"}:'
            '{"brokerOffset":0,"consumerOffset":0,"lastTimestamp":0,"pullOffset":0}}},'
            '{"consumeTps":0.0,"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:'
            '{"brokerOffset":2,"consumerOffset":1,'
            f'"lastTimestamp":{bench.clock.now_ms()},"pullOffset":2}}}}}}'
            ']}],"totalDiff":1,"totalInflightDiff":1}'
        )
        answer = await bench.ask(code, BrokerConsumeStatsHeader(is_order=True))
        assert b'"topic":"T"' not in answer.body and b'"topic":"Ordered"' in answer.body


async def test_the_queues_of_all_groups_are_shown_up_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "QUEUES_MAX", 8)
    async with serving(tmp_path) as bench:
        await bench.send("T")
        for group, code in (("a", 0), ("b", 0), ("c", ResponseCode.SYSTEM_ERROR)):
            bench.parts.groups.put(GroupConfig(group=group))
            bench.parts.offsets.commit(group, "T", 0, 1)
            answer = await bench.ask(
                RequestCode.GET_BROKER_CONSUME_STATS, BrokerConsumeStatsHeader(is_order=False)
            )
            assert answer.code == code
        assert answer.remark == "groups consume more than 8 queues: request each group's lag"


async def test_the_times_of_a_topics_messages_are_shown_by_queue(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        code, first = RequestCode.QUERY_CONSUME_TIME_SPAN, bench.clock.now_ms()
        for _ in range(3):
            await bench.send("T")
            bench.clock.advance(1_000)
        bench.parts.topics.put(TopicConfig("T", 2, 2))
        header = GroupTopicHeader("T", "cg")
        answer = await bench.ask(code, header)
        empty = span(1, first=-1, last=-1, consumed=-1, waited_ms=0)
        last = first + 2_000
        assert answer.body.decode() == spans(span(0, first, last, consumed=first, waited_ms=3_000), empty)
        for committed, consumed, waited_ms in ((2, first + 1_000, 1_000), (3, last, 0)):
            bench.parts.offsets.commit("cg", "T", 0, committed)
            answer = await bench.ask(code, header)
            assert answer.body.decode() == spans(span(0, first, last, consumed, waited_ms), empty)
        answer = await bench.ask(code, GroupTopicHeader("None", "cg"))
        assert (answer.code, answer.remark) == (ResponseCode.TOPIC_NOT_EXIST, "topic[None] not exist")
