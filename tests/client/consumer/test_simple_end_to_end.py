"""The simple consumer at a broker of whatever make."""

import asyncio

from tests.shop import Shop, shop_at

from cometmq.client import SimpleConsumer, Start
from cometmq.message import StoredMessage

LONG_MS = 30_000


def simple(here: Shop) -> SimpleConsumer:
    return SimpleConsumer(here.live.name_server, here.group_name, start=Start.FIRST)


async def received(consumer: SimpleConsumer, count: int) -> list[StoredMessage]:
    """Receive until there are so many messages."""
    found: list[StoredMessage] = []
    while len(found) < count:
        found += await consumer.receive(invisible_ms=LONG_MS, wait_ms=LONG_MS)
    return found


async def test_messages_are_received_once_while_they_are_hidden(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic, queues=2) as here, simple(here) as one, simple(here) as other:
        for consumer in (one, other):
            await consumer.subscribe(topic)
        await here.send(*(b"%d" % number for number in range(6)))
        first = await one.receive(max_count=2, invisible_ms=LONG_MS)
        rest = await received(other, 4)
        assert len(first) == 2
        assert sorted(message.body for message in first + rest) == [b"%d" % number for number in range(6)]
        await one.ack_all(first)
        for message in rest:
            await other.ack(message)
        assert await one.receive(wait_ms=0) == []


async def test_a_held_receive_ends_with_the_message(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here, simple(here) as consumer:
        await consumer.subscribe(topic, tags="paid")
        receiving = asyncio.create_task(consumer.receive(wait_ms=LONG_MS))
        await asyncio.sleep(0.05)
        await here.send(b"lost", tags="lost")
        await here.send(b"paid", tags="paid")
        assert [message.body for message in await receiving] == [b"paid"]


async def test_a_message_comes_again_when_it_is_given_back_but_not_while_it_is_prolonged(
    name_server: str, topic: str
) -> None:
    async with shop_at(name_server, topic) as here, simple(here) as consumer:
        await consumer.subscribe(topic)
        await here.send(b"back", b"kept")
        back, kept = await received(consumer, 2)
        await consumer.change_invisible(kept, LONG_MS)
        await consumer.change_invisible(back, 0)
        (again,) = await received(consumer, 1)
        assert (again.body, again.topic, again.reconsume_times) == (b"back", topic, 1)
        await consumer.ack(again)
        await consumer.ack(kept)
        assert await consumer.receive(wait_ms=2_000) == []
