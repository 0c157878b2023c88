"""Acknowledgements: what is stored of them, and how each is answered."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.broker.conftest import SYNC, Bench, GatedDisk, serving
from tests.broker.halves import records
from tests.broker.pops import (
    INVISIBLE_MS,
    REVIVE,
    TIMER,
    Handed,
    ack,
    acks,
    change,
    come_back,
    fill,
    popped,
    stored,
)
from tests.kit.pops import ack_batch, entry

from cometmq.broker.requests.pop import acks as acks_module
from cometmq.broker.state.pop.handles import point_of
from cometmq.format import properties
from cometmq.format.pop.check_point import PopAck
from cometmq.testing.memory_disk import MemoryDisk
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.connection import FrameReader
from cometmq.wire.frame import Command, encode
from cometmq.wire.headers import AckHeader, fields

Serve = Callable[..., AbstractAsyncContextManager[Bench]]


@pytest.fixture(params=[False, True], ids=["commands", "rows"])
def serve(request: pytest.FixtureRequest) -> Serve:
    """Serve a store, and let acknowledgements come as commands, then as rows."""
    return partial(serving, bulk=request.param)


async def prepare(bench: Bench, count: int = 1, queue_id: int = 3, **changes: Any) -> list[Handed]:
    """Send messages, and pop them."""
    for n in range(count):
        assert (await bench.send("T", b"%d" % n, queue_id)).code == ResponseCode.SUCCESS
    return await popped(bench, **changes)


async def test_an_acknowledgement_is_stored_as_rocketmq_stores_it(serve: Serve, tmp_path: Path) -> None:
    async with serve(tmp_path) as bench:
        (message,) = await prepare(bench)
        answer = await ack(bench, message)
        assert (answer.code, answer.ext_fields) == (ResponseCode.SUCCESS, {})
        waiting = records(bench, TIMER)[-1]
        now = message.handle.pop_time_ms
        assert waiting.body.decode() == (
            f'{{"ao":0,"bn":"broker-a","c":"g","pt":{now},"q":3,"so":0,"t":"T"}}'
        )
        assert properties.decode(waiting.properties) == {
            "TAGS": "ack",
            "UNIQ_KEY": f"T@3@0@g@{now}@broker-a@ack",
            "TIMER_DELIVER_MS": str(now + INVISIBLE_MS),
            "TIMER_OUT_MS": str((now + INVISIBLE_MS - 1) // 1000 * 1000),
            "REAL_TOPIC": REVIVE,
            "REAL_QID": str(message.handle.revive_queue_id),
        }
        assert bench.parts.in_flight.count("g", "T", 3) == 0


async def test_a_handle_to_which_the_proxy_of_rocketmq_added_a_token_is_one(
    serve: Serve, tmp_path: Path
) -> None:
    async with serve(tmp_path) as bench:
        for place, message in enumerate(await prepare(bench, 2)):
            handle = f"{message.handle} {message.record.physical_offset}"
            assert (await ack(bench, message, handle=handle)).code == ResponseCode.SUCCESS
            acknowledged = acks(bench)[-1]
            assert (acknowledged.begin_offset, acknowledged.offsets) == (0, (place,))


async def test_one_that_comes_too_late_goes_to_the_revive_topic_at_once(serve: Serve, tmp_path: Path) -> None:
    async with serve(tmp_path) as bench:
        (message,) = await prepare(bench)
        bench.clock.advance(INVISIBLE_MS)
        assert (await ack(bench, message)).code == ResponseCode.SUCCESS
        assert [(type(one.what), one.due_ms) for one in stored(bench)[1:]] == [(PopAck, None)]


async def test_one_by_a_handle_that_is_used_up_is_refused_and_counts_nothing(
    serve: Serve, tmp_path: Path
) -> None:
    async with serve(tmp_path) as bench:
        first, *_ = await prepare(bench, 5)
        assert (await ack(bench, first)).code == ResponseCode.SUCCESS
        for late_ms in (0, INVISIBLE_MS):
            bench.clock.advance(late_ms)
            refused = await ack(bench, first)
            assert refused.code == ResponseCode.NO_MESSAGE
            assert "no such message of T@3 waits" in (refused.remark or "")
            assert (await ack_batch(bench, entry(first, 0b1))).code == ResponseCode.NO_MESSAGE
        assert [one.offsets for one in acks(bench)] == [(0,)]
        assert bench.parts.in_flight.count("g", "T", 3) == 4
        assert (await ack_batch(bench, entry(first, 0b11))).code == ResponseCode.SUCCESS
        assert [one.offsets for one in acks(bench)] == [(0,), (1,)]
        assert bench.parts.in_flight.count("g", "T", 3) == 3


async def test_the_last_message_of_a_check_point_is_acknowledged_once(serve: Serve, tmp_path: Path) -> None:
    async with serve(tmp_path) as bench:
        (message,) = await prepare(bench)
        (held,) = await prepare(bench)
        assert (await ack(bench, message)).code == ResponseCode.SUCCESS
        assert (await ack(bench, message)).code == ResponseCode.NO_MESSAGE
        assert bench.parts.in_flight.count("g", "T", 3) == 1
        assert (await ack(bench, held)).code == ResponseCode.SUCCESS


async def test_one_by_a_replaced_handle_is_refused(serve: Serve, tmp_path: Path) -> None:
    async with serve(tmp_path) as bench:
        (message,) = await prepare(bench)
        assert (await change(bench, message, 30_000)).code == ResponseCode.SUCCESS
        assert (await ack(bench, message)).code == ResponseCode.NO_MESSAGE
        assert bench.parts.in_flight.count("g", "T", 3) == 1


async def test_a_check_point_that_is_not_known_is_believed(serve: Serve, tmp_path: Path) -> None:
    async with serve(tmp_path) as bench:
        (message,) = await prepare(bench)
        for other in (message.handle._replace(broker_name="other"), message.handle._replace(pop_time_ms=5)):
            assert (await ack(bench, message, handle=str(other))).code == ResponseCode.SUCCESS
        assert len(acks(bench)) == 2


@pytest.mark.parametrize("queue_id", [8, -1, 1_000_000])
async def test_one_for_a_revive_queue_that_is_not_revived_is_passed_over(
    serve: Serve, tmp_path: Path, queue_id: int
) -> None:
    async with serve(tmp_path) as bench:
        (message,) = await prepare(bench)
        handle = message.handle._replace(revive_queue_id=queue_id)
        assert (await ack(bench, message, handle=str(handle))).code == ResponseCode.SUCCESS
        assert acks(bench) == []


async def test_what_names_no_message_is_refused_with_rocketmqs_codes(serve: Serve, tmp_path: Path) -> None:
    async with serve(tmp_path) as bench:
        (message,) = await prepare(bench)
        handle = str(message.handle)
        for header, code, words in (
            (AckHeader("g", "None", 3, handle, 0), 17, "topic[None] not exist"),
            (AckHeader("g", "T", 4, handle, 0), 13, "queueId[4] is illegal"),
            (AckHeader("g", "T", -1, handle, 0), 13, "queueId[-1] is illegal"),
            (AckHeader("g", "T", 3, handle, -1), 208, "offset is illegal, key:T@3, commit:-1, store:0~1"),
            (AckHeader("g", "T", 3, handle, 2), 208, "commit:2"),
            (AckHeader("g", "T", 3, handle, 1), 208, "no such message of T@3 waits"),
            (AckHeader("g", "T", 3, "no handle", 0), 1, "'no handle' is not a receipt handle"),
            (AckHeader("g", "T", 3, handle.replace("broker-a", "a\x02b"), 0), 13, "holds a separator"),
        ):
            answer = await bench.ask(RequestCode.ACK_MESSAGE, header)
            assert (answer.code, words in (answer.remark or "")) == (code, True), answer


async def test_a_batch_acknowledges_messages_of_several_check_points(serve: Serve, tmp_path: Path) -> None:
    async with serve(tmp_path) as bench:
        three = await prepare(bench, 3)
        (other,) = await prepare(bench, queue_id=1)
        answer = await ack_batch(bench, entry(three[0], 0b101), entry(other, 0b1))
        assert answer.code == ResponseCode.SUCCESS
        first, second = acks(bench)
        assert (first.offsets, first.queue_id) == ((0, 2), 3)
        assert (second.offsets, second.queue_id) == ((0,), 1)
        assert bench.parts.in_flight.count("g", "T", 3) == 1
        assert bench.parts.in_flight.count("g", "T", 1) == 0


async def test_a_batch_passes_over_what_names_no_message(serve: Serve, tmp_path: Path) -> None:
    async with serve(tmp_path) as bench:
        (message,) = await prepare(bench)
        answer = await ack_batch(
            bench,
            entry(message, 0b100),
            entry(message, 0b1, t="None"),
            entry(message, 0b1, q=9),
            entry(message, 0b1, r="1"),
            entry(message, 0b0),
            entry(message, 0b1, rq=77),
        )
        assert answer.code == ResponseCode.SUCCESS and acks(bench) == []


async def test_an_empty_batch_is_refused(serve: Serve, tmp_path: Path) -> None:
    async with serve(tmp_path) as bench:
        assert (await ack_batch(bench)).code == ResponseCode.NO_MESSAGE
        assert (await bench.ask(RequestCode.BATCH_ACK_MESSAGE)).code == ResponseCode.NO_MESSAGE


async def test_messages_of_retry_topics_are_acknowledged_there(serve: Serve, tmp_path: Path) -> None:
    async with serve(tmp_path) as bench:
        bench.parts.topics.find_or_create("%RETRY%g_T")
        bench.parts.topics.find_or_create("T")
        come_back(bench, "%RETRY%g_T", b"a", b"b")
        first, second = await popped(bench)
        assert (await ack(bench, first)).code == ResponseCode.SUCCESS
        assert (await ack_batch(bench, entry(second, 0b10))).code == ResponseCode.SUCCESS
        assert [(one.topic, one.offsets) for one in acks(bench)] == [
            ("%RETRY%g_T", (0,)),
            ("%RETRY%g_T", (1,)),
        ]


async def test_one_that_the_store_refuses_is_logged_once_and_answered_all_the_same(
    serve: Serve, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = MemoryDisk()
    async with serve(tmp_path, files=disk) as bench:
        (message,) = await prepare(bench)
        await fill(bench, disk)
        before = len(acks(bench))
        with caplog.at_level(logging.ERROR, acks_module.__name__):
            for _ in range(2):
                assert (await ack(bench, message)).code == ResponseCode.SUCCESS
        assert [line.message[:40] for line in caplog.records] == ["acknowledgements are not stored, their m"]
        assert len(acks(bench)) == before
        disk.space_bytes = 2**40


async def test_under_sync_flush_the_answer_waits_for_the_disk(serve: Serve, tmp_path: Path) -> None:
    disk = GatedDisk()
    async with serve(tmp_path, SYNC, files=disk) as bench:
        (message,) = await prepare(bench)
        disk.gate.clear()
        header = AckHeader("g", "T", 3, str(message.handle), 0)
        answer = bench.ask_later(RequestCode.ACK_MESSAGE, header)
        await bench.ask(RequestCode.GET_BROKER_CONFIG)
        assert not answer.done()
        disk.gate.set()
        assert (await answer).code == ResponseCode.SUCCESS


def frames(*messages: Handed) -> bytes:
    """Return acknowledgements as one client sends them."""
    found = []
    for number, message in enumerate(messages, 100):
        topic, queue_id, offset = message.place
        header = AckHeader("g", topic, queue_id, str(message.handle), offset)
        found.append(encode(Command(RequestCode.ACK_MESSAGE, number, ext_fields=fields(header))))
    return b"".join(found)


async def answers(bench: Bench, data: bytes, count: int) -> dict[int, int]:
    """Send frames in one write; return the codes of so many responses by their opaque numbers."""
    host, _, port = bench.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(data)
    received, commands = FrameReader(), list[Command]()
    while len(commands) < count:
        commands += received.receive_data(await reader.read(1 << 16))
    writer.close()
    return {command.opaque: command.code for command in commands}


async def test_rows_of_one_check_point_are_stored_as_one_record(tmp_path: Path) -> None:
    async with serving(tmp_path, bulk=True) as bench:
        many = await prepare(bench, 5)
        (other,) = await prepare(bench, queue_id=1)
        first, second, third, fourth, _ = many
        data = frames(third, other, first, second)
        assert await answers(bench, data, 4) == dict.fromkeys(range(100, 104), ResponseCode.SUCCESS)
        assert [(one.queue_id, one.offsets) for one in acks(bench)] == [(3, (0, 1, 2)), (1, (0,))]
        assert bench.parts.in_flight.count("g", "T", 3) == 2
        assert (await answers(bench, frames(fourth), 1)) == {100: ResponseCode.SUCCESS}
        assert [one.offsets for one in acks(bench)][2:] == [(3,)]
        assert bench.parts.rates.ack_rows.total() == 5 and not bench.parts.rates.ack_commands


async def test_a_row_that_repeats_one_of_the_same_read_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path, bulk=True) as bench:
        first, second, _ = await prepare(bench, 3)
        found = await answers(bench, frames(first, first, second, second), 4)
        assert found == {100: 0, 101: ResponseCode.NO_MESSAGE, 102: 0, 103: ResponseCode.NO_MESSAGE}
        assert [one.offsets for one in acks(bench)] == [(0,), (1,)]
        assert bench.parts.in_flight.count("g", "T", 3) == 1


async def test_check_points_that_differ_in_one_number_or_name_are_acknowledged_each_by_its_own(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, bulk=True) as bench:
        (message,) = await prepare(bench)
        handle = message.handle
        others = (
            handle,
            handle._replace(begin_offset=1),
            handle._replace(pop_time_ms=handle.pop_time_ms - 1),
            handle._replace(broker_name="other"),
        )
        for other in others:
            assert await answers(bench, frames(message._replace(handle=other)), 1) == {100: 0}
        assert [one.key for one in acks(bench)] == [point_of(other, "T", "g", 3).key for other in others]
        assert bench.parts.rates.ack_rows.total() == len(others)


async def test_only_an_acknowledgement_that_is_unusual_comes_as_a_command(tmp_path: Path) -> None:
    async with serving(tmp_path, bulk=True) as bench:
        first, second, third = await prepare(bench, 3)
        beyond = second._replace(handle=second.handle._replace(offset=4))
        found = await answers(bench, frames(first, beyond, third), 3)
        assert found == {100: 0, 101: ResponseCode.NO_MESSAGE, 102: 0}
        assert await answers(bench, frames(second), 1) == {100: 0}
        assert sorted(one.offsets for one in acks(bench)) == [(0,), (1,), (2,)]
        rates = bench.parts.rates
        assert (rates.ack_rows.total(), rates.ack_commands) == (3, 1)


async def test_a_handle_of_a_time_too_far_away_is_refused(serve: Serve, tmp_path: Path) -> None:
    async with serve(tmp_path) as bench:
        (message,) = await prepare(bench)
        handle = message.handle._replace(invisible_ms=10**12)
        answer = await ack(bench, message, handle=str(handle))
        assert (answer.code, acks(bench)) == (ResponseCode.MESSAGE_ILLEGAL, [])
        assert "timerMaxDelaySec" in (answer.remark or "")
