import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.live import BROKER
from tests.shop import PROMPT, QUEUE, Shop, shop

from cometmq.client.heartbeat import beat
from cometmq.client.send_back import DEAD_LETTER, SendBack
from cometmq.errors import NoRoute
from cometmq.io.clock import SystemClock
from cometmq.message import MessageQueue, StoredMessage
from cometmq.wire.bodies.heartbeat import ConsumerData, Heartbeat

RETRIES = MessageQueue("%RETRY%readers", BROKER, 0)
DEAD = MessageQueue("%DLQ%readers", BROKER, 0)


async def prepared(here: Shop) -> tuple[SendBack, StoredMessage]:
    """Make the group, and give who sends back and a message of it."""
    group = Heartbeat("me", consumers=[ConsumerData("readers")])
    await beat(here.connections, {here.live.broker}, group)
    await here.send(b"0", tags="paid")
    (message,) = (await here.requests.pull(QUEUE, 0)).messages
    return SendBack(here.connections, here.routes, "readers", 2, SystemClock()), message


async def only_message(here: Shop, queue: MessageQueue) -> StoredMessage:
    here.routes.forget(queue.topic)
    (message,) = (await here.requests.pull(queue, 0, wait_ms=20_000)).messages
    return message


def test_a_message_comes_again_after_its_delay_also_if_its_broker_does_not_find_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with shop(tmp_path, store=PROMPT) as here:
            back, message = await prepared(here)
            await back.again(QUEUE, message, 1)
            await back.again(QUEUE, replace(message, physical_offset=2**40), 2)  # it is sent whole
            here.routes.forget(RETRIES.topic)
            for queue_offset in (0, 1):
                pulled = await here.requests.pull(RETRIES, queue_offset, wait_ms=20_000)
                again = pulled.messages[0]
                assert (again.body, again.tags, again.reconsume_times) == (b"0", "paid", 1)
                assert (again.message_id, again.properties["RETRY_TOPIC"]) == (message.message_id, "Orders")

    asyncio.run(main())


@pytest.mark.parametrize("way", ["by its name", "whole"])
def test_a_dead_letter_goes_where_it_belongs(tmp_path: Path, way: str) -> None:
    async def main() -> None:
        async with shop(tmp_path) as here:
            back, message = await prepared(here)
            if way == "whole":
                await back.whole(message, DEAD_LETTER)
            else:
                await back.again(QUEUE, message, DEAD_LETTER)
            dead = await only_message(here, DEAD)
            assert (dead.body, dead.message_id) == (b"0", message.message_id)

    asyncio.run(main())


def test_what_nobody_takes_is_raised(tmp_path: Path) -> None:
    async def main() -> None:
        async with shop(tmp_path) as here:
            _, message = await prepared(here)
            stranger = SendBack(here.connections, here.routes, "strangers", 2, SystemClock())
            with pytest.raises(NoRoute):
                await stranger.again(QUEUE, message, 0)

    asyncio.run(main())
