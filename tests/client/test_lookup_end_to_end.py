"""Finding single messages at a broker of whatever make."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from cometmq.client import Lookup, Producer
from cometmq.errors import NoRoute, RemoteError
from cometmq.format.message_id import offset_message_id, parse_offset_message_id
from cometmq.message import Message, StoredMessage

PATIENCE_S = 60


async def found_by(ask: Callable[[], Awaitable[list[StoredMessage]]], count: int) -> list[StoredMessage]:
    """Ask until so many are found: a Java broker answers a send before the message is in its index."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if len(found := await ask()) >= count:
                return found
            await asyncio.sleep(0.02)


async def test_a_message_is_found_by_the_ids_that_its_send_gave(name_server: str, topic: str) -> None:
    async with Producer(name_server) as producer, Lookup(name_server) as lookup:
        results = [await producer.send(Message(topic, b"%d" % n)) for n in range(3)]
        found = [await lookup.by_offset_id(result.offset_id) for result in results]
        last = await found_by(partial(lookup.by_unique_id, topic, results[-1].message_id), 1)
    assert [message.body for message in found] == [b"0", b"1", b"2"]
    assert last == found[2:]


async def test_an_id_that_no_message_has_is_refused_by_the_broker(name_server: str, topic: str) -> None:
    async with Producer(name_server) as producer, Lookup(name_server) as lookup:
        offset_id = (await producer.send(Message(topic, b"x"))).offset_id
        where = parse_offset_message_id(offset_id)
        with pytest.raises(RemoteError):
            await lookup.by_offset_id(offset_message_id(where.store_host, 2**40))


async def test_messages_are_found_by_key_and_others_of_the_same_hash_are_not(
    name_server: str, topic: str
) -> None:
    async with Producer(name_server) as producer, Lookup(name_server) as lookup:
        for n, keys in enumerate([("Aa", "x"), ("BB",), ("y", "Aa")]):  # two words, one hash
            await producer.send(Message(topic, b"%d" % n, keys=keys))
        await producer.send(Message(f"{topic}_other", b"3", keys=("Aa",)))
        found = await found_by(lambda: lookup.by_key(topic, "Aa"), 2)
        assert sorted(message.body for message in found) == [b"0", b"2"]
        assert len(await lookup.by_key(topic, "Aa", max_count=1)) == 1
        assert await lookup.by_key(topic, "nobody") == []


async def test_each_message_of_a_batch_is_found_by_its_unique_id(name_server: str, topic: str) -> None:
    async with Producer(name_server) as producer, Lookup(name_server) as lookup:
        result = await producer.send_batch([Message(topic, b"%d" % n) for n in range(3)])
        ids = [(await lookup.by_offset_id(offset_id)).message_id for offset_id in result.offset_ids]
        found = [await found_by(partial(lookup.by_unique_id, topic, unique_id), 1) for unique_id in ids]
        assert [[message.body for message in messages] for messages in found] == [[b"0"], [b"1"], [b"2"]]
        assert await lookup.by_unique_id(topic, "0" * 32) == []


async def test_a_topic_that_is_not_known_has_no_route(name_server: str) -> None:
    async with Lookup(name_server) as lookup:
        with pytest.raises(NoRoute):
            await lookup.by_key("Unknown", "k")
