"""The lite pull consumer at a broker of whatever make."""

from typing import Any

import pytest
from tests.shop import Shop, shop_at

from cometmq.client import LitePullConsumer, Start
from cometmq.errors import SettingsError
from cometmq.message import StoredMessage

LONG_MS = 60_000


def lite(here: Shop, **arguments: Any) -> LitePullConsumer:
    return LitePullConsumer(here.live.name_server, here.group_name, **{"start": Start.FIRST} | arguments)


def bodies(messages: list[StoredMessage]) -> list[bytes]:
    return [message.body for message in messages]


async def test_a_poll_gives_what_is_there_and_what_came_before_is_done(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here, lite(here) as consumer:
        await consumer.subscribe(topic)
        await here.send(b"0", b"1", b"2")
        got = bodies(await consumer.poll(LONG_MS, max_count=1))
        await consumer.commit()
        assert await here.committed() == 1
        while len(got) < 3:
            got += bodies(await consumer.poll(LONG_MS))
        assert got == [b"0", b"1", b"2"]
        assert await consumer.poll(0) == []


async def test_what_the_last_poll_gave_is_done_unless_there_was_an_exception(
    name_server: str, topic: str
) -> None:
    async with shop_at(name_server, topic) as here:

        async def fail_at_the_second() -> None:
            async with lite(here) as consumer:
                await consumer.subscribe(topic)
                await consumer.poll(LONG_MS, max_count=1)
                await consumer.poll(LONG_MS, max_count=1)
                raise ZeroDivisionError

        await here.send(b"0", b"1")
        with pytest.raises(ZeroDivisionError):
            await fail_at_the_second()
        assert await here.committed() == 1
        async with lite(here) as consumer:
            await consumer.subscribe(topic)
            assert bodies(await consumer.poll(LONG_MS)) == [b"1"]
        assert await here.committed() == 2


async def test_queues_can_be_assigned_sought_and_paused(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic, queues=2) as here, lite(here, commit_ms=None) as consumer:
        await here.send(b"0", b"1", queue=here.queue)
        await consumer.assign([here.queue])
        assert consumer.queues == [here.queue]
        got = bodies(await consumer.poll(LONG_MS, max_count=1))
        consumer.seek(here.queue, 0)
        got += bodies(await consumer.poll(LONG_MS, max_count=1))
        assert got == [b"0", b"0"]
        consumer.pause(here.queue)
        assert await consumer.poll(0) == []
        await consumer.assign(here.queues)
        await here.send(b"2", queue=here.queues[1])
        assert bodies(await consumer.poll(LONG_MS)) == [b"2"]
        consumer.resume(here.queue)
        assert bodies(await consumer.poll(LONG_MS)) == [b"1"]
        with pytest.raises(SettingsError, match="not consumed here"):
            consumer.seek(here.queue._replace(queue_id=9), 0)
        with pytest.raises(SettingsError):
            await consumer.subscribe(topic)


async def test_a_seek_counts_before_it_is_known_where_the_group_stands(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic, queues=2) as here, lite(here, commit_ms=None) as consumer:
        await here.send(b"0", b"1", queue=here.queue)
        await consumer.assign([here.queue])
        consumer.seek(here.queue, 1)
        assert bodies(await consumer.poll(LONG_MS)) == [b"1"]


async def test_members_share_queues_and_a_further_topic_joins(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic, queues=2) as here, lite(here) as one:
        await one.subscribe(topic, "paid")
        await here.send(b"0", tags="paid")
        assert bodies(await one.poll(LONG_MS)) == [b"0"]
        await one.subscribe(f"%RETRY%{topic}")
        assert one.queues[-2:] == here.queues
        await here.send(b"1", tags="lost")
        await here.send(b"2", tags="paid")
        assert bodies(await one.poll(LONG_MS)) == [b"2"]
        with pytest.raises(SettingsError):
            await one.subscribe(topic)
        with pytest.raises(SettingsError):
            await one.assign([here.queue])
