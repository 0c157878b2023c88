"""The pull consumer at a broker of whatever make."""

import asyncio

import pytest
from tests.shop import shop_at

from cometmq.client import PullConsumer, PullStatus, Start
from cometmq.errors import FormatError, NoRoute
from cometmq.message import Message


async def test_a_pull_gives_messages_and_where_the_next_one_begins(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here, PullConsumer(name_server, topic) as consumer:
        await here.send(b"0", b"1", b"2", b"3")
        pulled = await consumer.pull(here.queue, 1, max_count=2)
    assert pulled.status is PullStatus.FOUND
    assert [message.body for message in pulled.messages] == [b"1", b"2"]
    assert (pulled.next_offset, pulled.min_offset, pulled.max_offset) == (3, 0, 4)


async def test_a_pull_at_the_end_finds_nothing_new(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here, PullConsumer(name_server, topic) as consumer:
        await here.send(b"0")
        pulled = await consumer.pull(here.queue, 1)
    assert (pulled.status, pulled.messages, pulled.next_offset) == (PullStatus.NO_NEW_MESSAGE, [], 1)


@pytest.mark.parametrize("queue_offset", [-1, 5, 2**62])
async def test_a_pull_where_nothing_can_be_is_told_where_to_go(
    name_server: str, topic: str, queue_offset: int
) -> None:
    async with shop_at(name_server, topic) as here, PullConsumer(name_server, topic) as consumer:
        await here.send(b"0", b"1")
        pulled = await consumer.pull(here.queue, queue_offset)
    assert pulled.status is PullStatus.OFFSET_ILLEGAL
    javas = 0 if queue_offset < 0 else 2  # here, 0: the group has committed nothing
    assert pulled.next_offset in (0, javas)


async def test_a_pull_with_tags_gives_only_those(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here, PullConsumer(name_server, topic) as consumer:
        for tags in ("A", "B", None, "C"):
            await here.send(str(tags).encode(), tags=tags)
        some = await consumer.pull(here.queue, 0, tags="A || C")
        none = await consumer.pull(here.queue, 0, tags="D")
    assert ([message.body for message in some.messages], some.next_offset) == ([b"A", b"C"], 4)
    assert (none.status, none.next_offset) == (PullStatus.NO_MATCHED_MESSAGE, 4)


async def test_tags_of_the_same_hash_are_told_apart(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here, PullConsumer(name_server, topic) as consumer:
        await here.send(b"right", tags="Aa")
        await here.send(b"wrong", tags="BB")
        pulled = await consumer.pull(here.queue, 0, tags="Aa")
    assert [message.body for message in pulled.messages] == [b"right"]
    assert pulled.next_offset == 2


async def test_tags_that_cannot_be_are_refused(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here, PullConsumer(name_server, topic) as consumer:
        with pytest.raises(FormatError):
            await consumer.pull(here.queue, 0, tags="||")


async def test_a_pull_that_waits_is_answered_when_a_message_comes(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here, PullConsumer(name_server, topic) as consumer:
        await here.send(b"0")
        waiting = asyncio.create_task(consumer.pull(here.queue, 1, wait_ms=60_000))
        assert (await consumer.pull(here.queue, 1)).messages == []  # the one that waits is there first
        assert not waiting.done()
        await here.send(b"1")
        assert [message.body for message in (await waiting).messages] == [b"1"]


async def test_going_through_a_queue_gives_each_message_once_in_order(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here, PullConsumer(name_server, topic) as consumer:
        await asyncio.gather(*(here.send(b"%d" % n) for n in range(100)))
        offsets = [message.queue_offset async for message in consumer.messages(here.queue)]
        some = [message.queue_offset async for message in consumer.messages(here.queue, 97)]
        none = [message async for message in consumer.messages(here.queue, tags="A")]
        behind = [message async for message in consumer.messages(here.queue, 1_000)]
    assert (offsets, some, none, behind) == (list(range(100)), [97, 98, 99], [], [])


async def test_an_empty_queue_has_nothing_to_go_through(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here, PullConsumer(name_server, topic) as consumer:
        assert [message async for message in consumer.messages(here.queue)] == []
        assert await consumer.queues(topic) == [here.queue]


async def test_offsets_are_committed_for_a_group(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here, PullConsumer(name_server, topic) as consumer:
        await here.send(b"0", b"1")
        await consumer.pull(here.queue, 0)  # a Java broker makes the group with it
        assert await consumer.committed(here.queue) in (
            None,
            0,
        )  # RocketMQ takes a young queue from 0
        await consumer.commit(here.queue, 2)
        assert await consumer.committed(here.queue) == 2
        async with PullConsumer(name_server, f"{topic}_others") as others:
            assert await others.committed(here.queue) in (None, 0)


async def test_the_ends_of_a_queue_are_told(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here, PullConsumer(name_server, topic) as consumer:
        assert await consumer.max_offset(here.queue) == 0
        await here.send(b"0", b"1")
        ends = await consumer.min_offset(here.queue), await consumer.max_offset(here.queue)
    assert ends == (0, 2)


async def test_a_topic_or_broker_that_is_not_known_has_no_route(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here, PullConsumer(name_server, topic) as consumer:
        with pytest.raises(NoRoute, match="'Unknown'"):
            await consumer.pull(here.queue._replace(topic="Unknown"), 0)
        with pytest.raises(NoRoute, match=f"broker 'elsewhere' of topic '{topic}' is not known"):
            await consumer.pull(here.queue._replace(broker_name="elsewhere"), 0)


async def test_an_offset_is_found_by_the_time_of_its_message(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here, PullConsumer(name_server, topic) as consumer:
        await here.send(*(b"%d" % n for n in range(5)))
        times = [message.store_time async for message in consumer.messages(here.queue)]
        found = [await consumer.offset_by_time(here.queue, time) for time in times]
        start = await Start.at(times[-1]).offset(here.requests, here.queue)
        after = await consumer.offset_by_time(here.queue, times[-1] + 1)
    assert found == [times.index(time) for time in times]
    assert (start, after) == (found[-1], 5)


async def test_a_condition_over_properties_chooses(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here, PullConsumer(name_server, topic) as consumer:
        for size in range(6):
            message = Message(topic, b"%d" % size, properties={"size": str(size)})
            await here.producer.send(message, here.queue)
        await here.send(b"without")
        chosen = [m.body async for m in consumer.messages(here.queue, sql="size BETWEEN 2 AND 3")]
        assert chosen == [b"2", b"3"]
