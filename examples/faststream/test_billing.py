"""The application's tests: in memory, and with a broker in the tests' own process."""

import asyncio

import pytest
from billing import Bill, Order, bill, create_app, price
from faststream import TestApp

from cometmq.faststream import RocketMQBroker, TestRocketMQBroker
from cometmq.testing import AsyncEmbeddedBroker, EmbeddedBroker


async def test_a_paid_order_is_billed() -> None:
    app = create_app()
    assert isinstance(app.broker, RocketMQBroker)
    async with TestRocketMQBroker(app.broker) as broker, TestApp(app):
        await broker.publish(Order(number=42, buttons=3), "orders", tags="paid", keys=("42",))
        await broker.publish(Order(number=43, buttons=3), "orders", tags="new")
        bill.mock.assert_called_once_with({"number": 42, "buttons": 3})
        [publisher] = broker.publishers
        publisher.mock.assert_called_once_with({"order": 42, "cents": 75})


async def test_an_order_that_is_none_is_refused() -> None:
    app = create_app()
    assert isinstance(app.broker, RocketMQBroker)
    async with TestRocketMQBroker(app.broker) as broker, TestApp(app):
        with pytest.raises(ValueError, match="greater than 0"):
            await broker.publish({"number": 42, "buttons": 0}, "orders", tags="paid")


async def test_the_price_is_answered() -> None:
    app = create_app()
    assert isinstance(app.broker, RocketMQBroker)
    async with TestRocketMQBroker(app.broker) as broker, TestApp(app):
        reply = await broker.request(4, "prices")
        assert await reply.decode() == 100
        price.mock.assert_called_once_with(4)


async def test_with_a_broker_each_order_is_billed_or_buried(rocketmq_async: AsyncEmbeddedBroker) -> None:
    app = create_app(rocketmq_async.name_server)
    assert isinstance(app.broker, RocketMQBroker)
    async with app.broker as broker:
        await app.start()
        await broker.publish(Order(number=42, buttons=3), "orders", tags="paid", keys=("42",))
        await broker.publish(Order(number=43, buttons=1_001), "orders", tags="paid")
        await rocketmq_async.wait_consumed("billing", "orders")
        reply = await broker.request(4, "prices", timeout=60)
        await app.stop()
    [written] = await rocketmq_async.messages("bills")
    assert (Bill.model_validate_json(written.body), written.keys) == (Bill(order=42, cents=75), ("42",))
    assert (written.tags, await reply.decode()) == ("new", 100)
    [buried] = await rocketmq_async.dead_letters("billing")
    assert Order.model_validate_json(buried.body).number == 43


def test_the_application_runs_until_it_is_told_to_stop(rocketmq_session: EmbeddedBroker) -> None:
    async def main() -> None:
        app = create_app(rocketmq_session.name_server)
        app.after_startup(app.exit)
        await app.run()

    asyncio.run(main())
