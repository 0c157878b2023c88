"""The lite pull consumer against a live broker."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.shop import QUEUE, Shop, shop

from cometmq.client import LitePullConsumer, Start
from cometmq.errors import SettingsError
from cometmq.message import MessageQueue, StoredMessage

OTHER = QUEUE._replace(queue_id=1)
LONG_MS = 60_000


def lite(here: Shop, **arguments: Any) -> LitePullConsumer:
    return LitePullConsumer(here.live.name_server, "readers", **{"start": Start.FIRST} | arguments)


def bodies(messages: list[StoredMessage]) -> list[bytes]:
    return [message.body for message in messages]


def test_a_poll_gives_what_is_there_and_what_came_before_is_done(tmp_path: Path) -> None:
    async def main() -> None:
        async with shop(tmp_path) as here, lite(here) as consumer:
            await consumer.subscribe("Orders")
            await here.send(b"0", b"1", b"2")
            got = bodies(await consumer.poll(LONG_MS, max_count=1))
            await consumer.commit()
            assert await here.committed() == 1
            while len(got) < 3:
                got += bodies(await consumer.poll(LONG_MS))
            assert got == [b"0", b"1", b"2"]
            assert await consumer.poll(0) == []

    asyncio.run(main())


def test_what_the_last_poll_gave_is_done_unless_there_was_an_exception(tmp_path: Path) -> None:
    async def main() -> None:
        async with shop(tmp_path) as here:

            async def fail_at_the_second() -> None:
                async with lite(here) as consumer:
                    await consumer.subscribe("Orders")
                    await consumer.poll(LONG_MS, max_count=1)
                    await consumer.poll(LONG_MS, max_count=1)
                    raise ZeroDivisionError

            await here.send(b"0", b"1")
            with pytest.raises(ZeroDivisionError):
                await fail_at_the_second()
            assert await here.committed() == 1
            async with lite(here) as consumer:
                await consumer.subscribe("Orders")
                assert bodies(await consumer.poll(LONG_MS)) == [b"1"]
            assert await here.committed() == 2

    asyncio.run(main())


def test_queues_can_be_assigned_sought_and_paused(tmp_path: Path) -> None:
    async def main() -> None:
        async with shop(tmp_path, queues=2) as here, lite(here, commit_ms=None) as consumer:
            await here.send(b"0", b"1", queue=QUEUE)
            await consumer.assign([QUEUE])
            assert consumer.queues == [QUEUE]
            got = bodies(await consumer.poll(LONG_MS, max_count=1))
            consumer.seek(QUEUE, 0)
            got += bodies(await consumer.poll(LONG_MS, max_count=1))
            assert got == [b"0", b"0"]
            consumer.pause(QUEUE)
            assert await consumer.poll(0) == []
            await consumer.assign([QUEUE, OTHER])
            await here.send(b"2", queue=OTHER)
            assert bodies(await consumer.poll(LONG_MS)) == [b"2"]
            consumer.resume(QUEUE)
            assert bodies(await consumer.poll(LONG_MS)) == [b"1"]
            with pytest.raises(SettingsError, match="not consumed here"):
                consumer.seek(MessageQueue("Orders", "broker-a", 9), 0)
            with pytest.raises(SettingsError):
                await consumer.subscribe("Orders")

    asyncio.run(main())


def test_a_seek_counts_before_it_is_known_where_the_group_stands(tmp_path: Path) -> None:
    async def main() -> None:
        async with shop(tmp_path, queues=2) as here, lite(here, commit_ms=None) as consumer:
            await here.send(b"0", b"1", queue=QUEUE)
            await consumer.assign([QUEUE])
            consumer.seek(QUEUE, 1)
            assert bodies(await consumer.poll(LONG_MS)) == [b"1"]

    asyncio.run(main())


def test_members_share_queues_and_a_further_topic_joins(tmp_path: Path) -> None:
    async def main() -> None:
        async with shop(tmp_path, queues=2) as here, lite(here) as one:
            await one.subscribe("Orders", "paid")
            await here.send(b"0", tags="paid")
            assert bodies(await one.poll(LONG_MS)) == [b"0"]
            await one.subscribe("%RETRY%readers")
            assert one.queues[-2:] == [QUEUE, OTHER]
            await here.send(b"1", tags="lost")
            await here.send(b"2", tags="paid")
            assert bodies(await one.poll(LONG_MS)) == [b"2"]
            with pytest.raises(SettingsError):
                await one.subscribe("Orders")
            with pytest.raises(SettingsError):
                await one.assign([QUEUE])

    asyncio.run(main())


def test_without_anything_to_read_a_poll_is_refused() -> None:
    with pytest.raises(SettingsError, match="nothing is subscribed"):
        asyncio.run(LitePullConsumer("127.0.0.1:1", "readers").poll(0))
