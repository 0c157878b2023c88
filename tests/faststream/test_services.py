"""An application on a broker that runs, in the test's own process."""

import asyncio
from typing import Any

import pytest

pytest.importorskip("faststream", reason="FastStream is not installed: it is in requirements.lock")

from faststream import AckPolicy
from faststream.exceptions import NackMessage, RejectMessage, StopConsume

from cometmq import Message, Start
from cometmq import Producer as AsyncProducer
from cometmq.faststream import RocketMQBroker, RocketMQMessage, RocketMQResponse, TestRocketMQBroker
from cometmq.faststream.subscriber import RocketMQSubscriber
from cometmq.testing import AsyncEmbeddedBroker

PATIENCE_S = 120


def new_broker(rocketmq: AsyncEmbeddedBroker, **options: Any) -> RocketMQBroker:
    return RocketMQBroker(rocketmq.name_server, group="billing", logger=None, **options)


class Got(asyncio.Queue[Any]):
    """What handlers got."""

    async def take(self, count: int) -> list[Any]:
        async with asyncio.timeout(PATIENCE_S):
            return [await self.get() for _ in range(count)]


@pytest.fixture
async def got() -> Got:
    return Got()


async def test_messages_go_from_publishers_to_subscribers_with_headers_tags_and_keys(
    rocketmq_async: AsyncEmbeddedBroker, got: Got
) -> None:
    broker = new_broker(rocketmq_async)

    @broker.subscriber("orders", tags="paid", start=Start.FIRST, max_workers=4)
    @broker.publisher("bills", tags="new")
    async def bill(order: dict[str, int], message: RocketMQMessage) -> RocketMQResponse:
        await got.put((order, message.stored.keys, message.headers["from"], message.correlation_id))
        return RocketMQResponse(order["number"], keys=message.stored.keys)

    @broker.subscriber("bills", start=Start.FIRST, max_workers=4)
    async def archive(number: int, message: RocketMQMessage) -> None:
        await got.put((number, message.stored.tags, message.stored.keys, message.correlation_id))

    async with broker:
        await broker.start()
        assert await broker.ping(PATIENCE_S)
        options: Any = {"keys": ("42",), "headers": {"from": "shop"}, "correlation_id": "c1"}
        await broker.publish({"number": 41}, "orders", tags="lost")
        result = await broker.publish({"number": 42}, "orders", tags="paid", **options)
        assert result.queue.topic == "orders"
        assert await got.take(2) == [({"number": 42}, ("42",), "shop", "c1"), (42, "new", ("42",), "c1")]
    [stored] = await rocketmq_async.messages("bills")
    assert (stored.body, stored.properties["content-type"]) == (b"42", "application/json")


async def test_a_message_that_fails_comes_again_and_one_that_is_rejected_is_a_dead_letter(
    rocketmq_async: AsyncEmbeddedBroker, got: Got
) -> None:
    broker = new_broker(rocketmq_async)

    @broker.subscriber("orders", start=Start.FIRST)
    async def handle(body: str, message: RocketMQMessage) -> None:
        await got.put((body, message.stored.reconsume_times))
        if body == "bad":
            raise RejectMessage
        if message.stored.reconsume_times == 0:
            raise NackMessage(delay_level=1) if body == "later" else ValueError(body)

    async with broker:
        await broker.start()
        for body in ("bad", "fails", "later"):
            await broker.publish(body, "orders")
        await rocketmq_async.wait_consumed("billing", "orders")
        await rocketmq_async.wait_consumed("billing", "orders", retries=True)
    tries: list[tuple[str, int]] = await got.take(5)
    assert sorted(tries) == [("bad", 0), ("fails", 0), ("fails", 1), ("later", 0), ("later", 1)]
    assert [one.body for one in await rocketmq_async.dead_letters("billing")] == [b"bad"]


async def test_with_the_policy_manual_only_what_is_acknowledged_is_done(
    rocketmq_async: AsyncEmbeddedBroker, got: Got
) -> None:
    broker = new_broker(rocketmq_async)

    @broker.subscriber("orders", start=Start.FIRST, ack_policy=AckPolicy.MANUAL)
    async def handle(message: RocketMQMessage) -> None:
        await got.put(message.stored.reconsume_times)
        if message.stored.reconsume_times == 1:
            await message.ack()
            await message.nack()  # too late: the first one counts

    async with broker:
        await broker.start()
        await broker.publish("an order", "orders")
        await rocketmq_async.wait_consumed("billing", "orders")
        await rocketmq_async.wait_consumed("billing", "orders", retries=True)
    assert await got.take(2) == [0, 1] and got.empty()


