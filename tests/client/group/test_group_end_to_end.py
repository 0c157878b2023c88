"""What groups do with a broker of whatever make: ``tests/interop`` runs these against a Java one, too."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.consuming import Basket, Shares
from tests.shop import shop_at

from cometmq import Consumer, DeadLetter, Deduplicator, Message, Producer, Retry, Start, StoredMessage
from cometmq.admin import offsets
from cometmq.admin.cluster import ClusterAdmin
from cometmq.admin.offsets import ResetTarget
from cometmq.client.idempotence.key import IdempotentBy

PATIENCE_S = 60


async def send(name_server: str, topic: str, *bodies: bytes, queue: int | None = None) -> None:
    async with Producer(name_server, "makers") as producer:
        for body in bodies:
            chosen = None if queue is None else (await producer.queues(topic))[queue]
            await producer.send(Message(topic, body), chosen)


async def dead_letters(name_server: str, group: str, count: int) -> list[bytes]:
    """Wait for a group's dead letters: they are in a topic like any other."""
    basket = Basket()
    undertaker = Consumer(name_server, f"{group}-undertaker", start=Start.FIRST)
    undertaker.on(f"%DLQ%{group}")(basket.put)
    async with undertaker:
        return await basket.has(count)


async def test_members_share_the_queues_and_each_message_comes_to_one(name_server: str, topic: str) -> None:
    async with asyncio.timeout(PATIENCE_S), AsyncExitStack() as members:
        basket, shares = Basket(), Shares()
        await send(name_server, topic, b"0")
        one, two = (
            Consumer(name_server, topic, start=Start.FIRST, on_rebalance=shares.of(name))
            for name in ("one", "two")
        )
        for consumer in (one, two):
            consumer.on(topic)(basket.put)
        await members.enter_async_context(one)
        await basket.has(1)
        await members.enter_async_context(two)
        await shares.are(one=2, two=2)
        await send(name_server, topic, *(b"%d" % number for number in range(1, 20)))
        assert sorted(map(int, await basket.has(20))) == list(range(20))
        await two.stop()
        await shares.are(one=4)
        await send(name_server, topic, b"20", b"21", b"22", b"23")
        assert sorted(map(int, await basket.has(24))) == list(range(24))


