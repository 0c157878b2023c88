"""What is asked of a broker while the disk takes its time."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.broker.conftest import Client, bodies, deliver, pull_header, serving
from tests.kit.brokers import ColdDisk, cold_broker, until

from cometmq.broker import reads as reads_module
from cometmq.broker.reads import AT_ONCE_MAX, FETCHES_MAX, records_between
from cometmq.format.java.java_hash import tags_code
from cometmq.store.store import READ_THREADS
from cometmq.wire import headers
from cometmq.wire.codes import RequestCode, ResponseCode

PULL = RequestCode.PULL_MESSAGE


async def test_the_loop_serves_others_while_a_pull_waits_for_the_disk(tmp_path: Path) -> None:
    async with cold_broker(tmp_path) as (bench, disk):
        pull = bench.ask_later(PULL, pull_header("T", 30))
        other = await Client.open(bench.address)
        for _ in range(3):
            assert (await other.send("U")).code == ResponseCode.SUCCESS
        assert not pull.done()
        disk.turns.set()
        assert bodies(await pull) == [b"%d" % n for n in range(30, 40)]
        await other.connection.close()


async def test_answers_of_a_connection_may_change_places(tmp_path: Path) -> None:
    async with cold_broker(tmp_path) as (bench, disk):
        pull = bench.ask_later(PULL, pull_header("T", 30))
        nothing = await bench.ask(PULL, pull_header("T", 40))
        assert nothing.code == ResponseCode.PULL_NOT_FOUND and not pull.done()
        disk.turns.set()
        assert (await pull).code == ResponseCode.SUCCESS


async def test_all_that_reads_waits_off_the_loop_and_gets_its_answer(tmp_path: Path) -> None:
    async with cold_broker(tmp_path) as (bench, disk):
        disk.turns.set()
        begin = bench.clock.now_ms() - 40_000
        found = await bench.ask(PULL, pull_header("T", 39))
        offset = int.from_bytes(found.body[28:36], "big")
        view = await bench.ask(RequestCode.VIEW_MESSAGE_BY_ID, headers.ViewMessageHeader(offset))
        assert bodies(view) == [b"39"]
        query = headers.QueryMessageHeader("T", "k7", 10, 0, 2**62)
        assert bodies(await bench.ask(RequestCode.QUERY_MESSAGE, query)) == [b"7"]
        search = headers.SearchOffsetHeader("T", 0, begin + 10_000)
        answer = await bench.ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, search)
        assert answer.ext_fields["offset"] == "10"
        earliest = headers.GetEarliestStoreTimeHeader("T", 0)
        answer = await bench.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, earliest)
        assert answer.ext_fields["timestamp"] == str(begin)
        young = headers.QueryConsumerOffsetHeader("new", "T", 0)
        answer = await bench.ask(RequestCode.QUERY_CONSUMER_OFFSET, young)
        assert answer.ext_fields["offset"] == "0"
        await bench.heartbeat("cg", "T")
        back = headers.SendBackHeader(offset, "cg", 0)
        assert (await bench.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)).code == ResponseCode.SUCCESS
        for code, header in (
            (RequestCode.GET_TOPIC_STATS_INFO, headers.TopicHeader("T")),
            (RequestCode.GET_CONSUME_STATS, headers.GetConsumeStatsHeader("cg", "T")),
            (RequestCode.GET_BROKER_RUNTIME_INFO, None),
        ):
            assert (await bench.ask(code, header)).code == ResponseCode.SUCCESS


async def test_what_a_handler_refuses_late_is_refused_with_its_code(tmp_path: Path) -> None:
    async with cold_broker(tmp_path) as (bench, disk):
        disk.turns.set()
        nowhere = headers.ViewMessageHeader(5)
        answer = await bench.ask(RequestCode.VIEW_MESSAGE_BY_ID, nowhere)
        assert answer.remark == "can not find message by the offset, 5"


async def test_a_connection_that_goes_away_leaves_nothing_behind(tmp_path: Path) -> None:
    async with cold_broker(tmp_path) as (bench, disk):
        gone = await Client.open(bench.address)
        pulls = [gone.ask_later(PULL, pull_header("T", n)) for n in range(3 * FETCHES_MAX)]
        await until(bench, lambda: bench.parts.reads.waiting_count == len(pulls))
        await until(bench, disk.asked.is_set)
        await gone.connection.close()
        await until(bench, lambda: bench.parts.reads.waiting_count == 0)
        disk.turns.set()
        assert bodies(await bench.ask(PULL, pull_header("T", 39))) == [b"39"]
        assert not bench.parts.reads._lanes
        await asyncio.gather(*pulls, return_exceptions=True)


async def test_who_asks_for_much_takes_no_turn_of_another(tmp_path: Path) -> None:
    assert FETCHES_MAX <= READ_THREADS
    async with cold_broker(tmp_path) as (bench, disk):
        pulls = [bench.ask_later(PULL, pull_header("T", n % 40)) for n in range(200)]
        await until(bench, lambda: bench.parts.reads.waiting_count == 200)
        other = await Client.open(bench.address)
        wanted = other.ask_later(PULL, pull_header("T", 39))
        await until(bench, lambda: bench.parts.reads.waiting_count == 201)
        disk.turns.set()
        assert bodies(await wanted) == [b"39"]
        assert sum(pull.done() for pull in pulls) < 150
        assert all(answer.code == ResponseCode.SUCCESS for answer in await asyncio.gather(*pulls))
        assert bench.parts.reads.waiting_count == 0
        await other.connection.close()


async def test_more_reads_than_can_wait_are_told_to_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads_module, "WAITING_MAX", 5)

    async with cold_broker(tmp_path) as (bench, disk):
        waiting = [bench.ask_later(PULL, pull_header("T", n)) for n in range(5)]
        busy = await bench.ask(PULL, pull_header("T", 5))
        assert busy.code == ResponseCode.SYSTEM_BUSY
        view = await bench.ask(RequestCode.VIEW_MESSAGE_BY_ID, headers.ViewMessageHeader(0))
        assert view.code == ResponseCode.SYSTEM_BUSY
        disk.turns.set()
        assert all(answer.code == ResponseCode.SUCCESS for answer in await asyncio.gather(*waiting))


async def test_a_peer_that_takes_nothing_is_read_nothing_more(tmp_path: Path) -> None:
    disk = ColdDisk()
    async with serving(tmp_path, {"mapped_file_size_commit_log": 1 << 26}, files=disk) as bench:
        body = bytes(1 << 18)
        for _ in range(4):
            await bench.send("T", body)
        disk.cold = True
        disk.turns.set()
        bench.connection._outbox._transport.pause_reading()
        pulls = [bench.ask_later(PULL, pull_header("T", n % 4)) for n in range(200)]
        other = await Client.open(bench.address)
        for _ in range(50):
            assert (await other.send("U")).code == ResponseCode.SUCCESS
        assert bench.parts.reads.waiting_count > 100, "their answers would be more than a connection may hold"
        bench.connection._outbox._transport.resume_reading()
        for pull in pulls:
            assert bodies(await pull) == [body]
        await other.connection.close()


async def test_delayed_messages_that_are_due_are_fetched_off_the_loop(tmp_path: Path) -> None:
    disk = ColdDisk()
    async with serving(tmp_path, files=disk) as bench:
        for n in range(40):
            await bench.send("Late", b"%d" % n, DELAY="1")
        disk.cold = True
        deliver(bench, 1_000)
        await until(bench, disk.asked.is_set)
        assert bench.store.max_queue_offset("Late", 0) == 0
        deliver(bench)
        disk.turns.set()
        await until(bench, lambda: bench.store.max_queue_offset("Late", 0) == 40)
        deliver(bench, 60_000)
        assert bench.store.max_queue_offset("Late", 0) == 40


async def test_while_the_disk_fails_delayed_messages_wait_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = ColdDisk()
    async with serving(tmp_path, files=disk) as bench:
        await bench.send("Late", DELAY="1")
        disk.cold = disk.broken = True
        disk.turns.set()
        deliver(bench, 1_000)
        await until(bench, lambda: "cannot be read" in caplog.text)
        disk.broken = False
        deliver(bench, 1_000)
        await until(bench, lambda: bench.store.max_queue_offset("Late", 0) == 1)


async def test_a_disk_that_fails_is_told_and_the_broker_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with cold_broker(tmp_path) as (bench, disk):
        disk.broken = True
        disk.turns.set()
        answer = await bench.ask(PULL, pull_header("T", 3))
        assert answer.code == ResponseCode.SYSTEM_ERROR
        disk.broken = False
        assert bodies(await bench.ask(PULL, replace(pull_header("T", 3), max_message_count=1))) == [b"3"]
        assert bench.parts.reads.waiting_count == 0
    assert "Input/output error" in caplog.text


async def test_a_cold_pull_at_the_end_of_its_queue_is_held(tmp_path: Path) -> None:
    async with cold_broker(tmp_path) as (bench, disk):
        held = bench.ask_later(PULL, pull_header("T", 40, wait_ms=15_000))
        await bench.ask(RequestCode.GET_ALL_TOPIC_CONFIG)
        assert bench.parts.pulls.held_count == 1
        other = await Client.open(bench.address)
        sent = other.send("T", b"new")
        disk.turns.set()
        await sent
        assert bodies(await held) == [b"new"]
        await other.connection.close()


async def test_the_records_between_two_offsets_are_read_part_by_part(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        for number in range(2 * AT_ONCE_MAX + 3):
            await bench.send("T", b"%d" % number, TAGS="a" if number % 50 else "b")

        async def offsets(begin: int, end: int, *which: Any) -> list[int]:
            between = records_between(bench.store, "T", 0, begin, end, *which)
            return [record.queue_offset async for record in between]

        assert await offsets(1, 2 * AT_ONCE_MAX) == list(range(1, 2 * AT_ONCE_MAX))
        assert await offsets(5, 5) == []
        end = bench.store.max_queue_offset("T", 0)
        assert await offsets(end - 2, end + 10) == [end - 2, end - 1], "the others do not exist"
        assert await offsets(0, end, {tags_code("b")}) == [0, 50]
        assert await offsets(0, end, None, b"TAGS\1a") == [0, 50]
