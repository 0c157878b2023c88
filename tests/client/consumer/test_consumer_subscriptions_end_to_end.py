"""Subscribing and unsubscribing while a consumer runs, with any broker: what is asked for happens at once."""

import asyncio
from pathlib import Path

import pytest
from tests.consuming import Basket
from tests.shop import Shop, shop_at

from cometmq.admin.topics import TopicAdmin
from cometmq.client import Consumer, Model
from cometmq.client.consumer.consumption import Consumption
from cometmq.client.group import rebalancing
from cometmq.client.group.rebalancing import Locks
from cometmq.client.handling.consumed_queue import ConsumedQueue
from cometmq.message import Message, MessageQueue, StoredMessage

LOOK_S = 0.02


@pytest.fixture(autouse=True)
def _never_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the clock from being a reason to look again, or to tell brokers anything."""
    monkeypatch.setattr(rebalancing, "REBALANCE_S", 3_600.0)
    defaults = Consumer.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "heartbeat_interval_ms", 3_600_000)


def consumed(consumer: Consumer) -> dict[MessageQueue, ConsumedQueue]:
    """Return what a consumer consumes, or is about to give up."""
    assert isinstance(consumer._running, Consumption)
    return consumer._running.rebalancing.queues


async def gone(consumer: Consumer, queue: MessageQueue) -> None:
    """Wait until a queue is given up."""
    while True:
        if queue not in consumed(consumer):
            return
        await asyncio.sleep(LOOK_S)


async def known(here: Shop, *topics: str) -> None:
    """Wait until the broker knows that the group wants these topics."""
    while True:
        if (await here.group()).subscriptions.keys() == set(topics):
            return
        await asyncio.sleep(LOOK_S)


def invoices_of(here: Shop) -> MessageQueue:
    """Return the one queue of another topic."""
    return here.queue._replace(topic=f"{here.queue.topic}_2")


async def invoice(here: Shop, *bodies: bytes) -> None:
    """Send to the other topic."""
    queue = invoices_of(here)
    async with TopicAdmin(here.live.name_server) as admin:
        await admin.create(queue.topic, queues=1)
    for body in bodies:
        await here.producer.send(Message(queue.topic, body))


async def test_a_topic_that_is_subscribed_to_later_is_taken_up_and_disturbs_no_other(
    name_server: str, topic: str
) -> None:
    async with shop_at(name_server, topic) as here:
        orders, invoices = Basket(), Basket()
        consumer = here.consumer()
        consumer.on(topic)(orders.put)
        await here.send(b"0")
        await invoice(here, b"1")
        async with consumer:
            await orders.has(1)
            before = consumed(consumer)[here.queue]
            consumer.on(invoices_of(here).topic)(invoices.put)
            assert await invoices.has(1) == [b"1"]
            await known(here, topic, invoices_of(here).topic, f"%RETRY%{topic}")
            assert consumed(consumer)[here.queue] is before and not before.pulling.stopped
            await here.send(b"2")
            assert await orders.has(2) == [b"0", b"2"]


async def test_a_topic_that_is_dropped_is_committed_and_can_be_taken_up_again(
    name_server: str, topic: str
) -> None:
    async with shop_at(name_server, topic) as here:
        orders, again, invoices = Basket(), Basket(), Basket()
        consumer = here.consumer()
        consumer.on(topic)(orders.put)
        consumer.on(invoices_of(here).topic)(invoices.put)
        await here.send(b"0")
        await invoice(here, b"1")
        async with consumer:
            await orders.has(1)
            await invoices.has(1)
            before = consumed(consumer)[invoices_of(here)]
            consumer.unsubscribe(topic)
            assert here.queue not in consumer.queues
            await gone(consumer, here.queue)
            assert await here.committed() == 1
            await known(here, invoices_of(here).topic, f"%RETRY%{topic}")
            await here.send(b"2")
            await invoice(here, b"3")
            assert await invoices.has(2) == [b"1", b"3"]
            assert consumed(consumer)[invoices_of(here)] is before
            consumer.on(topic)(again.put)
            assert await again.has(1) == [b"2"]
        assert len(orders.messages) == 1


async def test_an_ordered_topic_that_is_dropped_is_unlocked_when_its_message_is_handled(
    name_server: str, topic: str
) -> None:
    async with shop_at(name_server, topic) as here:
        begun, may_end = asyncio.Event(), asyncio.Event()
        invoices = Basket()
        consumer = here.consumer()
        consumer.on(invoices_of(here).topic)(invoices.put)
        await here.send(b"0", b"1")
        other = Locks(here.connections, here.routes, topic, "other")
        async with consumer:

            @consumer.on(topic, ordered=True)
            async def handle(_: StoredMessage) -> None:
                begun.set()
                await may_end.wait()

            await begun.wait()
            consumer.unsubscribe(topic)
            assert here.queue not in consumer.queues
            assert (await other.lock([here.queue])).granted == []
            may_end.set()
            await gone(consumer, here.queue)
            assert (await other.lock([here.queue])).granted == [here.queue]
            assert await here.committed() == 1


async def test_broadcasting_members_subscribe_and_unsubscribe_too(
    name_server: str, topic: str, tmp_path: Path
) -> None:
    async with shop_at(name_server, topic) as here:
        orders, invoices = Basket(), Basket()
        consumer = here.consumer(model=Model.BROADCASTING, offsets_directory=tmp_path)
        consumer.on(topic)(orders.put)
        await here.send(b"0")
        await invoice(here, b"1")
        async with consumer:
            await orders.has(1)
            consumer.unsubscribe(topic)
            await gone(consumer, here.queue)
            await known(here)
            consumer.on(invoices_of(here).topic)(invoices.put)
            await invoices.has(1)
            assert consumer.queues == [invoices_of(here)]
