"""A popped message gets another time: a check point of its own, and an acknowledgement in the old one."""

from pathlib import Path

from tests.broker.conftest import serving
from tests.broker.pops import (
    INVISIBLE_MS,
    Stored,
    ack,
    acks,
    change,
    check_points,
    fill,
    popped,
    stored,
)

from cometmq.format.pop.check_point import CheckPoint, PopAck
from cometmq.testing.memory_disk import MemoryDisk
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.headers import ChangeInvisibleHeader, ChangeInvisibleResponseHeader, fields, parse

ZEROS = fields(ChangeInvisibleResponseHeader(0, 0, 0))


async def test_a_message_gets_a_check_point_of_its_own(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T", b"a", 2)
        await bench.send("T", b"b", 2)
        _, message = await popped(bench)
        popped_ms, queue = message.handle.pop_time_ms, message.handle.revive_queue_id
        bench.clock.advance(3_000)
        now = bench.clock.now_ms()
        answer = await change(bench, message, 60_000, suspend=True)
        assert answer.code == ResponseCode.SUCCESS
        header = parse(ChangeInvisibleResponseHeader, answer.ext_fields)
        assert header == ChangeInvisibleResponseHeader(now, 60_000, queue)
        assert stored(bench)[1:] == [
            Stored(
                CheckPoint("T", "g", 2, 1, now, 60_000, (0,), "broker-a", is_suspended=True),
                queue,
                now + 59_000,
            ),
            Stored(
                PopAck("T", "g", 2, 0, popped_ms, "broker-a", (1,)),
                queue,
                popped_ms + INVISIBLE_MS,
            ),
        ]
        renewed = message.handle._replace(begin_offset=1, pop_time_ms=now, invisible_ms=60_000)
        assert (await ack(bench, message, handle=str(renewed))).code == ResponseCode.SUCCESS
        assert acks(bench)[-1].key == CheckPoint("T", "g", 2, 1, now, 60_000, (0,), "broker-a").key


async def test_each_change_within_a_millisecond_has_a_check_point_of_its_own(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T", b"a")
        (message,) = await popped(bench)
        for _ in range(3):
            answer = await change(bench, message, 60_000)
            header = parse(ChangeInvisibleResponseHeader, answer.ext_fields)
            renewed = message.handle._replace(pop_time_ms=header.pop_time, invisible_ms=60_000)
            message = message._replace(handle=renewed)
        points = check_points(bench)
        assert len({one.key for one in points}) == 4
        assert [one.key for one in acks(bench)] == [one.key for one in points[:3]]


async def test_without_any_time_it_is_due_at_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T", b"a")
        (message,) = await popped(bench)
        assert (await change(bench, message, 0)).code == ResponseCode.SUCCESS
        assert [one.due_ms for one in stored(bench) if isinstance(one.what, CheckPoint)][1:] == [None]


async def test_what_names_no_message_is_refused_with_a_header_of_zeros(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T", b"a", 3)
        (message,) = await popped(bench)
        handle = str(message.handle)
        elsewhere = str(message.handle._replace(revive_queue_id=8))
        for header, code in (
            (ChangeInvisibleHeader("g", "None", 3, handle, 0, 1_000), 17),
            (ChangeInvisibleHeader("g", "T", 4, handle, 0, 1_000), 13),
            (ChangeInvisibleHeader("g", "T", 3, handle, -1, 1_000), 208),
            (ChangeInvisibleHeader("g", "T", 3, handle, 1, 1_000), 208),
            (ChangeInvisibleHeader("g", "T", 3, "x", 0, 1_000), 1),
            (ChangeInvisibleHeader("g", "T", 3, elsewhere, 0, 1_000), 1),
            (ChangeInvisibleHeader("g", "T", 3, handle, 0, 2**40), 29),
        ):
            answer = await bench.ask(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header)
            assert (answer.code, answer.ext_fields) == (code, ZEROS), answer
        assert len(stored(bench)) == 1


async def test_if_the_store_refuses_the_message_keeps_its_time(tmp_path: Path) -> None:
    disk = MemoryDisk()
    async with serving(tmp_path, files=disk) as bench:
        await bench.send("T", b"a")
        (message,) = await popped(bench)
        await fill(bench, disk)
        answer = await change(bench, message, 60_000)
        assert (answer.code, answer.ext_fields) == (ResponseCode.SYSTEM_ERROR, ZEROS)
        assert "the invisible time is not changed" in (answer.remark or "")
        assert len(stored(bench)) == 1
        disk.space_bytes = 2**40


async def test_a_handle_that_is_used_up_changes_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T", b"a", 0)
        await bench.send("T", b"b", 0)
        changed, acknowledged = await popped(bench)
        assert (await change(bench, changed, 60_000)).code == ResponseCode.SUCCESS
        assert (await ack(bench, acknowledged)).code == ResponseCode.SUCCESS
        before = stored(bench)
        for message in (changed, acknowledged):
            refused = await change(bench, message, 60_000)
            assert (refused.code, refused.ext_fields) == (ResponseCode.NO_MESSAGE, ZEROS)
            assert "no such message of T@0 waits" in (refused.remark or "")
        assert stored(bench) == before
        assert bench.parts.in_flight.count("g", "T", 0) == 1


async def test_a_message_whose_time_is_over_cannot_be_hidden_for_it_comes_again(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T", b"a")
        (message,) = await popped(bench)
        bench.clock.advance(message.handle.invisible_ms - 1)
        assert (await change(bench, message, 500)).code == ResponseCode.SUCCESS
        (second,) = [one for one in check_points(bench) if one.invisible_ms == 500]
        bench.clock.advance(500)
        renewed = message.handle._replace(pop_time_ms=second.pop_time_ms, invisible_ms=500)
        refused = await change(bench, message._replace(handle=renewed), 60_000)
        assert refused.code == ResponseCode.NO_MESSAGE
