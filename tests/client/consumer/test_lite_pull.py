"""What a lite pull consumer refuses; what it does is in ``test_lite_pull_end_to_end``."""

import asyncio

import pytest

from cometmq.client import LitePullConsumer, Start
from cometmq.errors import RemoteError, SettingsError
from cometmq.message import Message
from cometmq.testing import EmbeddedBroker
from cometmq.wire.codes import RequestCode

PATIENCE_MS = 30_000


async def test_without_anything_to_read_a_poll_is_refused() -> None:
    with pytest.raises(SettingsError, match="nothing is subscribed"):
        await LitePullConsumer("127.0.0.1:1", "readers").poll(0)


def test_a_commit_that_fails_says_so() -> None:
    async def main(broker: EmbeddedBroker) -> None:
        async with LitePullConsumer(
            broker.name_server, "readers", start=Start.FIRST, commit_ms=None
        ) as consumer:
            await consumer.subscribe("Orders")
            assert await consumer.poll(PATIENCE_MS)
            broker.fail_next(request=RequestCode.UPDATE_CONSUMER_OFFSET)
            with pytest.raises(RemoteError, match="as the test asked for"):
                await consumer.commit()
            await consumer.commit()

    with EmbeddedBroker(sockets=False) as broker:
        broker.send(Message("Orders", b"x"))
        asyncio.run(main(broker))
        broker.wait_consumed("readers", "Orders")


def test_a_closed_consumer_gives_nothing_and_can_be_opened_again() -> None:
    async def main(broker: EmbeddedBroker) -> None:
        consumer = LitePullConsumer(broker.name_server, "readers", start=Start.FIRST)
        async with consumer:
            await consumer.subscribe("Orders")
            assert len(await consumer.poll(PATIENCE_MS, max_count=1)) == 1
        with pytest.raises(SettingsError, match="nothing is subscribed"):
            await consumer.poll(PATIENCE_MS)  # it has pulled the second one
        async with consumer:
            await consumer.subscribe("Orders")
            assert [message.body for message in await consumer.poll(PATIENCE_MS)] == [b"1"]
            polling = asyncio.create_task(consumer.poll(PATIENCE_MS))
            await asyncio.sleep(0)
        with pytest.raises(SettingsError, match="nothing is subscribed"):
            await polling

    with EmbeddedBroker(sockets=False) as broker:
        broker.create_topic("Orders", 1)
        for body in (b"0", b"1"):
            broker.send(Message("Orders", body))
        asyncio.run(main(broker))


async def test_tags_beside_sql_are_refused() -> None:
    with pytest.raises(ValueError, match="tags 'paid' and sql"):
        await LitePullConsumer("127.0.0.1:1", "readers").subscribe("Orders", "paid", sql="size > 3")