async def test_a_group_goes_on_where_it_was(name_server: str, topic: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        await send(name_server, topic, b"0", b"1", queue=0)
        for expected in ([b"0", b"1"], [b"2"]):
            basket = Basket()
            consumer = Consumer(name_server, topic, start=Start.FIRST)
            consumer.on(topic)(basket.put)
            async with consumer:
                assert await basket.has(len(expected)) == expected
            await send(name_server, topic, b"2", queue=0)


async def test_a_running_consumer_takes_topics_up_and_drops_them(name_server: str, topic: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        first, second, again = Basket(), Basket(), Basket()
        later = f"{topic}_2"
        consumer = Consumer(name_server, topic, start=Start.FIRST)
        consumer.on(topic)(first.put)
        await send(name_server, topic, b"0", queue=0)
        await send(name_server, later, b"1")
        async with consumer:
            await first.has(1)
            consumer.on(later)(second.put)
            assert await second.has(1) == [b"1"]
            consumer.unsubscribe(topic)
            await send(name_server, topic, b"2", queue=0)
            await send(name_server, later, b"3")
            await second.has(2)
            consumer.on(topic)(again.put)
            assert await again.has(1) == [b"2"]
        assert len(first.messages) == 1


async def test_what_fails_comes_again_and_at_last_is_a_dead_letter(name_server: str, topic: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        basket = Basket()
        consumer = Consumer(name_server, topic, start=Start.FIRST, max_reconsume_times=1)

        @consumer.on(topic)
        async def handle(message: StoredMessage) -> None:
            await basket.put(message)
            if message.body == b"never":
                raise DeadLetter
            raise Retry(delay_level=1)

        await send(name_server, topic, b"never", b"again")
        async with consumer:
            assert sorted(await basket.has(3)) == [b"again", b"again", b"never"]
            assert sorted(await dead_letters(name_server, topic, 2)) == [b"again", b"never"]
        first, second = (message for message in basket.messages if message.body == b"again")
        assert (first.reconsume_times, second.reconsume_times) == (0, 1)
        assert (second.topic, second.message_id) == (first.topic, first.message_id)


async def test_ordered_messages_wait_for_one_that_fails(name_server: str, topic: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        basket = Basket()
        consumer = Consumer(name_server, topic, start=Start.FIRST, suspend_ms=10, max_reconsume_times=2)

        @consumer.on(topic, ordered=True)
        async def handle(message: StoredMessage) -> None:
            await basket.put(message)
            if message.body == b"bad" or (message.body == b"1" and message.reconsume_times < 2):
                raise ValueError("not yet")

        await send(name_server, topic, b"0", b"1", b"bad", b"2", queue=0)
        async with consumer:
            assert await basket.has(8) == [b"0", *[b"1"] * 3, *[b"bad"] * 3, b"2"]
            assert await dead_letters(name_server, topic, 1) == [b"bad"]
        assert [message.reconsume_times for message in basket.messages] == [0, 0, 1, 2, 0, 1, 2, 0]


async def test_an_ordered_queue_is_handed_over_with_its_order(name_server: str, topic: str) -> None:
    async with asyncio.timeout(PATIENCE_S), AsyncExitStack() as members:
        basket, shares = Basket(), Shares()
        await send(name_server, topic, b"first")
        for name in ("one", "two"):
            consumer = Consumer(name_server, topic, start=Start.FIRST, on_rebalance=shares.of(name))
            consumer.on(topic, ordered=True)(basket.put)
            await members.enter_async_context(consumer)
            await basket.has(1)
            await send(name_server, topic, *(b"%d" % number for number in range(40)))
        await shares.are(one=2, two=2)
        await basket.has(81)
        by_queue: dict[int, list[int]] = {}
        for message in basket.messages:
            by_queue.setdefault(message.queue_id, []).append(message.queue_offset)
        assert all(offsets == list(range(len(offsets))) for offsets in by_queue.values())


async def test_what_was_sent_twice_is_handled_once_by_the_whole_group(
    name_server: str, topic: str, tmp_path: Path
) -> None:
    async with asyncio.timeout(PATIENCE_S):
        basket = Basket()
        for bodies in ([b"0", b"0", b"1", b"0", b"2"], [b"1", b"3"]):
            await send(name_server, topic, *bodies, queue=0)
            with Deduplicator(tmp_path / "shop.db") as deduplicator:
                consumer = Consumer(
                    name_server, topic, start=Start.FIRST, suspend_ms=10, deduplicator=deduplicator
                )

                @consumer.on(topic, ordered=True, idempotent_by=lambda message: message.body.decode())
                async def handle(message: StoredMessage) -> None:
                    if message.body == b"1" and message.reconsume_times == 0:
                        raise ValueError("not yet")
                    await basket.put(message)

                async with consumer:
                    await basket.has(3 if b"2" in bodies else 4)
        assert await basket.has(4) == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize("by", ["message_id", lambda message: message.body.decode()], ids=["id", "key"])
async def test_what_comes_again_because_a_commit_was_lost_is_not_handled_again(
    name_server: str, topic: str, tmp_path: Path, by: IdempotentBy
) -> None:
    async with asyncio.timeout(PATIENCE_S), shop_at(name_server, topic) as here:
        await here.send(b"0", b"1")
        for expected in ([b"0", b"1"], [b"2"]):
            basket = Basket()
            with Deduplicator(tmp_path / "shop.db") as deduplicator:
                consumer = here.consumer(max_concurrency=1, deduplicator=deduplicator)

                @consumer.on(topic, idempotent_by=by)
                async def handle(message: StoredMessage, basket: Basket = basket) -> None:
                    if message.body == b"1" and message.reconsume_times == 0:
                        raise Retry(delay_level=1)
                    await basket.put(message)

                async with consumer:
                    assert await basket.has(len(expected)) == expected
            await here.requests.commit(here.queue, 0)
            await here.send(b"2")


async def test_members_at_work_go_on_where_an_operator_tells_them(name_server: str, topic: str) -> None:
    async with (
        asyncio.timeout(PATIENCE_S),
        shop_at(name_server, topic) as here,
        ClusterAdmin(name_server) as cluster,
    ):
        basket = Basket()
        consumer = here.consumer()
        consumer.on(topic)(basket.put)
        await here.send(b"0", b"1", b"2")
        async with consumer:
            await basket.has(3)
            await offsets.reset(cluster, topic, topic, ResetTarget(offset=1))
            await here.send(b"3")  # wakes the pull that a Java broker holds: its answer tells of the reset
            assert {b"1", b"2"} < set((await basket.has(6))[3:])
