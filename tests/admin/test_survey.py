"""All topics and groups of a live cluster at once, also when a broker is gone."""

from pathlib import Path

from tests.fuzzed_broker import NAME, fuzzed_broker
from tests.kit.brokers import register_a_broker_that_is_gone
from tests.live import BROKER, serving

from cometmq.admin import offsets, survey
from cometmq.admin.topics import TopicAdmin
from cometmq.client import Consumer, Producer, PullConsumer, TransactionProducer, TransactionState
from cometmq.message import Message


async def test_lags_are_those_of_each_group(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        await admin.create("Orders", queues=2)
        await admin.create("Idle", queues=1)
        async with Producer(live.name_server) as producer:
            for number in range(5):
                await producer.send(Message("Orders", str(number).encode()))
        async with PullConsumer(live.name_server, "billing") as reader:
            for queue in await reader.queues("Orders"):
                await reader.commit(queue, 1)
        found = await survey.survey(admin)
        assert found.troubles == []
        topics = {one.topic: one for one in found.topics}
        orders, idle = topics["Orders"], topics["Idle"]
        assert (orders.brokers, orders.queue_count, orders.message_count) == ([BROKER], 2, 5)
        assert orders.is_users and not topics["TBW102"].is_users and not topics[BROKER].is_users
        assert orders.lags == {"billing": 3} and (idle.lags, idle.message_count) == ({}, 0)
        (billing,) = [one for one in found.groups if one.group == "billing"]
        assert (billing.lag, billing.members, billing.is_divided) == (3, 0, False)
        progress = await offsets.progress_of(admin, "billing")
        assert billing.lag == sum(queue.lag for queue in progress.queues)
        spans = await survey.retained_spans(admin, found.topics)
        assert 0 < spans["Orders"].first_time <= spans["Orders"].last_time == orders.last_time
        assert "Idle" not in spans, "nothing is asked about a topic without messages"


async def test_members_and_producers_are_there_while_they_run(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        await admin.create("Orders", queues=1)
        consumer = Consumer(live.name_server, "billing")
        consumer.subscribe("Orders", print)
        async with consumer:
            (billing,) = (await survey.survey(admin)).groups
            assert (billing.group, billing.members) == ("billing", 1)
        producer = TransactionProducer(live.name_server, "shop", check=lambda _: TransactionState.COMMIT)
        async with producer:
            await producer.send(Message("Orders", b"x"))
            lines, troubles = await survey.producers(admin)
        assert [(line.group, line.broker_name) for line in lines] == [("shop", BROKER)] and troubles == []


async def test_a_broker_that_is_gone_is_a_trouble_and_the_others_are_surveyed(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        await admin.create("Orders", queues=1)
        gone = await register_a_broker_that_is_gone(admin)
        found = await survey.survey(admin)
        (trouble,) = found.troubles
        assert (trouble.broker_name, trouble.address) == ("broker-gone", gone) and gone in trouble.text
        assert "Orders" in {one.topic for one in found.topics}
        lines, troubles = await survey.producers(admin)
        assert lines == [] and troubles == [trouble]


async def test_a_broker_that_answers_what_cannot_be_read_is_a_trouble_of_its_name(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        await admin.create("Orders", queues=1)
        async with fuzzed_broker(admin):
            found = await survey.survey(admin)
            assert {trouble.broker_name for trouble in found.troubles} == {NAME}
            assert all("answers what cannot be read: " in trouble.text for trouble in found.troubles)
            assert "Orders" in {one.topic for one in found.topics}
            _, (trouble,) = await survey.producers(admin)
            assert trouble.broker_name == NAME