async def test_a_request_gets_the_reply_of_its_handler(rocketmq_async: AsyncEmbeddedBroker) -> None:
    broker = new_broker(rocketmq_async)

    @broker.subscriber("prices", start=Start.FIRST)
    async def price(name: str) -> RocketMQResponse:
        return RocketMQResponse({name: 5}, headers={"currency": "EUR"})

    asking = broker.publisher("prices")
    async with broker:
        await broker.start()
        reply = await broker.request("button", "prices", timeout=PATIENCE_S, correlation_id="c1")
        assert (await reply.decode(), reply.headers["currency"]) == ({"button": 5}, "EUR")
        assert reply.correlation_id == "c1"
        assert await (await asking.request("coin", timeout=PATIENCE_S)).decode() == {"coin": 5}


async def test_a_subscriber_without_handlers_is_asked_for_messages(
    rocketmq_async: AsyncEmbeddedBroker,
) -> None:
    broker = new_broker(rocketmq_async)
    subscriber = broker.subscriber("orders", start=Start.FIRST)
    async with broker:
        await broker.start()
        await broker.publish_batch("one", "two", "three", topic="orders")
        first = await subscriber.get_one(timeout=PATIENCE_S)
        assert first is not None
        bodies = [await first.decode()]
        async for message in subscriber:
            bodies.append(await message.decode())
            if len(bodies) == 3:
                break
        assert {*bodies} == {"one", "two", "three"}
        assert await subscriber.get_one(timeout=0) is None


async def test_a_subscriber_that_comes_or_stops_while_the_broker_runs_is_heard(
    rocketmq_async: AsyncEmbeddedBroker, got: Got
) -> None:
    broker = new_broker(rocketmq_async)

    @broker.subscriber("orders", start=Start.FIRST)
    async def handle(body: str) -> None:
        await got.put(body)
        if body == "last":
            raise StopConsume

    async with broker:
        await broker.start()
        await rocketmq_async.create_topic("later", queues=1)
        later = broker.subscriber("later", start=Start.FIRST)
        later(got.put)
        await later.start()
        await broker.publish("late", "later")
        assert await got.take(1) == ["late"]
        await later.stop()
        await broker.publish("last", "orders")
        assert await got.take(1) == ["last"]


async def test_a_stop_waits_for_the_running_handler_and_commits_what_it_did(
    rocketmq_async: AsyncEmbeddedBroker, got: Got
) -> None:
    broker, freed = new_broker(rocketmq_async, graceful_timeout=PATIENCE_S), asyncio.Event()

    @broker.subscriber("orders", start=Start.FIRST)
    async def handle(body: str) -> None:
        await got.put(body)
        await freed.wait()

    await broker.start()
    await broker.publish("an order", "orders")
    assert await got.take(1) == ["an order"]
    stopping = asyncio.ensure_future(broker.stop())
    freed.set()
    await stopping
    await rocketmq_async.wait_consumed("billing", "orders")
    assert not await broker.ping(PATIENCE_S)


async def test_the_test_broker_records_what_a_real_broker_delivers(
    rocketmq_async: AsyncEmbeddedBroker,
) -> None:
    broker = new_broker(rocketmq_async)
    publisher = broker.publisher("bills")

    @broker.subscriber("orders", start=Start.FIRST)
    async def handle(body: str) -> None:
        pass

    await rocketmq_async.create_topic("bills", queues=1)
    async with TestRocketMQBroker(broker, with_real=True):
        await broker.publish("an order", "orders")
        await publisher.publish("a bill")
        await handle.wait_call(timeout=PATIENCE_S)
        handle.mock.assert_called_once_with("an order")
        [fake] = (
            one for one in broker.subscribers if isinstance(one, RocketMQSubscriber) and one.topic == "bills"
        )
        await next(iter(fake.calls)).handler.wait_call(timeout=PATIENCE_S)
        publisher.mock.assert_called_once_with("a bill")


async def test_with_traced_a_trace_goes_through_the_publisher_and_the_handler(
    rocketmq_async: AsyncEmbeddedBroker, got: Got
) -> None:
    sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="OpenTelemetry is not installed")
    trace = pytest.importorskip("opentelemetry.trace")
    broker = new_broker(rocketmq_async, traced=True)

    @broker.subscriber("orders", start=Start.FIRST)
    async def handle(_: str) -> None:
        await got.put(trace.get_current_span().get_span_context().trace_id)

    async with broker:
        await broker.start()
        provider = sdk.TracerProvider(shutdown_on_exit=False)
        with provider.get_tracer("shop").start_as_current_span("order") as span:
            await broker.publish("an order", "orders")
        assert await got.take(1) == [span.get_span_context().trace_id]


async def test_a_handler_can_stop_its_broker(rocketmq_async: AsyncEmbeddedBroker, got: Got) -> None:
    broker = new_broker(rocketmq_async, graceful_timeout=3_600)

    @broker.subscriber("orders", start=Start.FIRST)
    async def stop(body: str) -> None:
        await broker.stop()
        await got.put(body)

    async with AsyncProducer(rocketmq_async.name_server) as producer:
        await broker.start()
        await producer.send(Message("orders", b"quit"))
        assert await got.take(1) == ["quit"]
