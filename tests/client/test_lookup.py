"""Finding single messages on a live broker."""

import asyncio
from pathlib import Path

import pytest
from tests.live import serving

from cometmq.client import Lookup, Producer
from cometmq.errors import FormatError, NetworkError, NoRoute, RemoteError
from cometmq.format.host import pack_host
from cometmq.format.message_id import offset_message_id
from cometmq.io.clock import ManualClock
from cometmq.message import Message
from cometmq.net.address import free_port


def test_a_message_is_found_by_the_brokers_id(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            serving(tmp_path) as live,
            Producer(live.name_server) as producer,
            Lookup(live.name_server) as lookup,
        ):
            results = [await producer.send(Message("Orders", b"%d" % n)) for n in range(3)]
            found = [await lookup.by_offset_id(result.offset_ids[0]) for result in results]
        assert [message.body for message in found] == [b"0", b"1", b"2"]

    asyncio.run(main())


def test_an_id_that_no_message_has_is_refused_by_the_broker(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            serving(tmp_path) as live,
            Producer(live.name_server) as producer,
            Lookup(live.name_server) as lookup,
        ):
            (offset_id,) = (await producer.send(Message("Orders", b"x"))).offset_ids
            with pytest.raises(RemoteError):
                await lookup.by_offset_id(offset_id[:-1] + "1")

    asyncio.run(main())


def test_a_text_that_is_no_id_is_refused_and_an_id_of_nobody_finds_nobody() -> None:
    async def main() -> None:
        async with Lookup("127.0.0.1:9876") as lookup:
            for text in ("", "xyz", "0" * 31, "g" * 32):
                with pytest.raises(FormatError):
                    await lookup.by_offset_id(text)
            with pytest.raises(NetworkError):
                await lookup.by_offset_id(offset_message_id(pack_host("127.0.0.1", free_port()), 0))

    asyncio.run(main())


def test_messages_are_found_by_key_and_others_of_the_same_hash_are_not(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            serving(tmp_path) as live,
            Producer(live.name_server) as producer,
            Lookup(live.name_server) as lookup,
        ):
            for n, keys in enumerate([("Aa", "x"), ("BB",), ("y", "Aa")]):  # two words, one hash
                await producer.send(Message("Orders", b"%d" % n, keys=keys))
            await producer.send(Message("Other", b"3", keys=("Aa",)))
            found = await lookup.by_key("Orders", "Aa")
            assert sorted(message.body for message in found) == [b"0", b"2"]
            assert len(await lookup.by_key("Orders", "Aa", max_count=1)) == 1
            assert await lookup.by_key("Orders", "nobody") == []

    asyncio.run(main())


def test_messages_are_found_by_key_within_a_time(tmp_path: Path) -> None:
    async def main() -> None:
        clock = ManualClock()
        begin = clock.now_ms()
        async with (
            serving(tmp_path, clock=clock) as live,
            Producer(live.name_server) as producer,
            Lookup(live.name_server) as lookup,
        ):
            for n in range(4):
                await producer.send(Message("Orders", b"%d" % n, keys=("k",)))
                clock.advance(10_000)
            found = await lookup.by_key("Orders", "k", begin_time=begin + 5_000, end_time=begin + 25_000)
        assert [message.body for message in found] == [b"1", b"2"]

    asyncio.run(main())


def test_each_message_of_a_batch_is_found_by_its_unique_id(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            serving(tmp_path) as live,
            Producer(live.name_server) as producer,
            Lookup(live.name_server) as lookup,
        ):
            result = await producer.send_batch([Message("Orders", b"%d" % n) for n in range(3)])
            ids = [(await lookup.by_offset_id(offset_id)).message_id for offset_id in result.offset_ids]
            found = [await lookup.by_unique_id("Orders", unique_id) for unique_id in ids]
            assert [[message.body for message in messages] for messages in found] == [[b"0"], [b"1"], [b"2"]]
            assert await lookup.by_unique_id("Orders", "0" * 32) == []

    asyncio.run(main())


def test_a_topic_that_is_not_known_has_no_route(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as live, Lookup(live.name_server) as lookup:
            with pytest.raises(NoRoute):
                await lookup.by_key("Unknown", "k")

    asyncio.run(main())
