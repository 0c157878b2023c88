"""An asyncio program and its tests."""

import asyncio

from cometmq import Message
from cometmq.testing import EmbeddedBroker, Fault
from shop import GROUP, TOPIC, Shop

HOUR_S = 3_600


async def packed(rocketmq: EmbeddedBroker) -> None:
    await asyncio.to_thread(rocketmq.wait_consumed, GROUP, TOPIC)


def test_what_is_sold_is_packed(rocketmq: EmbeddedBroker) -> None:
    async def main() -> list[str]:
        rocketmq.create_topic(TOPIC)
        shop = Shop(rocketmq.name_server, stock=10)
        async with shop.producer, shop.consumer:
            await shop.sell("1")
            await shop.sell("2")
            await packed(rocketmq)
        return shop.packed

    assert sorted(asyncio.run(main())) == ["1", "2"]


def test_what_is_not_paid_is_not_packed(rocketmq: EmbeddedBroker) -> None:
    rocketmq.send(Message(TOPIC, b"a button", tags="new", keys=("1",)))

    async def main() -> list[str]:
        shop = Shop(rocketmq.name_server, stock=10)
        async with shop.consumer:
            await packed(rocketmq)
        return shop.packed

    assert asyncio.run(main()) == []


def test_an_order_whose_answer_was_lost_is_packed_once(rocketmq: EmbeddedBroker) -> None:
    rocketmq.fail_next(topic=TOPIC, fault=Fault.LOSE_ANSWER)

    async def main() -> list[str]:
        shop = Shop(rocketmq.name_server, stock=10)
        async with shop.producer:
            await shop.sell("1")
        async with shop.consumer:
            await packed(rocketmq)
        return shop.packed

    assert asyncio.run(main()) == ["1"]
    assert len(rocketmq.messages(TOPIC)) == 2


def test_an_order_waits_for_new_stock_but_not_for_ever(rocketmq: EmbeddedBroker) -> None:
    rocketmq.send(Message(TOPIC, b"a button", tags="paid", keys=("1",)))

    async def main() -> list[str]:
        shop = Shop(rocketmq.name_server, stock=0)
        async with shop.consumer:
            await packed(rocketmq)
            shop.stock = 1
            rocketmq.clock.advance(HOUR_S)
            await packed(rocketmq)
            rocketmq.send(Message(TOPIC, b"a button", tags="paid", keys=("2",)))
            await asyncio.to_thread(rocketmq.wait_consumed, GROUP, TOPIC, retries=True)
        return shop.packed

    assert asyncio.run(main()) == ["1"]
    assert [message.keys for message in rocketmq.dead_letters(GROUP)] == [("2",)]
