"""The push consumer at a broker of whatever make."""

import asyncio
import logging
import threading
from collections.abc import Mapping
from contextlib import AsyncExitStack
from itertools import chain
from pathlib import Path

import pytest
from tests.consuming import Basket, Shares
from tests.shop import Shop, shop_at

from cometmq.client import Limits, Model, PullOptions, Start
from cometmq.client.consumer import consumer as consumer_module
from cometmq.client.requests.offset_store import RemoteOffsets
from cometmq.errors import RequestTimeout, SettingsError
from cometmq.message import MessageQueue, StoredMessage


async def ignore(_: StoredMessage) -> None:
    """Handle a message without anything to do."""


class Alarm(logging.Handler):
    """Rings when an error is logged so often."""

    def __init__(self, count: int) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []
        self.rang = asyncio.Event()
        self._count = count

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())
        if len(self.texts) == self._count:
            self.rang.set()


async def test_what_is_there_comes_to_the_handler_and_is_committed(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here:
        basket = Basket()
        consumer = here.consumer()
        consumer.on(topic)(basket.put)
        await here.send(b"0", b"1")
        async with consumer:
            assert await basket.has(2) == [b"0", b"1"]
        assert await here.committed() == 2


async def test_what_comes_later_is_committed_too(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here:
        basket = Basket()
        consumer = here.consumer()
        consumer.on(topic)(basket.put)
        await here.send(b"0", b"1")
        async with consumer:
            assert await basket.has(2) == [b"0", b"1"]
            await here.send(b"2")
            assert await basket.has(3) == [b"0", b"1", b"2"]
        assert await here.committed() == 3


async def test_what_is_handled_is_committed_soon(
    name_server: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_module, "COMMIT_MS", 3_600_000)  # soon is what does not wait for this

    async with shop_at(name_server, topic) as here:
        basket = Basket()
        consumer = here.consumer()
        consumer.on(topic)(basket.put)
        await here.send(b"0", b"1")
        async with consumer:
            await committed(here, here.queue, 2)


async def test_what_is_handled_is_committed_while_something_else_is_not(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic, queues=2) as here:
        go_on = asyncio.Event()
        consumer = here.consumer()

        @consumer.on(topic)
        async def handle(message: StoredMessage) -> None:
            if message.queue_id == 0:
                await go_on.wait()

        for queue in here.queues:
            await here.send(b"0", queue=queue)
        async with consumer:
            await committed(here, here.queues[1], 1)
            assert not await here.committed()
            go_on.set()


async def committed(here: Shop, queue: MessageQueue, queue_offset: int) -> None:
    """Wait until the group has committed an offset."""
    while True:
        if await here.committed(queue=queue) == queue_offset:
            return
        await asyncio.sleep(0.01)


async def test_a_commit_that_fails_at_the_stop_does_not_let_all_come_again(
    name_server: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, failures = RemoteOffsets.write, [RequestTimeout("no answer within 3000 ms")]

    async def busy(self: RemoteOffsets, offsets: Mapping[MessageQueue, int]) -> None:
        if failures:
            raise failures.pop()
        await write(self, offsets)

    monkeypatch.setattr(RemoteOffsets, "write", busy)

    async with shop_at(name_server, topic) as here:
        await here.send(b"0", b"1")
        for expected in ([b"0", b"1"], [b"2"]):
            basket = Basket()
            consumer = here.consumer()
            consumer.on(topic)(basket.put)
            async with consumer:
                assert await basket.has(len(expected)) == expected
            await here.send(b"2")
        assert not failures


async def test_only_the_tags_that_are_wanted_come(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here:
        basket = Basket()
        consumer = here.consumer()
        consumer.on(topic, "Aa || C")(basket.put)
        for tags in ("Aa", "BB", "D", "C"):  # the hash of BB is that of Aa
            await here.send(tags.encode(), tags=tags)
        async with consumer:
            assert await basket.has(2) == [b"Aa", b"C"]
        assert await here.committed() == 4


async def test_a_plain_function_runs_in_a_thread(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here:
        loop, basket = asyncio.get_running_loop(), Basket()
        threads: set[int] = set()
        consumer = here.consumer(max_concurrency=2)

        @consumer.on(topic)
        def handle(message: StoredMessage) -> None:
            threads.add(threading.get_ident())
            asyncio.run_coroutine_threadsafe(basket.put(message), loop).result()

        await here.send(b"0", b"1", b"2")
        async with consumer:
            await basket.has(3)
        assert threading.get_ident() not in threads
        assert len(threads) <= 2


async def test_a_batch_comes_as_a_list(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here:
        batches: asyncio.Queue[list[bytes]] = asyncio.Queue()
        consumer = here.consumer()

        @consumer.on(topic, batch_size=3)
        async def handle(messages: list[StoredMessage]) -> None:
            batches.put_nowait([message.body for message in messages])

        await here.send(b"0", b"1", b"2", b"3")
        async with consumer:
            got = [await batches.get()]
            while sum(map(len, got)) < 4:
                got.append(await batches.get())
        assert sorted(chain.from_iterable(got)) == [b"0", b"1", b"2", b"3"]
        assert max(map(len, got)) <= 3


async def test_what_a_handler_fails_comes_again_and_becomes_a_dead_letter_at_last(
    name_server: str, topic: str
) -> None:
    async with shop_at(name_server, topic) as here:
        basket = Basket()
        consumer = here.consumer(max_reconsume_times=1)

        @consumer.on(topic)
        async def handle(message: StoredMessage) -> None:
            await basket.put(message)
            raise ValueError("no")

        await here.send(b"bad")
        async with consumer:
            assert await basket.has(2) == [b"bad", b"bad"]
            first, second = basket.messages
            assert (first.reconsume_times, second.reconsume_times) == (0, 1)
            assert (second.topic, second.message_id) == (topic, first.message_id)
            assert await dead_letters(here, 1) == [b"bad"]
        assert len(basket.messages) == 2


async def dead_letters(here: Shop, count: int) -> list[bytes]:
    """Wait for the group's dead letters: they are in a topic like any other."""
    basket = Basket()
    undertaker = here.consumer(f"{here.group_name}_undertaker")
    undertaker.on(f"%DLQ%{here.group_name}")(basket.put)
    async with undertaker:
        return await basket.has(count)


async def test_an_ordered_queue_is_handed_over_only_when_its_message_is_handled(
    name_server: str, topic: str
) -> None:
    async with shop_at(name_server, topic, queues=2) as here, AsyncExitStack() as members:
        events: list[str] = []
        begun, may_end = asyncio.Event(), asyncio.Event()
        shares, basket = Shares(), Basket()
        one = here.consumer(instance="1", on_rebalance=shares.of("one"))
        two = here.consumer(instance="2", on_rebalance=shares.of("two"))

        @one.on(topic, ordered=True)
        async def slow(message: StoredMessage) -> None:
            begun.set()
            await may_end.wait()
            events.append(f"one {message.body!r}")

        @two.on(topic, ordered=True)
        async def quick(message: StoredMessage) -> None:
            events.append(f"two {message.body!r}")
            await basket.put(message)

        await here.send(b"0", b"1", queue=here.queue._replace(queue_id=1))
        await members.enter_async_context(one)
        await begun.wait()
        await members.enter_async_context(two)
        await shares.are(one=1)
        assert len(two.queues) == 0
        may_end.set()
        await basket.has(1)
        assert events == ["one b'0'", "two b'1'"]


async def test_who_leaves_hears_that_it_has_no_queues_before_another_has_them(
    name_server: str, topic: str
) -> None:
    async with shop_at(name_server, topic, queues=2) as here, AsyncExitStack() as members:
        shares = Shares()
        one = here.consumer(instance="1", on_rebalance=shares.of("one"))
        one.on(topic, ordered=True)(Basket().put)
        await members.enter_async_context(one)
        await shares.are(one=2)
        await one.stop()
        await shares.are(one=0)


async def test_broadcasting_gives_each_member_all_and_remembers_where_it_was(
    name_server: str, topic: str, tmp_path: Path
) -> None:
    async with shop_at(name_server, topic, queues=2) as here:
        await here.send(b"0", b"1")
        for instance in ("one", "two"):
            basket = Basket()
            consumer = here.consumer(model=Model.BROADCASTING, instance=instance, offsets_directory=tmp_path)
            consumer.on(topic)(basket.put)
            async with consumer:
                assert sorted(await basket.has(2)) == [b"0", b"1"]
        again = Basket()
        consumer = here.consumer(model=Model.BROADCASTING, instance="one", offsets_directory=tmp_path)
        consumer.on(topic)(again.put)
        async with consumer:
            await here.send(b"2")
            assert await again.has(1) == [b"2"]
        assert await here.committed() in {None, 0}


async def test_a_stop_waits_for_handlers_and_commits_what_they_did(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here:
        begun, may_end = asyncio.Event(), asyncio.Event()
        consumer = here.consumer(max_concurrency=1)

        @consumer.on(topic)
        async def handle(_: StoredMessage) -> None:
            begun.set()
            await may_end.wait()

        await here.send(b"0", b"1")
        await consumer.start()
        waiting = asyncio.create_task(consumer.wait())
        await begun.wait()
        stopping = asyncio.create_task(consumer.stop())
        await waiting
        assert not stopping.done()
        may_end.set()
        await stopping
        assert await here.committed() == 1  # the second one was not begun


async def test_a_stop_cancels_handlers_that_do_not_end(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here:
        begun = asyncio.Event()
        consumer = here.consumer(stop_timeout_ms=10)

        @consumer.on(topic)
        async def handle(_: StoredMessage) -> None:
            begun.set()
            await asyncio.Event().wait()

        await here.send(b"0")
        async with consumer:
            await begun.wait()
        assert await here.committed() in {None, 0}


async def test_no_more_is_pulled_than_the_limits_say(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here:
        basket = Basket()
        may_end = asyncio.Event()
        consumer = here.consumer(pull=PullOptions(Limits(messages=4), max_count=2))

        @consumer.on(topic)
        async def handle(message: StoredMessage) -> None:
            await basket.put(message)
            await may_end.wait()

        await here.send(*(b"%d" % number for number in range(20)))
        async with consumer:
            await basket.has(6)
            await here.committed()
            assert len(basket.messages) == 6
            may_end.set()
            await basket.has(20)


async def test_two_of_one_name_are_told(name_server: str, topic: str) -> None:
    alarm = Alarm(2)
    logging.getLogger("cometmq.client").addHandler(alarm)
    async with shop_at(name_server, topic) as here, AsyncExitStack() as members:
        one, two = here.consumer(instance="same"), here.consumer(instance="same")
        for consumer in (one, two):
            consumer.on(topic)(ignore)
            await members.enter_async_context(consumer)
        await alarm.rang.wait()
        assert (one.twins, two.twins) == (1, 1)
    logging.getLogger("cometmq.client").removeHandler(alarm)
    assert all("have the client id" in text for text in alarm.texts)


@pytest.mark.parametrize("start", [Start.FIRST, Start.at(0), Start.LAST], ids=["first", "at", "last"])
async def test_a_young_queue_is_read_from_its_first_message(
    name_server: str, topic: str, start: Start
) -> None:
    async with shop_at(name_server, topic) as here:
        await here.send(b"old")
        basket = Basket()
        consumer = here.consumer(start=start)
        consumer.on(topic)(basket.put)
        async with consumer:
            assert await basket.has(1) == [b"old"]


async def test_a_consumer_runs_until_it_is_cancelled(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here:
        basket = Basket()
        consumer = here.consumer()
        consumer.on(topic)(basket.put)
        running = asyncio.create_task(consumer.run())
        await here.send(b"0")
        await basket.has(1)
        with pytest.raises(SettingsError, match="started"):
            await consumer.start()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await here.committed() == 1
