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
from cometmq.errors import FormatError, IllegalName, NetworkError, NoRoute, RemoteError
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


def test_a_pull_gives_messages_and_where_the_next_one_begins(tmp_path: Path) -> None:
    async def main() -> None:
        async with shop(tmp_path) as here:
            await here.send(b"0", b"1", b"2", b"3")
            pulled = await here.consumer.pull(QUEUE, 1, max_count=2)
        assert pulled.status is PullStatus.FOUND
        assert [message.body for message in pulled.messages] == [b"1", b"2"]
        assert (pulled.next_offset, pulled.min_offset, pulled.max_offset) == (3, 0, 4)

    asyncio.run(main())


def test_a_pull_at_the_end_finds_nothing_new(tmp_path: Path) -> None:
    async def main() -> None:
        async with shop(tmp_path) as here:
            await here.send(b"0")
            pulled = await here.consumer.pull(QUEUE, 1)
        assert (pulled.status, pulled.messages, pulled.next_offset) == (PullStatus.NO_NEW_MESSAGE, [], 1)

    asyncio.run(main())


@pytest.mark.parametrize("queue_offset", [-1, 5, 2**62])
def test_a_pull_where_nothing_can_be_is_told_where_to_go(tmp_path: Path, queue_offset: int) -> None:
    async def main() -> None:
        async with shop(tmp_path) as here:
            await here.send(b"0", b"1")
            pulled = await here.consumer.pull(QUEUE, queue_offset)
        assert pulled.status is PullStatus.OFFSET_ILLEGAL
        assert pulled.next_offset == (0 if queue_offset < 0 else 2)

    asyncio.run(main())


def test_a_pull_with_tags_gives_only_those(tmp_path: Path) -> None:
    async def main() -> None:
        async with shop(tmp_path) as here:
            for tags in ("A", "B", None, "C"):
                await here.send(str(tags).encode(), tags=tags)
            some = await here.consumer.pull(QUEUE, 0, tags="A || C")
            none = await here.consumer.pull(QUEUE, 0, tags="D")
        assert ([message.body for message in some.messages], some.next_offset) == ([b"A", b"C"], 4)
        assert (none.status, none.next_offset) == (PullStatus.NO_MATCHED_MESSAGE, 4)

    asyncio.run(main())


def test_tags_of_the_same_hash_are_told_apart(tmp_path: Path) -> None:
    async def main() -> None:
        async with shop(tmp_path) as here:
            await here.send(b"right", tags="Aa")
            await here.send(b"wrong", tags="BB")
            pulled = await here.consumer.pull(QUEUE, 0, tags="Aa")
        assert [message.body for message in pulled.messages] == [b"right"]
        assert pulled.next_offset == 2

    asyncio.run(main())


def test_tags_that_cannot_be_are_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with shop(tmp_path) as here:
            with pytest.raises(FormatError):
                await here.consumer.pull(QUEUE, 0, tags="||")

    asyncio.run(main())


def test_a_pull_that_waits_is_answered_when_a_message_comes(tmp_path: Path) -> None:
    async def main() -> None:
        async with shop(tmp_path) as here:
            await here.send(b"0")
            waiting = asyncio.create_task(here.consumer.pull(QUEUE, 1, wait_ms=60_000))
            assert (await here.consumer.pull(QUEUE, 1)).messages == []  # the one that waits is there first
            assert not waiting.done()
            await here.send(b"1")
            assert [message.body for message in (await waiting).messages] == [b"1"]

    asyncio.run(main())


def test_a_pull_that_has_waited_long_enough_is_answered_without_a_message(tmp_path: Path) -> None:
    async def main() -> None:
        clock = ManualClock()
        async with shop(tmp_path, clock=clock) as here:
            await here.send(b"0")
            waiting = asyncio.create_task(here.consumer.pull(QUEUE, 1, wait_ms=5_000))
            await here.consumer.pull(QUEUE, 1)
            clock.advance(5_000)
            assert (await waiting).status is PullStatus.NO_NEW_MESSAGE

    asyncio.run(main())


