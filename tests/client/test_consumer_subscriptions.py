"""Subscribing and unsubscribing while a consumer runs: what is asked for happens at once."""

import asyncio
from pathlib import Path

import pytest
from tests.consuming import Basket
from tests.shop import QUEUE, Shop, shop

from cometmq.admin.topics import TopicAdmin
from cometmq.client import Consumer, Model, membership, rebalancing
from cometmq.client.consumed import ConsumedQueue
from cometmq.client.locks import Locks
from cometmq.message import Message, MessageQueue, StoredMessage

PATIENCE_S = 60
LOOK_S = 0.02
RETRIES = "%RETRY%readers"
INVOICES = QUEUE._replace(topic="Invoices")


@pytest.fixture(autouse=True)
def _never_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the clock be no reason to look again, or to tell brokers anything."""
    monkeypatch.setattr(rebalancing, "REBALANCE_S", 3_600.0)
    monkeypatch.setattr(membership, "HEARTBEAT_S", 3_600.0)


def consumed(consumer: Consumer) -> dict[MessageQueue, ConsumedQueue]:
    """Give what a consumer consumes, or is about to give up."""
    assert consumer._at_work is not None
    return consumer._at_work.rebalancing.queues


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


async def invoice(here: Shop, *bodies: bytes) -> None:
    """Send to another topic, of one queue."""
    async with TopicAdmin(here.live.name_server) as admin:
        await admin.create("Invoices", queues=1)
    for body in bodies:
        await here.producer.send(Message("Invoices", body))


def test_a_topic_that_is_subscribed_to_later_is_taken_up_and_disturbs_no_other(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S), shop(tmp_path) as here:
            orders, invoices = Basket(), Basket()
            consumer = here.consumer()
            consumer.on("Orders")(orders.put)
            await here.send(b"0")
            await invoice(here, b"1")
            async with consumer:
                await orders.has(1)
                before = consumed(consumer)[QUEUE]
                consumer.on("Invoices")(invoices.put)
                assert await invoices.has(1) == [b"1"]
                await known(here, "Orders", "Invoices", RETRIES)
                assert consumed(consumer)[QUEUE] is before and not before.pulling.stopped
                await here.send(b"2")
                assert await orders.has(2) == [b"0", b"2"]

    asyncio.run(main())


def test_a_topic_that_is_dropped_is_committed_and_can_be_taken_up_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S), shop(tmp_path) as here:
            orders, again, invoices = Basket(), Basket(), Basket()
            consumer = here.consumer()
            consumer.on("Orders")(orders.put)
            consumer.on("Invoices")(invoices.put)
            await here.send(b"0")
            await invoice(here, b"1")
            async with consumer:
                await orders.has(1)
                await invoices.has(1)
                before = consumed(consumer)[INVOICES]
                consumer.unsubscribe("Orders")
                assert QUEUE not in consumer.queues
                await gone(consumer, QUEUE)
                assert await here.committed() == 1
                await known(here, "Invoices", RETRIES)
                await here.send(b"2")
                await invoice(here, b"3")
                assert await invoices.has(2) == [b"1", b"3"]
                assert consumed(consumer)[INVOICES] is before
                consumer.on("Orders")(again.put)
                assert await again.has(1) == [b"2"]
            assert len(orders.messages) == 1

    asyncio.run(main())


def test_an_ordered_topic_that_is_dropped_is_unlocked_when_its_message_is_handled(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S), shop(tmp_path) as here:
            begun, may_end = asyncio.Event(), asyncio.Event()
            invoices = Basket()
            consumer = here.consumer()
            consumer.on("Invoices")(invoices.put)
            await here.send(b"0", b"1")
            other = Locks(here.connections, here.routes, "readers", "other")
            async with consumer:

                @consumer.on("Orders", ordered=True)
                async def handle(_: StoredMessage) -> None:
                    begun.set()
                    await may_end.wait()

                await begun.wait()
                consumer.unsubscribe("Orders")
                assert QUEUE not in consumer.queues
                assert (await other.lock([QUEUE])).granted == []
                may_end.set()
                await gone(consumer, QUEUE)
                assert (await other.lock([QUEUE])).granted == [QUEUE]
                assert await here.committed() == 1

    asyncio.run(main())


def test_broadcasting_members_subscribe_and_unsubscribe_too(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S), shop(tmp_path / "store") as here:
            orders, invoices = Basket(), Basket()
            consumer = here.consumer(model=Model.BROADCASTING, offsets_directory=tmp_path / "offsets")
            consumer.on("Orders")(orders.put)
            await here.send(b"0")
            await invoice(here, b"1")
            async with consumer:
                await orders.has(1)
                consumer.unsubscribe("Orders")
                await gone(consumer, QUEUE)
                await known(here)
                consumer.on("Invoices")(invoices.put)
                await invoices.has(1)
                assert consumer.queues == [INVOICES]

    asyncio.run(main())
