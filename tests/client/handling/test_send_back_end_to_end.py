"""Messages that go back, at a broker of whatever make."""

import asyncio
from contextlib import suppress

import pytest
from msgspec.structs import replace
from tests.shop import Shop, shop_at

from cometmq.client.handling.send_back import DEAD_LETTER, SendBack
from cometmq.client.requests.heartbeat import send_heartbeat
from cometmq.errors import NoRoute
from cometmq.io.clock import SystemClock
from cometmq.message import MessageQueue, StoredMessage
from cometmq.wire.bodies.heartbeat import ConsumerData, Heartbeat


async def prepared(here: Shop) -> tuple[SendBack, StoredMessage]:
    """Create the group; return who sends back and a message of it."""
    group = Heartbeat("me", consumers=[ConsumerData(here.group_name)])
    await send_heartbeat(here.connections, {here.live.broker}, group)
    await here.send(b"0", tags="paid")
    (message,) = (await here.requests.pull(here.queue, 0)).messages
    return SendBack(here.connections, here.routes, here.group_name, 2, SystemClock()), message


async def only_message(here: Shop, queue: MessageQueue) -> StoredMessage:
    """Wait for a queue's first message, also if the name server has not heard of the queue yet."""
    while True:
        here.routes.expire(queue.topic)
        with suppress(NoRoute):
            await here.routes.get(queue.topic)
            break
        await asyncio.sleep(0.02)
    (message,) = (await here.requests.pull(queue, 0, wait_ms=60_000)).messages
    return message


async def test_a_message_comes_again_after_its_delay_also_if_its_broker_does_not_find_it(
    name_server: str, topic: str
) -> None:
    async with shop_at(name_server, topic) as here:
        back, message = await prepared(here)
        await back.send(here.queue, message, 1)
        await back.send(here.queue, replace(message, physical_offset=2**40), 2)  # it is sent whole
        retries = here.queue._replace(topic=f"%RETRY%{topic}")
        here.routes.expire(retries.topic)
        for queue_offset in (0, 1):
            pulled = await here.requests.pull(retries, queue_offset, wait_ms=60_000)
            again = pulled.messages[0]
            assert (again.body, again.tags, again.reconsume_times) == (b"0", "paid", 1)
            assert (again.message_id, again.properties["RETRY_TOPIC"]) == (message.message_id, topic)


@pytest.mark.parametrize("way", ["by its name", "whole"])
async def test_a_dead_letter_goes_where_it_belongs(name_server: str, topic: str, way: str) -> None:
    async with shop_at(name_server, topic) as here:
        back, message = await prepared(here)
        if way == "whole":
            await back.send_whole(message, DEAD_LETTER)
        else:
            await back.send(here.queue, message, DEAD_LETTER)
        dead = await only_message(here, here.queue._replace(topic=f"%DLQ%{topic}"))
        assert (dead.body, dead.message_id) == (b"0", message.message_id)
