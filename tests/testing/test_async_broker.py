"""The embedded broker as coroutines use it: nothing that it does holds up their event loop."""

import asyncio
import inspect

import pytest

from cometmq import Consumer, Message, Producer, Start
from cometmq.testing import EmbeddedBroker, Fault
from cometmq.testing.async_broker import AsyncEmbeddedBroker

HOUR_S = 3_600


async def test_a_consumer_of_the_same_loop_handles_while_the_test_waits(
    rocketmq_async: AsyncEmbeddedBroker,
) -> None:
    await rocketmq_async.create_topic("orders", queues=2)
    await rocketmq_async.send(Message("orders", b"42 EUR"))
    bills = []
    consumer = Consumer(rocketmq_async.name_server, group="billing", start=Start.FIRST)

    @consumer.on("orders")
    async def handle(message: Message) -> None:
        bills.append(message.body)

    async with consumer:
        await rocketmq_async.wait_consumed("billing", "orders")
    assert bills == [b"42 EUR"]


async def test_what_becomes_due_is_there_when_the_time_has_moved(rocketmq_async: AsyncEmbeddedBroker) -> None:
    before = rocketmq_async.clock.now_ms()
    async with Producer(rocketmq_async.name_server) as producer:
        await producer.send(Message("reminders", b"pay!", delay_level=18))
    assert await rocketmq_async.messages("reminders") == []
    await rocketmq_async.advance(2 * HOUR_S)
    assert rocketmq_async.clock.now_ms() - before >= 2 * HOUR_S * 1000
    assert len(await rocketmq_async.wait_messages("reminders")) == 1
    await rocketmq_async.shift_wall(-HOUR_S)
    assert HOUR_S * 1000 <= rocketmq_async.clock.now_ms() - before < 2 * HOUR_S * 1000


async def test_requests_fail_as_planned_and_what_was_stored_outlives_a_restart(
    rocketmq_async: AsyncEmbeddedBroker,
) -> None:
    await rocketmq_async.fail_next(topic="orders", fault=Fault.CUT)
    assert rocketmq_async.failures_pending == 1
    async with Producer(rocketmq_async.name_server) as producer:
        await producer.send(Message("orders", b"1"))
    assert rocketmq_async.failures_pending == 0
    await rocketmq_async.restart()
    assert [message.body for message in await rocketmq_async.messages("orders")] == [b"1"]
    assert await rocketmq_async.dead_letters("billing") == [] and rocketmq_async.pulls_held == 0


async def test_a_wait_for_what_does_not_come_ends(rocketmq_async: AsyncEmbeddedBroker) -> None:
    with pytest.raises(TimeoutError, match="has 0 messages"):
        await rocketmq_async.wait_messages("orders", timeout_s=0.01)


async def test_several_waits_go_on_side_by_side(rocketmq_async: AsyncEmbeddedBroker) -> None:
    waiting = asyncio.gather(*(rocketmq_async.wait_messages(topic) for topic in ("a", "b")))
    await rocketmq_async.send(Message("b", b"1"))
    await rocketmq_async.send(Message("a", b"2"))
    assert [message.body for (message,) in await waiting] == [b"2", b"1"]


def test_it_has_all_that_the_embedded_broker_has() -> None:
    public = {name for name in vars(EmbeddedBroker) if not name.startswith("_")}
    assert public <= set(vars(AsyncEmbeddedBroker))
    for name in public:
        own, other = getattr(AsyncEmbeddedBroker, name), getattr(EmbeddedBroker, name)
        if inspect.isfunction(other):
            assert inspect.iscoroutinefunction(own)
            assert list(inspect.signature(own).parameters) == list(inspect.signature(other).parameters)