def test_going_through_a_queue_gives_each_message_once_in_order(tmp_path: Path) -> None:
    async def main() -> None:
        async with shop(tmp_path) as here:
            await asyncio.gather(*(here.send(b"%d" % n) for n in range(100)))
            offsets = [message.queue_offset async for message in here.consumer.messages(QUEUE)]
            some = [message.queue_offset async for message in here.consumer.messages(QUEUE, 97)]
            none = [message async for message in here.consumer.messages(QUEUE, tags="A")]
            behind = [message async for message in here.consumer.messages(QUEUE, 1_000)]
        assert (offsets, some, none, behind) == (list(range(100)), [97, 98, 99], [], [])

    asyncio.run(main())


def test_an_empty_queue_has_nothing_to_go_through(tmp_path: Path) -> None:
    async def main() -> None:
        async with shop(tmp_path) as here:
            assert [message async for message in here.consumer.messages(QUEUE)] == []
            assert await here.consumer.queues("Orders") == [QUEUE]

    asyncio.run(main())


def test_offsets_are_committed_for_a_group(tmp_path: Path) -> None:
    async def main() -> None:
        async with shop(tmp_path) as here:
            await here.send(b"0", b"1")
            assert await here.consumer.committed(QUEUE) in (None, 0)  # RocketMQ takes a young queue from 0
            await here.consumer.commit(QUEUE, 2)
            assert await here.consumer.committed(QUEUE) == 2
            async with PullConsumer(here.live.name_server, "others") as others:
                assert await others.committed(QUEUE) in (None, 0)

    asyncio.run(main())


def test_the_ends_of_a_queue_are_told(tmp_path: Path) -> None:
    async def main() -> None:
        async with shop(tmp_path) as here:
            assert await here.consumer.max_offset(QUEUE) == 0
            await here.send(b"0", b"1")
            ends = await here.consumer.min_offset(QUEUE), await here.consumer.max_offset(QUEUE)
        assert ends == (0, 2)

    asyncio.run(main())


def test_an_offset_is_found_by_time(tmp_path: Path) -> None:
    async def main() -> None:
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

    asyncio.run(main())


def test_a_topic_or_broker_that_is_not_known_has_no_route(tmp_path: Path) -> None:
    async def main() -> None:
        async with shop(tmp_path) as here:
            with pytest.raises(NoRoute, match="'Unknown'"):
                await here.consumer.pull(MessageQueue("Unknown", BROKER, 0), 0)
            with pytest.raises(NoRoute, match="broker 'elsewhere' of topic 'Orders' is not known"):
                await here.consumer.pull(QUEUE._replace(broker_name="elsewhere"), 0)

    asyncio.run(main())


def test_a_group_that_cannot_be_is_refused() -> None:
    with pytest.raises(IllegalName):
        PullConsumer("127.0.0.1:9876", "a group")


def test_a_pull_fails_while_the_broker_is_gone_and_finds_it_where_it_comes_back(tmp_path: Path) -> None:
    async def main() -> None:
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

    asyncio.run(main())


def test_a_condition_over_properties_chooses_where_the_broker_allows_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with shop(tmp_path / "a", enable_property_filter=True) as here:
            for size in range(6):
                message = Message("Orders", b"%d" % size, properties={"size": str(size)})
                await here.producer.send(message, QUEUE)
            chosen = [m.body async for m in here.consumer.messages(QUEUE, sql="size BETWEEN 2 AND 3")]
            assert chosen == [b"2", b"3"]
            with pytest.raises(RemoteError, match="at character 8"):
                await here.consumer.pull(QUEUE, 0, sql="size > 'x'")
        async with shop(tmp_path / "b") as here:
            with pytest.raises(RemoteError, match="set enablePropertyFilter"):
                await here.consumer.pull(QUEUE, 0, sql="size > 3")

    asyncio.run(main())
