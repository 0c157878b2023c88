"""Looking for what cannot be, and within a time; the rest is in ``test_lookup_end_to_end``."""

from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

import pytest
from tests.client.brokers import Broker, cluster
from tests.live import serving

from cometmq.client import Lookup, Producer
from cometmq.errors import FormatError, NetworkError, UnreadableAnswer
from cometmq.format.host import pack_host
from cometmq.format.java.java_hash import index_key_hash
from cometmq.format.message_id import offset_message_id
from cometmq.format.record import Record, encode
from cometmq.io.clock import ManualClock
from cometmq.message import Message, StoredMessage
from cometmq.net.address import free_port
from cometmq.net.server import Session
from cometmq.wire.codes import ResponseCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import QueryMessageHeader, parse


async def test_a_text_that_is_no_id_is_refused_and_an_id_of_nobody_finds_nobody() -> None:
    async with Lookup("127.0.0.1:9876") as lookup:
        for text in ("", "xyz", "0" * 31, "g" * 32):
            with pytest.raises(FormatError):
                await lookup.by_offset_id(text)
        with pytest.raises(NetworkError):
            await lookup.by_offset_id(offset_message_id(pack_host("127.0.0.1", free_port()), 0))


async def test_messages_are_found_by_key_within_a_time(tmp_path: Path) -> None:
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
    assert [message.body for message in found] == [b"2", b"1"]


async def test_a_time_is_kept_to_the_millisecond(tmp_path: Path) -> None:
    clock = ManualClock()
    async with (
        serving(tmp_path, clock=clock) as live,
        Producer(live.name_server) as producer,
        Lookup(live.name_server) as lookup,
    ):
        times = []
        for n in range(3):
            clock.advance(300)
            times.append(clock.now_ms())
            await producer.send(Message("Orders", b"%d" % n, keys=("k",)))
        found = await lookup.by_key("Orders", "k", begin_time=times[1], end_time=times[1])
    assert [message.body for message in found] == [b"1"], "the index knows seconds only"


class Finder(Broker):
    """A broker that, as RocketMQ's, returns every record whose key has the hash, and few at once."""

    def __init__(self, name: str, records: Sequence[Record], most: int = 64) -> None:
        super().__init__(name)
        self.asked: list[QueryMessageHeader] = []
        self._records = records
        self._most = most

    def handle(self, session: Session, commands: list[Command]) -> None:
        for command in commands:
            header = parse(QueryMessageHeader, command.ext_fields)
            self.asked.append(header)
            within = [
                one
                for one in self._records
                if header.begin_time <= one.store_time // 1_000 * 1_000 <= header.end_time
            ]
            found = within[-min(header.max_count, self._most) :]
            code = ResponseCode.SUCCESS if found else ResponseCode.QUERY_NOT_FOUND
            session.send(response(command, code, body=b"".join(map(encode, found))))


def record(
    number: int, key: str, topic: str = "shard1a", *, time_ms: int | None = None, unique_id: str = ""
) -> Record:
    text = f"KEYS\1{key}\2UNIQ_KEY\1{unique_id or f'ID{number}'}\2".encode()
    stored_ms = 1_000 * number if time_ms is None else time_ms
    return Record(topic, b"%d" % number, text, 0, number, number, 0, 0, 1, bytes(8), stored_ms, bytes(8))


def numbers(messages: list[StoredMessage]) -> list[int]:
    return [int(message.body) for message in messages]


async def test_a_message_of_another_topic_whose_hash_is_the_same_is_not_found() -> None:
    assert index_key_hash("shard1a", "k") == index_key_hash("shard2B", "k")
    broker = Finder("a", [record(1, "k", unique_id="U"), record(2, "k", "shard2B", unique_id="U")])
    async with cluster(broker) as name_server, Lookup(name_server) as lookup:
        assert numbers(await lookup.by_key("shard1a", "k")) == [1]
        assert numbers(await lookup.by_unique_id("shard1a", "U")) == [1]
        assert await lookup.by_unique_id("shard1a", "ID9") == []


@pytest.mark.parametrize("limit", [1, 3, 50, 200])
async def test_the_limit_counts_messages_that_have_the_key(limit: int) -> None:
    records = [record(n, "k", "shard2B" if n % 10 else "shard1a") for n in range(1_000)]
    async with cluster(Finder("a", records)) as name_server, Lookup(name_server) as lookup:
        found = await lookup.by_key("shard1a", "k", max_count=limit)
    assert numbers(found) == list(range(990, -1, -10))[:limit]


async def test_many_records_of_one_second_do_not_hide_older_ones() -> None:
    records = [record(1, "k")] + [record(n, "k", "shard2B", time_ms=9_000 + n) for n in range(2, 66)]
    async with cluster(Finder("a", records)) as name_server, Lookup(name_server) as lookup:
        assert numbers(await lookup.by_key("shard1a", "k", max_count=1)) == [1]


async def test_a_broker_that_has_no_more_is_asked_once() -> None:
    broker = Finder("a", [record(n, "k") for n in range(5)])
    async with cluster(broker) as name_server, Lookup(name_server) as lookup:
        assert numbers(await lookup.by_key("shard1a", "k")) == [4, 3, 2, 1, 0]
        assert numbers(await lookup.by_key("shard1a", "k", max_count=2)) == [4, 3]
        assert await lookup.by_key("shard1a", "k", max_count=0) == []
    assert len(broker.asked) == 2


async def test_over_several_brokers_the_newest_come_first() -> None:
    even = Finder("a", [record(n, "k") for n in range(0, 10, 2)])
    odd = Finder("b", [record(n, "k") for n in range(1, 10, 2)])
    async with cluster(even, odd) as name_server, Lookup(name_server) as lookup:
        assert numbers(await lookup.by_key("shard1a", "k", max_count=3)) == [9, 8, 7]
        assert numbers(await lookup.by_key("shard1a", "k")) == list(range(9, -1, -1))


async def test_a_message_that_has_its_key_twice_is_found_once(tmp_path: Path) -> None:
    async with (
        serving(tmp_path) as live,
        Producer(live.name_server) as producer,
        Lookup(live.name_server) as lookup,
    ):
        for n in range(3):
            await producer.send(Message("Orders", b"%d" % n, keys=("k", "k")))
        assert numbers(await lookup.by_key("Orders", "k")) == [2, 1, 0]
        assert numbers(await lookup.by_key("Orders", "k", max_count=2)) == [2, 1]


async def test_what_is_found_is_asked_for_as_it_is_read() -> None:
    broker = Finder("a", [record(n, "k") for n in range(100)], most=32)
    async with cluster(broker) as name_server, Lookup(name_server) as lookup:
        async with aclosing(lookup.stored("shard1a", "k", max_count=100)) as found:
            assert int((await anext(found)).body) == 99
            assert len(broker.asked) == 1
        assert numbers(await lookup.by_key("shard1a", "k", max_count=100)) == list(range(99, -1, -1))


async def test_an_answer_that_is_no_record_is_told_with_its_broker() -> None:
    class Nonsense(Broker):
        def handle(self, session: Session, commands: list[Command]) -> None:
            session.send(response(commands[0], body=b"{"))

    async with cluster(Nonsense("a")) as name_server, Lookup(name_server) as lookup:
        with pytest.raises(
            UnreadableAnswer, match=r"^127\.0\.0\.1:\d+ answers what cannot be read: record at 0"
        ):
            await lookup.by_key("shard1a", "k")
