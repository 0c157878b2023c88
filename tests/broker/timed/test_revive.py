"""Popped messages that nobody acknowledges come back, at their time, once, over stops and kills."""

from pathlib import Path
from typing import Any

import pytest
from tests.broker.conftest import SYNC, GatedDisk, serving
from tests.kit import pops

from cometmq.broker.state.pop.handles import HandlePoint
from cometmq.broker.timed.revive import BEHIND_TIMER_MS
from cometmq.errors import StoreNotWritable
from cometmq.format import properties
from cometmq.format.pop.check_point import CheckPoint
from cometmq.format.pop.names import REVIVE_GROUP
from cometmq.testing.memory_disk import MemoryDisk
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.headers import AckHeader, ChangeInvisibleHeader, DeleteGroupHeader, PopHeader


async def test_what_is_not_acknowledged_comes_back_when_its_time_is_over_and_not_before(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as bench:
        await pops.begin(bench, b"0", b"1", b"2")
        handles = await pops.pop(bench)
        assert [handle.offset for handle in handles] == [0, 1, 2]
        await pops.acknowledge(bench, handles[1])
        await pops.pass_time(bench, pops.INVISIBLE_MS - 1)
        assert pops.bodies(bench) == []
        await pops.pass_time(bench, 1_500)
        assert pops.bodies(bench) == [b"0", b"2"]
        await pops.pass_time(bench, 60_000, 5_000)
        assert pops.bodies(bench) == [b"0", b"2"], "once"
        record = pops.returned(bench)[0]
        named = properties.decode(record.properties)
        assert record.reconsume_times == 1
        assert named["1ST_POP_TIME"] == str(handles[0].pop_time_ms)
        assert (named["ORIGIN_GROUP"], named["KEYS"], named["TAGS"]) == ("g", "k", "a")
        topic = bench.parts.topics.find(pops.RETRY)
        assert topic is not None and (topic.read_queue_count, topic.write_queue_count) == (1, 1)
        assert bench.parts.offsets.committed("g", pops.RETRY, 0) == 0


async def test_nothing_comes_back_of_what_was_acknowledged(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await pops.begin(bench, *(b"%d" % number for number in range(40)))
        for handle in await pops.pop(bench) + await pops.pop(bench):
            await pops.acknowledge(bench, handle)
        await pops.pass_time(bench, 20_000)
        assert pops.bodies(bench) == []
        assert bench.parts.revive.wait_ms() is None, "nothing runs while no check point is open"


async def test_an_acknowledgement_in_the_last_moment_counts(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await pops.begin(bench, b"0")
        (handle,) = await pops.pop(bench)
        await pops.pass_time(bench, pops.INVISIBLE_MS - 1)
        await pops.acknowledge(bench, handle)
        await pops.pass_time(bench, 10_000)
        assert pops.bodies(bench) == []


async def test_a_message_whose_time_is_changed_comes_back_at_the_new_one(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await pops.begin(bench, b"0")
        (handle,) = await pops.pop(bench)
        header = ChangeInvisibleHeader("g", "T", 0, str(handle), 0, 20_000)
        answer = await bench.ask(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header)
        assert answer.code == ResponseCode.SUCCESS, answer
        await pops.pass_time(bench, 19_999)
        assert pops.bodies(bench) == []
        await pops.pass_time(bench, 1_500)
        assert pops.bodies(bench) == [b"0"]


async def test_a_message_without_invisible_time_comes_back_at_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await pops.begin(bench, b"0")
        await pops.pop(bench, invisible_ms=0)
        await pops.pass_time(bench, 1)
        assert pops.bodies(bench) == [b"0"]


async def test_a_message_comes_back_to_the_same_retry_topic_again_and_again(tmp_path: Path) -> None:
    async with serving(tmp_path, pop_from_retry_probability=100) as bench:
        await pops.begin(bench, b"0")
        await pops.pop(bench)
        for times in range(1, 4):
            await pops.pass_time(bench, pops.INVISIBLE_MS + 1_500)
            assert [record.reconsume_times for record in pops.returned(bench)] == list(range(1, times + 1))
            (handle,) = await pops.pop(bench)
            assert handle.retry_flag == 1
        header = AckHeader("g", pops.RETRY, 0, str(handle), handle.offset)
        assert (await bench.ask(RequestCode.ACK_MESSAGE, header)).code == ResponseCode.SUCCESS
        await pops.pass_time(bench, 30_000)
        assert len(pops.returned(bench)) == 3


@pytest.mark.parametrize("store", [{}, SYNC], ids=["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_a_stop_and_a_start_between_pop_and_return_lose_nothing(
    tmp_path: Path, store: dict[str, Any]
) -> None:
    async with serving(tmp_path, store, **pops.quiet()) as bench:
        await pops.begin(bench, b"0", b"1", b"2")
        handles = await pops.pop(bench)
        await pops.acknowledge(bench, handles[2])
        now_ms = bench.clock.now_ms()
        bench.parts.timed_messages.close()
    async with serving(tmp_path, store, **pops.quiet()) as bench:
        bench.clock.advance(now_ms - bench.clock.now_ms())
        await bench.parts.timed_messages.load()
        assert await pops.pop(bench) == [], "they are hidden"
        await pops.pass_time(bench, pops.INVISIBLE_MS + 1_500)
        assert pops.bodies(bench) == [b"0", b"1"]
        bench.parts.timed_messages.close()
    async with serving(tmp_path, store, **pops.quiet()) as bench:
        await bench.parts.timed_messages.load()
        bench.clock.advance(60_000)
        await pops.pass_time(bench, 1_000)
        assert pops.bodies(bench) == [b"0", b"1"], "once"


async def test_what_comes_back_is_offered_to_the_pops_that_wait(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await pops.begin(bench, b"0")
        await pops.pop(bench)
        now_ms = bench.clock.now_ms()
        header = PopHeader("g", "T", -1, 32, pops.INVISIBLE_MS, 15_000, now_ms, 0)
        held = bench.ask_later(RequestCode.POP_MESSAGE, header)
        await bench.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
        await pops.pass_time(bench, pops.INVISIBLE_MS + 1_500)
        answer = await held
        assert answer.code == ResponseCode.SUCCESS
        assert answer.ext_fields["msgOffsetInfo"] == "1 0 0"


async def test_messages_of_a_deleted_group_do_not_come_back(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await pops.begin(bench, b"0")
        await pops.pop(bench)
        await bench.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, DeleteGroupHeader("g"))
        await pops.pass_time(bench, pops.INVISIBLE_MS + 1_500)
        assert bench.parts.topics.find(pops.RETRY) is None
        assert bench.parts.revive.wait_ms() is None


async def test_check_points_that_a_java_broker_left_are_honoured(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await pops.begin(bench, b"0", b"1", b"2")
        await bench.heartbeat("g", "T")
        revive_log = bench.parts.revive.log
        now_ms = bench.clock.now_ms()
        old = CheckPoint("T", "g", 0, 0, now_ms, pops.INVISIBLE_MS, (0, 1, 2), "broker-a")
        stored = revive_log.check_point(old, 3)
        body = b'{"bm":0,"c":"g","it":%d,"n":3,"pt":%d,"q":0,"ro":0,"so":0,"t":"T"}' % (
            pops.INVISIBLE_MS,
            now_ms,
        )
        ack = revive_log.ack(HandlePoint(old.key, old.revive_time_ms, 3), (0, 2))
        revive_log.append([stored._replace(message=stored.message._replace(body=body)), ack])
        await pops.pass_time(bench, pops.INVISIBLE_MS + 1_500)
        assert pops.bodies(bench) == [b"1"]
        assert bench.parts.offsets.committed(REVIVE_GROUP, pops.REVIVE, 3) == 1


@pytest.mark.parametrize("early_count", [0, 3])
async def test_what_is_acknowledged_in_time_is_not_even_delivered(tmp_path: Path, early_count: int) -> None:
    async with serving(tmp_path) as bench:
        await pops.begin(bench, b"0", b"1", b"2")
        handles = await pops.pop(bench)
        for handle in handles[:early_count]:
            await pops.acknowledge(bench, handle)
        await pops.pass_time(bench, 1_000)
        assert bench.parts.timed_messages.count == (0 if early_count else 1), "what is settled does not wait"
        for handle in handles[early_count:]:
            await pops.acknowledge(bench, handle)
        await pops.pass_time(bench, pops.INVISIBLE_MS + 1_500)
        assert pops.bodies(bench) == []
        assert not any(bench.store.max_queue_offset(pops.REVIVE, number) for number in range(8))
        assert bench.parts.timed_messages.count == 0


async def test_what_is_acknowledged_while_its_check_point_is_delivered_counts(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await pops.begin(bench, b"0", b"1")
        first, second = await pops.pop(bench)
        await pops.acknowledge(bench, first)
        await pops.pass_time(
            bench, pops.INVISIBLE_MS - 400
        )  # the check point has come due, and is in the revive topic
        assert sum(bench.store.max_queue_offset(pops.REVIVE, number) for number in range(8)) == 1
        await pops.acknowledge(bench, second)
        await pops.pass_time(bench, 3_000)
        assert pops.bodies(bench) == []
        assert sum(bench.store.max_queue_offset(pops.REVIVE, number) for number in range(8)) == 3


async def test_what_the_disk_refuses_is_tried_again(tmp_path: Path) -> None:
    disk = GatedDisk()
    async with serving(tmp_path, files=disk) as bench:
        await pops.begin(bench, b"0")
        await pops.pop(bench)
        assert isinstance(disk, MemoryDisk)
        topics = bench.parts.topics
        await topics.settled()
        disk.space_bytes = 0
        bench.clock.advance(pops.INVISIBLE_MS + 2_000)
        with pytest.raises((OSError, StoreNotWritable)):
            await pops.rounds(bench)
        disk.space_bytes = 2**40
        await pops.pass_time(bench, 5_000)
        assert pops.bodies(bench) == [b"0"]


async def test_a_round_waits_for_the_timer_not_for_a_time(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await pops.begin(bench, b"0")
        (handle,) = await pops.pop(bench)
        await pops.pass_time(bench, pops.INVISIBLE_MS - 500)
        await pops.acknowledge(bench, handle)
        bench.clock.advance(2_000)
        revive = bench.parts.revive
        assert revive.wait_ms() == BEHIND_TIMER_MS, "its acknowledgement is in the timer"
        await revive.round()
        await pops.pass_time(bench, 1)
        assert pops.bodies(bench) == []


async def test_an_acknowledgement_stored_just_before_a_kill_counts_after_a_long_pause(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, **pops.quiet(revive_queue_num=1)) as bench:
        await pops.begin(bench, b"0", b"1")
        (handle,) = await pops.pop(bench, 1)
        await pops.pop(bench, 1, invisible_ms=20_000)  # its check point is due behind the acknowledgement
        await pops.pass_time(bench, pops.INVISIBLE_MS - 500)
        await bench.parts.timed_messages.save()
        await pops.acknowledge(bench, handle)
        now_ms = bench.clock.now_ms()
    async with serving(tmp_path, **pops.quiet(revive_queue_num=1)) as bench:  # it is not in the timer yet
        bench.clock.advance(now_ms + 60_000 - bench.clock.now_ms())
        await bench.parts.timed_messages.load()
        await pops.rounds(bench)
        await pops.pass_time(bench, 5_000)
        assert pops.bodies(bench) == [b"1"]


async def test_an_acknowledgement_that_waits_for_the_disk_counts(tmp_path: Path) -> None:
    disk = GatedDisk()
    async with serving(tmp_path, SYNC, files=disk, **pops.quiet()) as bench:
        await pops.begin(bench, b"0", b"1")
        (handle,) = await pops.pop(bench, 1)
        await pops.pop(bench, 1)
        await pops.pass_time(bench, pops.INVISIBLE_MS - 500)
        disk.gate.clear()
        header = AckHeader("g", "T", handle.queue_id, str(handle), handle.offset)
        answer = bench.ask_later(RequestCode.ACK_MESSAGE, header)
        await bench.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
        assert bench.store.dispatched_offset < bench.store.written_offset, "it is not on the disk"
        for _ in range(4):
            bench.clock.advance(500)
            await bench.parts.timed_messages.round()
            await bench.parts.revive.round()
        disk.gate.set()
        assert (await answer).code == ResponseCode.SUCCESS
        await pops.rounds(bench)
        await pops.pass_time(bench, 5_000)
        assert pops.bodies(bench) == [b"1"]
