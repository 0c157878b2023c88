"""How a queue is pulled, at a broker of whatever make."""

import asyncio
from collections.abc import Callable

from tests.shop import Shop, shop_at

from cometmq.client.handling.pulling import Pulling, PullOptions, PullSource
from cometmq.client.handling.start import Start
from cometmq.client.requests.offset_store import RemoteOffsets
from cometmq.cluster.process_queue import Limits
from cometmq.message import MessageQueue, StoredMessage


def pulling_of(
    here: Shop, take: Callable[[Pulling, list[StoredMessage]], None], queue: MessageQueue | None = None
) -> Pulling:
    options, offsets = PullOptions(Limits(messages=1), max_count=1), RemoteOffsets(here.requests)
    source = PullSource(here.requests, offsets, Start.FIRST, options)
    return Pulling(queue or here.queue, source, take)


class Taken:
    """Receives messages, for which a test can wait."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[StoredMessage] = asyncio.Queue()

    def __call__(self, _: Pulling, messages: list[StoredMessage]) -> None:
        for message in messages:
            self.messages.put_nowait(message)

    async def next(self) -> bytes:
        return (await self.messages.get()).body


async def test_it_pulls_up_to_the_limit_and_goes_on_as_messages_are_done(
    name_server: str, topic: str
) -> None:
    async with shop_at(name_server, topic) as here:
        taken = Taken()
        await here.send(b"0", b"1", b"2", b"3")
        pulling = pulling_of(here, taken)
        pulling.begin()
        first = await taken.messages.get()
        assert await taken.next() == b"1"
        await here.committed()
        assert taken.messages.empty()
        pulling.done([first])
        assert await taken.next() == b"2"
        assert pulling.to_commit == 1
        await pulling.stop()
        pulling.done([first])


async def test_it_begins_where_the_group_was_and_again_where_it_is_told_to(
    name_server: str, topic: str
) -> None:
    async with shop_at(name_server, topic) as here:
        taken = Taken()
        await here.send(b"0", b"1")
        await here.requests.pull(here.queue, 0)  # a Java broker makes the group with it
        await here.requests.commit(here.queue, 1)
        pulling = pulling_of(here, taken)
        pulling.begin()
        assert await taken.next() == b"1"
        assert pulling.to_commit is None
        pulling.restart(0)
        assert [await taken.next(), await taken.next()] == [b"0", b"1"]
        await pulling.stop()


async def test_an_offset_that_does_not_exist_is_left_for_one_that_does(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here:
        taken = Taken()
        await here.send(b"0")
        await here.requests.pull(here.queue, 0)  # a Java broker makes the group with it
        await here.requests.commit(here.queue, 50)
        pulling = pulling_of(here, taken)
        pulling.begin()
        while pulling.waiting is None or pulling.waiting.cursor == 50:
            await here.committed()
        await here.send(b"1")
        assert await taken.next() == b"1"
        await pulling.stop()


async def test_it_waits_for_a_queue_that_is_not_there_yet(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here:
        taken = Taken()
        pulling = pulling_of(here, taken, here.queue._replace(topic="Later"))
        pulling.begin()
        await here.committed()
        assert pulling.waiting is None
        assert pulling.to_commit is None
        await pulling.stop()
