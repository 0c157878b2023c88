"""A push consumer that pops, at a broker of whatever make."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from tests.consuming import Basket
from tests.shop import shop_at

from cometmq.client import DeadLetter, Limits, PullConsumer, PullOptions, Retry
from cometmq.message import MessageQueue, StoredMessage

PATIENCE_S = 60


async def test_more_members_than_queues_share_the_messages(name_server: str, topic: str) -> None:
    busy, basket, all_busy = set[str](), Basket(), asyncio.Event()

    def handler_of(name: str) -> Callable[[StoredMessage], Awaitable[None]]:
        async def handle(message: StoredMessage) -> None:
            busy.add(name)
            if len(busy) == 3:
                all_busy.set()
            await all_busy.wait()
            await basket.put(message)

        return handle

    async with asyncio.timeout(PATIENCE_S), shop_at(name_server, topic) as here:
        one_by_one = PullOptions(Limits(messages=1), max_count=1)
        members = [here.consumer(pop=True, pull=one_by_one) for _ in range(3)]
        for number, member in enumerate(members):
            member.subscribe(topic, handler_of(str(number)))
        async with members[0], members[1], members[2]:
            for number in range(3):
                await here.send(b"%d" % number)
            await all_busy.wait()
            await here.send(*[b"x"] * 20)
            assert Counter(await basket.has(23)) == {b"0": 1, b"1": 1, b"2": 1, b"x": 20}
        assert await here.committed() == 23


async def test_what_fails_comes_again_or_is_a_dead_letter(name_server: str, topic: str) -> None:
    times: list[tuple[bytes, int]] = []
    handled = asyncio.Event()

    async def handle(message: StoredMessage) -> None:
        times.append((message.body, message.reconsume_times))
        if message.body == b"never":
            raise DeadLetter
        if message.reconsume_times == 0:
            raise Retry(delay_level=1)
        handled.set()

    async with asyncio.timeout(PATIENCE_S), shop_at(name_server, topic) as here:
        consumer = here.consumer(pop=True)
        consumer.subscribe(topic, handle)
        async with consumer:
            await here.send(b"later", b"never")
            await handled.wait()
        assert Counter(times) == {(b"later", 0): 1, (b"later", 1): 1, (b"never", 0): 1}
        letters = MessageQueue(f"%DLQ%{topic}", here.queue.broker_name, 0)
        async with PullConsumer(name_server, topic) as reader:
            assert [message.body async for message in reader.messages(letters)] == [b"never"]


async def test_a_stop_hands_back_what_no_handler_has_begun(name_server: str, topic: str) -> None:
    begun, may_end, rest = asyncio.Event(), asyncio.Event(), Basket()

    async def first(_: StoredMessage) -> None:
        begun.set()
        await may_end.wait()

    async with asyncio.timeout(PATIENCE_S), shop_at(name_server, topic) as here:
        await here.send(b"0", b"1", b"2")
        stopping, going = here.consumer(pop=True, max_concurrency=1), here.consumer(pop=True)
        stopping.subscribe(topic, first)
        async with stopping:
            await begun.wait()
            ending = asyncio.create_task(stopping.stop())
            await asyncio.sleep(0)
            may_end.set()
            await ending
        going.subscribe(topic, rest.put)
        async with going:
            assert set(await rest.has(2)) < {b"0", b"1", b"2"}, "one was acknowledged"
