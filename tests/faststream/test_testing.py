"""The test broker: handlers are called in memory."""

import pytest

pytest.importorskip("faststream", reason="FastStream is not installed: it is in requirements.lock")

from faststream.exceptions import SubscriberNotFound
from pydantic import BaseModel

from cometmq.faststream import RocketMQBroker, RocketMQMessage, RocketMQResponse, TestRocketMQBroker


class Order(BaseModel):
    number: int


def new_broker() -> RocketMQBroker:
    return RocketMQBroker("127.0.0.1:1", group="billing", logger=None)


async def test_a_handler_gets_what_is_published_and_its_answer_is_published() -> None:
    broker = new_broker()

    @broker.subscriber("orders")
    @broker.publisher("bills", tags="new")
    async def bill(order: Order) -> str:
        return f"bill {order.number}"

    @broker.subscriber("bills", group="archive", tags="new")
    async def archive(text: str) -> None:
        pass

    async with TestRocketMQBroker(broker):
        result = await broker.publish(Order(number=7), "orders")
        assert result.queue.topic == "orders"
        bill.mock.assert_called_once_with({"number": 7})
        archive.mock.assert_called_once_with("bill 7")


async def test_one_subscriber_of_each_group_gets_a_message_that_its_filter_accepts() -> None:
    broker, got = new_broker(), []

    @broker.subscriber("orders", tags="paid || sent")
    async def paid(number: int) -> None:
        got.append(("paid", number))

    @broker.subscriber("orders", group="large", sql="size > 10 AND TAGS = 'paid'")
    async def large(number: int) -> None:
        got.append(("large", number))

    async with TestRocketMQBroker(broker):
        await broker.publish(1, "orders", tags="paid", headers={"size": 5})
        await broker.publish(2, "orders", tags="paid", headers={"size": 50})
        await broker.publish(3, "orders", tags="lost", headers={"size": 50})
        await broker.publish(4, "others")
    assert sorted(got) == [("large", 2), ("paid", 1), ("paid", 2)]


async def test_a_publisher_without_a_subscriber_records_what_is_published() -> None:
    broker = new_broker()
    publisher = broker.publisher("bills", keys=("all",))
    async with TestRocketMQBroker(broker):
        await publisher.publish("a bill", keys=("42",))
        publisher.mock.assert_called_once_with("a bill")


async def test_a_request_returns_what_the_handler_answers() -> None:
    broker = new_broker()

    @broker.subscriber("prices")
    async def price(name: str) -> RocketMQResponse:
        return RocketMQResponse(f"{name}: 5", headers={"currency": "EUR"})

    async with TestRocketMQBroker(broker):
        reply = await broker.request("button", "prices")
        assert (await reply.decode(), reply.headers["currency"]) == ("button: 5", "EUR")
        with pytest.raises(SubscriberNotFound, match="'orders'"):
            await broker.request("button", "orders")


async def test_what_a_handler_raises_is_raised_to_the_publisher() -> None:
    broker = new_broker()

    @broker.subscriber("orders")
    async def fail(body: str) -> None:
        raise ValueError(body)

    async with TestRocketMQBroker(broker):
        with pytest.raises(ValueError, match="no such order"):
            await broker.publish("no such order", "orders")


async def test_a_batch_calls_the_handler_with_each_message() -> None:
    broker, got = new_broker(), []

    @broker.subscriber("orders")
    async def handle(number: int, message: RocketMQMessage) -> None:
        got.append((number, message.stored.tags, message.correlation_id))

    async with TestRocketMQBroker(broker):
        results = await broker.publish_batch(1, 2, topic="orders", tags="paid", correlation_id="c")
    assert got == [(1, "paid", "c"), (2, "paid", "c")]
    assert [result.queue_offset for result in results] == [0, 1]


async def test_brokers_that_are_tested_together_hear_each_other() -> None:
    one, other = new_broker(), new_broker()

    @other.subscriber("orders")
    async def handle(body: str) -> None:
        pass

    async with TestRocketMQBroker(one, other):
        await one.publish("hello", "orders")
        handle.mock.assert_called_once_with("hello")
