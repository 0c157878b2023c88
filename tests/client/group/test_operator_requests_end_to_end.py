"""What operators ask a consumer by way of a broker, at a broker of whatever make."""

import asyncio

import pytest
from tests.consuming import Basket
from tests.shop import Shop, shop_at

from cometmq.admin.cluster import ClusterAdmin
from cometmq.admin.groups import running
from cometmq.admin.messages import Handled, consume_directly
from cometmq.client import Consumer, LitePullConsumer, Retry
from cometmq.client.handling.outcome import DeadLetter
from cometmq.errors import CometMQError, RemoteError
from cometmq.message import StoredMessage
from cometmq.wire.bodies.running import ConsumeResult


async def give_again(here: Shop, message: StoredMessage) -> Handled:
    async with ClusterAdmin(here.live.name_server) as cluster:
        return await consume_directly(cluster, here.group_name, message)


async def test_a_member_tells_what_it_consumes_and_what_waits(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here, ClusterAdmin(here.live.name_server) as cluster:
        basket, gate = Basket(), asyncio.Event()
        consumer = here.consumer(max_concurrency=1)

        @consumer.on(topic, tags="*")
        async def handle(message: StoredMessage) -> None:
            await basket.put(message)
            await gate.wait()

        await here.send(b"0", b"1")
        async with consumer:
            await basket.has(1)
            info = await running(cluster, topic, consumer.client_id)
            gate.set()
        queue = info.queues[here.queue]
        assert (queue.commit_offset, queue.locked) == (0, False)
        assert queue.waiting_count == queue.waiting_max_offset + 1
        assert {data.topic for data in info.subscriptions} == {topic, f"%RETRY%{topic}"}
        assert info.topics.keys() == {topic, f"%RETRY%{topic}"}
        assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
        assert int(info.properties["PROP_CONSUMER_START_TIMESTAMP"]) > 0


async def test_a_handler_gets_a_message_again_and_what_it_does_is_told(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here:
        basket = Basket()
        outcomes: list[Exception | None] = [None, Retry(), DeadLetter(), ValueError("no")]

        consumer = here.consumer()

        @consumer.on(topic)
        async def handle(message: StoredMessage) -> None:
            await basket.put(message)
            again = len(basket.messages) - 1
            if again and (outcome := outcomes[again - 1]) is not None:
                raise outcome

        await here.send(b"0")
        async with consumer:
            await basket.has(1)
            message = basket.messages[0]
            given = [await give_again(here, message) for _ in outcomes]
        assert [one.outcome.result for one in given] == [
            ConsumeResult.SUCCESS,
            ConsumeResult.LATER,
            ConsumeResult.LATER,
            ConsumeResult.THROW_EXCEPTION,
        ]
        assert given[-1].outcome.remark == "ValueError('no')"
        assert {one.client_id for one in given} == {consumer.client_id}
        assert await here.committed() == 1


async def test_a_consumer_that_is_polled_tells_how_it_does_but_handles_nothing(
    name_server: str, topic: str
) -> None:
    async with shop_at(name_server, topic) as here, ClusterAdmin(here.live.name_server) as cluster:
        await here.send(b"0")
        (message,) = (await here.requests.pull(here.queue, 0)).messages
        async with LitePullConsumer(here.live.name_server, topic) as consumer:
            await consumer.subscribe(topic)
            info = await running(cluster, topic, consumer._settings.client_id)
            assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_ACTIVELY"
            with pytest.raises(RemoteError, match="not supported"):
                await give_again(here, message)


async def test_a_dead_letter_is_handled_by_the_handler_of_its_topic(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here:
        basket = Basket()
        consumer: Consumer = here.consumer()

        @consumer.on(topic)
        async def handle(message: StoredMessage) -> None:
            await basket.put(message)
            if len(basket.messages) == 1:
                raise DeadLetter

        await here.send(b"0")
        async with consumer:
            await basket.has(1)
            letter = await _letter(here)
            given = await give_again(here, letter)
        assert given.outcome.result is ConsumeResult.SUCCESS
        assert [one.topic for one in basket.messages] == [topic, topic]


async def _letter(here: Shop) -> StoredMessage:
    """Wait for the dead letter of the group."""
    queue = here.queue._replace(topic=f"%DLQ%{here.group_name}")
    while True:
        here.routes.expire(queue.topic)
        if queue.topic in await _topics(here):
            pulled = await here.requests.pull(queue, 0, wait_ms=1_000)
            if pulled.messages:
                return pulled.messages[0]


async def _topics(here: Shop) -> list[str]:
    async with ClusterAdmin(here.live.name_server) as cluster:
        return await cluster.topics()


async def test_a_handler_of_an_operator_s_message_can_stop_its_consumer(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here:
        basket, stopped = Basket(), asyncio.Event()
        consumer = here.consumer()

        @consumer.on(topic)
        async def handle(message: StoredMessage) -> None:
            if basket.messages:
                await consumer.stop()
                stopped.set()
            await basket.put(message)

        await here.send(b"0")
        async with consumer:
            await basket.has(1)
            with pytest.raises(CometMQError):  # who has left cannot answer
                await give_again(here, basket.messages[0])
            await stopped.wait()
