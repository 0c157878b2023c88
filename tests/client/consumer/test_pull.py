"""The pull consumer against a live broker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.live import BROKER, Live, serving

from cometmq.admin.topics import TopicAdmin
from cometmq.client import Producer, PullConsumer, PullStatus
from cometmq.errors import IllegalName, NetworkError, RemoteError
from cometmq.io.clock import ManualClock
from cometmq.message import Message, MessageQueue

QUEUE = MessageQueue("Orders", BROKER, 0)


class Shop(NamedTuple):
    """A live broker with somebody who sends and somebody who reads."""

    live: Live
    producer: Producer
    consumer: PullConsumer

    async def send(self, *bodies: bytes, tags: str | None = None) -> None:
        for body in bodies:
            await self.producer.send(Message("Orders", body, tags), QUEUE)


@asynccontextmanager
async def shop(root: Path, **settings: Any) -> AsyncIterator[Shop]:
    async with (
        serving(root, **settings) as live,
        TopicAdmin(live.name_server) as admin,
        Producer(live.name_server) as producer,
        PullConsumer(live.name_server, "readers") as consumer,
    ):
        await admin.create("Orders", queues=1)
        yield Shop(live, producer, consumer)


async def test_a_pull_that_has_waited_long_enough_is_answered_without_a_message(tmp_path: Path) -> None:
    clock = ManualClock()
    async with shop(tmp_path, clock=clock) as here:
        await here.send(b"0")
        waiting = asyncio.create_task(here.consumer.pull(QUEUE, 1, wait_ms=5_000))
        await here.consumer.pull(QUEUE, 1)
        clock.advance(5_000)
        assert (await waiting).status is PullStatus.NO_NEW_MESSAGE


async def test_an_offset_is_found_by_time(tmp_path: Path) -> None:
    clock = ManualClock()
    async with shop(tmp_path, clock=clock) as here:
        times = []
        for n in range(4):
            clock.advance(1_000)
            times.append(clock.now_ms())
            await here.send(b"%d" % n)
        found = [await here.consumer.offset_by_time(QUEUE, time - 1) for time in times]
        after = await here.consumer.offset_by_time(QUEUE, times[-1] + 1)
    assert (found, after) == ([0, 1, 2, 3], 4)


def test_a_group_that_cannot_be_is_refused() -> None:
    with pytest.raises(IllegalName):
        PullConsumer("127.0.0.1:9876", "a group")


async def test_a_pull_fails_while_the_broker_is_gone_and_finds_it_where_it_comes_back(tmp_path: Path) -> None:
    async with serving(tmp_path) as live:
        port = int(live.name_server.rpartition(":")[2])
        consumer = PullConsumer(live.name_server, "readers")
        await consumer.__aenter__()
        async with Producer(live.name_server) as producer:
            queue = (await producer.send(Message("Orders", b"0"))).queue
        assert (await consumer.pull(queue, 0)).messages
    try:
        with pytest.raises(NetworkError):
            await consumer.pull(queue, 0)
        async with serving(tmp_path, namesrv_port=port):
            assert (await consumer.pull(queue, 0)).messages
    finally:
        await consumer.__aexit__()


async def test_a_condition_over_properties_that_cannot_be_is_refused(tmp_path: Path) -> None:
    async with shop(tmp_path / "a", enable_property_filter=True) as here:
        with pytest.raises(RemoteError, match="at character 8"):
            await here.consumer.pull(QUEUE, 0, sql="size > 'x'")
    async with shop(tmp_path / "b") as here:
        with pytest.raises(RemoteError, match="set enablePropertyFilter"):
            await here.consumer.pull(QUEUE, 0, sql="size > 3")


async def test_tags_beside_sql_are_refused() -> None:
    async with PullConsumer("127.0.0.1:1", "readers") as consumer:
        queue = MessageQueue("Orders", "broker-a", 0)
        with pytest.raises(ValueError, match="tags 'paid' and sql"):
            await consumer.pull(queue, 0, tags="paid", sql="size > 3")
        with pytest.raises(ValueError, match="tags 'paid' and sql"):
            await anext(consumer.messages(queue, tags="paid", sql="size > 3"))
