"""The groups of a live cluster with their lags, members and dead letters."""

from pathlib import Path

from tests.consuming import hanging
from tests.live import BROKER, serving

from cometmq.admin.group_survey import queue_lags, survey_groups
from cometmq.admin.topics import TopicAdmin
from cometmq.client import Consumer, Producer, PullConsumer
from cometmq.message import Message, MessageQueue


async def test_each_group_has_its_lag_in_each_queue(tmp_path: Path) -> None:
    first, second = (MessageQueue("T", BROKER, queue_id) for queue_id in (0, 1))
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        await admin.create("T", queues=2)
        await admin.create("gone", queues=1)
        async with Producer(live.name_server) as producer:
            for queue in (first, first, first, second):
                await producer.send(Message("T", b"x"), queue)
        assert await queue_lags(admin) == {}
        for group, queue, offset in (
            ("a", first, 1),
            ("b", second, 9),
            ("c", MessageQueue("gone", BROKER, 0), 0),
        ):
            async with PullConsumer(live.name_server, group) as reader:
                await reader.commit(queue, offset)
        await admin.delete("gone")
        found = await queue_lags(admin)
        assert found["a"] == {first: 2, second: 1}
        assert found["b"] == {first: 3, second: 0}, "it is ahead of the end"
        assert found.get("c", {}) == {}


async def test_groups_have_members_lags_by_topic_and_dead_letters(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        for topic in ("T", "U", "%DLQ%a"):
            await admin.create(topic, queues=1)
        async with Producer(live.name_server) as producer:
            for topic in ("T", "T", "U", "%DLQ%a"):
                await producer.send(Message(topic, b"x"))
        async with PullConsumer(live.name_server, "a") as reader:
            for topic in ("T", "U"):
                await reader.commit(MessageQueue(topic, BROKER, 0), 0)
        consumer = Consumer(live.name_server, "b")
        consumer.subscribe("U", print)
        async with consumer:
            found = await survey_groups(admin, with_dead_letters=True)
        a, b = found.groups
        assert (a.group, a.lags, a.lag, a.members, a.is_divided) == ("a", {"T": 2, "U": 1}, 3, 0, False)
        assert (b.group, b.members) == ("b", 1)
        assert found.dead_letters == {"a": 1, "b": 0} and found.troubles == []
        assert (await survey_groups(admin)).dead_letters == {}


async def test_a_group_that_has_committed_nothing_lags_from_where_it_begins(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        await admin.create("T", queues=1)
        async with Producer(live.name_server) as producer:
            await producer.send(Message("T", b"x"))
        async with hanging(live.name_server, "g", "T"):
            (group,) = (await survey_groups(admin)).groups
            assert (group.lags["T"], group.has_committed) == (1, False)
            assert (await queue_lags(admin))["g"][MessageQueue("T", BROKER, 0)] == 1
            async with PullConsumer(live.name_server, "g") as reader:
                await reader.commit(MessageQueue("T", BROKER, 0), 1)
            (group,) = (await survey_groups(admin)).groups
            assert (group.lags["T"], group.has_committed) == (0, True)


async def test_a_topic_that_members_do_not_subscribe_to_any_more_is_no_lag(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        for topic in ("T", "U"):
            await admin.create(topic, queues=1)
        async with Producer(live.name_server) as producer:
            await producer.send(Message("T", b"x"))
        async with PullConsumer(live.name_server, "g") as reader:
            await reader.commit(MessageQueue("T", BROKER, 0), 0)
        assert (await survey_groups(admin)).groups[0].lags == {"T": 1}
        consumer = Consumer(live.name_server, "g")
        consumer.subscribe("U", print)
        async with consumer:
            (group,) = (await survey_groups(admin)).groups
            assert "T" not in group.lags
