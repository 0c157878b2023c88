"""Consumers of each kind whose filter a broker cannot parse, with any broker."""

import asyncio
from typing import Any

import pytest
from tests.consuming import Basket
from tests.shop import shop_at

from cometmq.admin.topics import TopicAdmin
from cometmq.client import LitePullConsumer, Model, SimpleConsumer
from cometmq.errors import RemoteError

SAID = "code 23: .*correct the condition"


@pytest.mark.parametrize(
    "arguments", [{}, {"pop": True}, {"model": Model.BROADCASTING}], ids=["pull", "pop", "broadcasting"]
)
async def test_a_push_consumer_does_not_start_with_a_filter_that_its_broker_cannot_parse(
    arguments: dict[str, Any], name_server: str, topic: str
) -> None:
    async with shop_at(name_server, topic) as here:
        consumer = here.consumer(**arguments)
        consumer.on(topic, sql="size >")(print)
        with pytest.raises(RemoteError, match=SAID):
            await consumer.start()


@pytest.mark.parametrize("kind", [SimpleConsumer, LitePullConsumer])
async def test_a_subscription_whose_filter_cannot_be_parsed_leaves_the_others_as_they_are(
    kind: Any, name_server: str, topic: str
) -> None:
    async with (
        shop_at(name_server, topic) as here,
        TopicAdmin(name_server) as admin,
        kind(name_server, topic) as consumer,
    ):
        await admin.create(f"{topic}_2", queues=1)
        await consumer.subscribe(topic, sql="size > 3 OR size IS NULL")
        with pytest.raises(RemoteError, match=SAID):
            await consumer.subscribe(f"{topic}_2", sql="size >")
        await here.send(b"0")
        read = consumer.receive if kind is SimpleConsumer else consumer.poll
        assert [message.body for message in await read()] == [b"0"]


async def test_a_running_consumer_logs_once_that_a_new_filter_cannot_be_parsed(
    name_server: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with shop_at(name_server, topic) as here, TopicAdmin(name_server) as admin:
        await admin.create(f"{topic}_2", queues=1)
        basket = Basket()
        consumer = here.consumer()
        consumer.on(topic)(basket.put)
        async with consumer:
            consumer.on(f"{topic}_2", sql="size >")(print)
            while "correct the condition" not in caplog.text:  # noqa: ASYNC110 a log has no event
                await asyncio.sleep(0.01)
            await here.send(b"0")
            assert await basket.has(1) == [b"0"]
    assert caplog.text.count(f"group {topic} gets no messages: code 23") == 1
