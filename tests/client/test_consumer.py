"""What a push consumer refuses, and brokers that are away; the rest is in ``test_consumer_end_to_end``."""

import asyncio
from pathlib import Path

import pytest
from tests.consuming import Basket
from tests.shop import shop

from cometmq.client import Consumer, Model
from cometmq.client.idempotence import Deduplicator, MemoryClaims
from cometmq.errors import FormatError, IllegalName, NetworkError, SettingsError
from cometmq.message import StoredMessage

NOBODY = "127.0.0.1:1"


async def ignore(_: StoredMessage) -> None:
    """Handle a message without anything to do."""


def test_what_comes_later_is_committed_too(tmp_path: Path) -> None:
    """Not so with RocketMQ's broker: it may take what a pull commits along after what the stop commits."""

    async def main() -> None:
        async with shop(tmp_path) as here:
            basket = Basket()
            consumer = here.consumer()
            consumer.on("Orders")(basket.put)
            await here.send(b"0", b"1")
            async with consumer:
                assert await basket.has(2) == [b"0", b"1"]
                await here.send(b"2")
                assert await basket.has(3) == [b"0", b"1", b"2"]
            assert await here.committed() == 3

    asyncio.run(main())


def test_a_consumer_goes_on_when_its_broker_was_away(tmp_path: Path) -> None:
    async def main() -> None:
        basket = Basket()
        async with shop(tmp_path / "store") as here:
            namesrv_port, broker_port = (int(address.rpartition(":")[2]) for address in here.live)
            consumer = here.consumer()
            consumer.on("Orders")(basket.put)
            await consumer.start()
            await here.send(b"0")
            await basket.has(1)
        try:
            async with shop(tmp_path / "store", namesrv_port=namesrv_port, listen_port=broker_port) as here:
                await here.send(b"1")
                assert (await basket.has(2))[-1] == b"1"
                await consumer.stop()
                assert await here.committed() == 2
        finally:
            await consumer.stop()

    asyncio.run(main())


def test_what_cannot_be_consumed_is_refused() -> None:
    consumer = Consumer(NOBODY, "readers")
    with pytest.raises(IllegalName):
        Consumer(NOBODY, "no group")
    with pytest.raises(SettingsError):
        Consumer(NOBODY, "readers", max_concurrency=0)
    with pytest.raises(IllegalName):
        consumer.subscribe("no topic", ignore)
    with pytest.raises(FormatError):
        consumer.subscribe("Orders", ignore, "||")
    with pytest.raises(SettingsError):
        consumer.subscribe("Orders", ignore, batch_size=0)
    with pytest.raises(SettingsError, match="deduplicator="):
        consumer.subscribe("Orders", ignore, idempotent_by="keys")
    everywhere = Consumer(
        NOBODY, "readers", model=Model.BROADCASTING, deduplicator=Deduplicator(MemoryClaims())
    )
    with pytest.raises(SettingsError, match="broadcasting"):
        everywhere.subscribe("Orders", ignore, idempotent_by="keys")
    consumer.subscribe("Orders", ignore)
    with pytest.raises(SettingsError, match="already"):
        consumer.subscribe("Orders", ignore)
    with pytest.raises(SettingsError, match="no handler"):
        consumer.unsubscribe("Others")
    consumer.unsubscribe("Orders")
    with pytest.raises(SettingsError, match="without subscriptions"):
        asyncio.run(consumer.run())
    with pytest.raises(SettingsError, match="without subscriptions"):
        asyncio.run(Consumer(NOBODY, "readers").run())


def test_a_start_without_name_server_fails_and_can_be_tried_again() -> None:
    async def main() -> None:
        consumer = Consumer(NOBODY, "readers")
        consumer.subscribe("Orders", ignore)
        for _ in range(2):
            with pytest.raises(NetworkError):
                await consumer.start()
        await consumer.stop()
        assert (consumer.queues, consumer.twins, consumer.group) == ([], 0, "readers")

    asyncio.run(main())
