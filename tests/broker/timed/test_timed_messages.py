"""Timed messages: when they come, how they wait, and that a stop, a kill or a loss of power loses none."""

import asyncio
import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.broker.conftest import GatedDisk, serving
from tests.broker.halves import end, prepare, records
from tests.kit.timed_messages import TIMER, delivered, pass_time, send

from cometmq.broker.state.pop.handles import HandlePoint
from cometmq.broker.timed.timed_messages import LOOK_AGAIN_MS, MADE_BEFORE_MS, SETTLING_MS
from cometmq.errors import StoreNotWritable
from cometmq.format import layout, properties
from cometmq.format.pop.check_point import CheckPoint
from cometmq.format.timer.checkpoint import TimerCheckpoint
from cometmq.store.append import Appended, NewMessage
from cometmq.testing.memory_disk import MemoryDisk
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.headers import SendBackHeader, TopicHeader


async def test_a_message_comes_when_it_is_due(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.parts.timed_messages.load()
        now = bench.clock.now_ms()
        await send(bench, b"later", TIMER_DELAY_SEC="10")
        await send(bench, b"sooner", TIMER_DELAY_MS="4500")
        await send(bench, b"at", TIMER_DELIVER_MS=str(now + 7_000))
        await send(bench, b"passed", TIMER_DELIVER_MS=str(now - 1))
        assert delivered(bench) == [b"passed"]
        await pass_time(bench, 4_000)
        assert delivered(bench) == [b"passed"]
        await pass_time(bench, 1_000)
        assert delivered(bench) == [b"passed", b"sooner"]
        await pass_time(bench, 6_000)
        assert delivered(bench) == [b"passed", b"sooner", b"at", b"later"]
        message = records(bench, "T", 2)[-1]
        named = properties.decode(message.properties)
        assert (named["TIMER_DELAY_SEC"], named["REAL_TOPIC"], named["REAL_QID"]) == ("10", "T", "2")
        out_ms = int(named["TIMER_OUT_MS"])
        assert out_ms == (now + 10_000 - 1) // 1000 * 1000
        assert out_ms + 1_000 <= int(named["TIMER_DEQUEUE_MS"]) <= out_ms + 2_000
        assert int(named["TIMER_ENQUEUE_MS"]) // 1000 in (now // 1000, now // 1000 + 1)


async def test_a_unique_key_alone_recalls_one_of_its_own_topic_only(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.parts.timed_messages.load()
        due = str(bench.clock.now_ms() + 5_000)
        for topic in ("T", "U"):
            await send(bench, topic.encode(), topic=topic, UNIQ_KEY="same", TIMER_DELIVER_MS=due)
        await send(bench, b"recall", TIMER_DEL_UNIQKEY="same", TIMER_DELIVER_MS=due)
        await pass_time(bench, 8_000)
        assert (delivered(bench, "T"), delivered(bench, "U")) == ([], [b"U"])


async def test_one_that_waits_for_a_deleted_topic_is_not_in_the_one_made_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path, {"timer_roll_window_slot": 20}) as bench:
        await bench.parts.timed_messages.load()
        for number in range(3):
            await send(bench, b"old", UNIQ_KEY=f"old{number}", TIMER_DELAY_SEC=str(5 + 30 * number))
        await pass_time(bench, 1_000)
        await bench.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader("T"))
        await send(bench, b"new", TIMER_DELAY_SEC="5")
        await pass_time(bench, 120_000)
        assert delivered(bench) == [b"new"]
        (warning,) = [text for text in caplog.messages if "messages waited for it" in text]
        assert warning.startswith("topic T was deleted while messages waited for it: they are left out")


async def test_one_that_is_recalled_does_not_come_and_others_do(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.parts.timed_messages.load()
        due = str(bench.clock.now_ms() + 5_000)
        await send(bench, b"wanted", UNIQ_KEY="a", TIMER_DELIVER_MS=due)
        await send(bench, b"recalled", UNIQ_KEY="b", TIMER_DELIVER_MS=due)
        await send(bench, b"another topic's", topic="U", UNIQ_KEY="b", TIMER_DELIVER_MS=due)
        await send(bench, b"recall", TIMER_DEL_UNIQKEY="T+b", TIMER_DELIVER_MS=due)
        await pass_time(bench, 8_000)
        assert delivered(bench) == [b"wanted"]
        assert delivered(bench, "U") == [b"another topic's"]


async def test_one_is_recalled_by_its_unique_key_alone_too_and_in_its_second_only(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.parts.timed_messages.load()
        due = bench.clock.now_ms() + 5_000
        await send(bench, b"wanted", UNIQ_KEY="a", TIMER_DELIVER_MS=str(due))
        await send(bench, b"recalled", UNIQ_KEY="b", TIMER_DELIVER_MS=str(due))
        await send(bench, b"of another second", UNIQ_KEY="b", TIMER_DELIVER_MS=str(due + 1_000))
        await send(bench, b"recall", TIMER_DEL_UNIQKEY="b", TIMER_DELIVER_MS=str(due))
        await pass_time(bench, 8_000)
        assert delivered(bench) == [b"wanted", b"of another second"]


async def test_one_that_waits_in_stages_is_recalled_too(tmp_path: Path) -> None:
    async with serving(tmp_path, {"timer_roll_window_slot": 3}) as bench:
        await bench.parts.timed_messages.load()
        due = str(bench.clock.now_ms() + 10_000)
        await send(bench, b"wanted", UNIQ_KEY="a", TIMER_DELIVER_MS=due)
        await send(bench, b"recalled", UNIQ_KEY="b", TIMER_DELIVER_MS=due)
        await pass_time(bench, 4_000)
        await send(bench, b"recall", TIMER_DEL_UNIQKEY="T+b", TIMER_DELIVER_MS=due)
        await pass_time(bench, 8_000)
        assert delivered(bench) == [b"wanted"]


async def test_what_is_far_off_waits_in_stages_and_comes_when_it_is_due(tmp_path: Path) -> None:
    async with serving(tmp_path, {"timer_roll_window_slot": 3}) as bench:
        await bench.parts.timed_messages.load()
        await send(bench, b"x", TIMER_DELAY_SEC="10")
        await pass_time(bench, 9_000)
        assert delivered(bench) == []
        await pass_time(bench, 2_000)
        assert delivered(bench) == [b"x"]
        named = properties.decode(records(bench, "T", 2)[0].properties)
        stages = len(records(bench, TIMER)) - 1
        assert int(named["TIMER_ROLL_TIMES"]) == stages == 2


async def test_what_is_sent_back_by_its_consumer_does_not_wait_again_for_its_time(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.parts.timed_messages.load()
        await send(bench, b"x", TIMER_DELAY_SEC="5")
        await pass_time(bench, 7_000)
        (came,) = records(bench, "T", 2)
        await bench.heartbeat("g", "T")
        back = SendBackHeader(came.physical_offset, "g", 1, origin_topic="T")
        answer = await bench.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)
        assert answer.code == ResponseCode.SUCCESS, answer
        assert len(records(bench, TIMER)) == 1
        assert [one.body for one in records(bench, "SCHEDULE_TOPIC_XXXX", 0)] == [b"x"]


async def test_a_transaction_s_message_waits_from_its_commit(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.parts.timed_messages.load()
        half = await prepare(bench, TIMER_DELAY_SEC="5")
        await pass_time(bench, 10_000)
        assert delivered(bench) == []
        await end(bench, half)
        await pass_time(bench, 4_000)
        assert delivered(bench) == []
        await pass_time(bench, 2_000)
        assert delivered(bench) == [b"x"]


async def test_on_a_full_disk_messages_wait_on_and_come_when_there_is_room() -> None:
    disk, body = MemoryDisk(), b"x" * 10_000
    async with serving(Path("/disk/store"), files=disk) as bench:
        timed = bench.parts.timed_messages
        await timed.load()
        await send(bench, body, TIMER_DELAY_SEC="2")
        await timed.round()
        disk.space_bytes = 0
        with pytest.raises((OSError, StoreNotWritable)):
            await pass_time(bench, 3_000)
        assert delivered(bench) == [] and timed.wait_ms() != 0
        disk.space_bytes = 1 << 40
        await pass_time(bench, 1_000)
        assert delivered(bench) == [body]


@pytest.mark.parametrize("wait", ["x", "99999999", "9" * 30])
async def test_a_time_that_makes_no_sense_is_refused_and_not_stored(tmp_path: Path, wait: str) -> None:
    async with serving(tmp_path) as bench:
        answer = await bench.send("T", TIMER_DELAY_SEC=wait)
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert "TIMER_DELAY_SEC" in str(answer.remark)
        assert bench.store.max_queue_offset(TIMER, 0) == 0


async def test_a_broker_without_a_timer_refuses_them(tmp_path: Path) -> None:
    async with serving(tmp_path, {"timer_wheel_enable": False}) as bench:
        answer = await bench.send("T", TIMER_DELAY_SEC="3")
        assert (answer.code, "timerWheelEnable" in str(answer.remark)) == (1, True)
        assert (await bench.send("T")).code == ResponseCode.SUCCESS


async def test_a_round_that_is_stopped_gives_out_no_more_and_the_next_start_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_of_them = [b"%d" % number for number in range(100)]

    async with serving(tmp_path) as bench:
        timed, append = bench.parts.timed_messages, bench.store.append
        await timed.load()
        for body in all_of_them:
            await send(bench, body, TIMER_DELAY_SEC="2")
        await timed.round()

        def append_and_stop(messages: Sequence[NewMessage]) -> list[Appended]:
            timed.stop()
            return append(messages)

        monkeypatch.setattr(bench.store, "append", append_and_stop)
        bench.clock.advance(4_000)
        await timed.round()
        assert delivered(bench) == all_of_them[:32]
        timed.close()
        passed_ms = bench.clock.now_ms()
    async with serving(tmp_path) as bench:
        bench.clock.set_wall(passed_ms)
        await bench.parts.timed_messages.load()
        await pass_time(bench, 2_000)
        assert delivered(bench) == all_of_them[:32] + all_of_them  # a slot comes as a whole


async def test_a_topic_that_was_made_anew_is_read_from_its_begin(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.parts.timed_messages.load()
        for _ in range(3):
            await send(bench, b"old", TIMER_DELAY_SEC="60")
        await pass_time(bench, 0)
        bench.store.delete_topic(TIMER)
        await send(bench, b"new", TIMER_DELAY_SEC="3")
        await pass_time(bench, 5_000)
        assert delivered(bench) == [b"new"]


async def test_what_another_has_put_into_the_timer_topic_stops_nobody(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.parts.timed_messages.load()
        host = bytes(8)
        for named in (
            {},
            {"REAL_TOPIC": "T"},
            {"REAL_TOPIC": "T", "REAL_QID": "x"},
            {"REAL_TOPIC": "x" * 300, "REAL_QID": "0"},
            {"REAL_TOPIC": "RMQ_SYS_TRANS_HALF_TOPIC", "REAL_QID": "0"},
            {"TIMER_OUT_MS": "x", "REAL_TOPIC": "T", "REAL_QID": "2"},
        ):
            data = properties.encode(named)
            bench.store.append([NewMessage(TIMER, 0, b"strange", data, 0, host, host, None)])
        await send(bench, b"good", TIMER_DELAY_SEC="1")
        await pass_time(bench, 3_000)
        assert sorted(delivered(bench)) == [b"good", b"strange"]


async def test_what_could_not_be_saved_is_saved_by_the_next() -> None:
    disk, path = GatedDisk(), layout.timer_checkpoint_path(Path("/disk/store"))
    async with serving(Path("/disk/store"), files=disk) as bench:
        timed = bench.parts.timed_messages
        await timed.load()
        await send(bench, b"x", TIMER_DELAY_SEC="60")
        await timed.round()
        await asyncio.wrap_future(bench.store.wait_flushed())
        disk.fails = True
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            await timed.save()
        assert not disk.exists(path)
        disk.fails = False
        await timed.save()
        assert TimerCheckpoint.unpack(disk.load(path)).queue_offset == 1


async def test_who_asks_is_told_how_long_there_is_nothing_to_do(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        timed = bench.parts.timed_messages
        await timed.load()
        assert timed.wait_ms() is None
        await send(bench, TIMER_DELAY_SEC="5")
        assert timed.wait_ms() == 0
        await timed.round()
        assert 4_000 <= (timed.wait_ms() or 0) <= 6_000
        await pass_time(bench, 6_000)
        assert (timed.wait_ms(), delivered(bench)) == (None, [b"x"])
        await send(bench, TIMER_DELAY_SEC="3600")
        await timed.round()
        assert timed.wait_ms() == LOOK_AGAIN_MS


async def test_new_ones_are_added_together_unless_others_are_due_before(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        timed = bench.parts.timed_messages
        await timed.load()
        await send(bench, b"1", TIMER_DELAY_SEC="1")
        assert timed.wait_ms() == 0
        await timed.round()
        await send(bench, b"2", TIMER_DELAY_SEC="5")
        assert (timed.wait_ms(), timed.behind) == (100, 1)
        bench.clock.advance(60)
        await send(bench, b"3", TIMER_DELAY_SEC="5")
        assert (timed.wait_ms(), timed.behind) == (40, 2)
        bench.clock.advance(40)
        assert timed.wait_ms() == 0
        await timed.round()
        assert (timed.behind, timed.count) == (0, 3)
        bench.clock.advance((timed.wait_ms() or 0) - 50)
        await timed.round()
        await send(bench, b"4", TIMER_DELAY_MS="50")
        assert timed.wait_ms() == 50, "then the first one is due"
        bench.clock.advance(50)
        await timed.round()
        assert (delivered(bench), timed.behind) == ([b"1", b"4"], 0), "that was added before its slot was due"


async def test_a_round_ends_though_more_arrive_all_the_time(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        timed = bench.parts.timed_messages
        await timed.load()
        arriving = NewMessage(TIMER, 0, b"x", b"", 0, bytes(8), bytes(8), None)
        bench.store.append([arriving])
        round_under_way = asyncio.create_task(timed.round())
        for _ in range(100):
            bench.store.append([arriving])
            await asyncio.sleep(0)  # a turn of the loop
        assert round_under_way.done()
        await round_under_way


async def test_a_check_point_and_what_is_behind_it_are_held_back_for_a_moment(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        timed, log, began_ms = bench.parts.timed_messages, bench.parts.revive.log, bench.clock.now_ms()
        await timed.load()
        await send(bench, b"before", TIMER_DELAY_SEC="60")
        bench.clock.advance(1)
        points = [CheckPoint("T", "g", 0, n, began_ms, 60_000, (0,), "broker-a") for n in range(2)]
        handles = [HandlePoint(point.key, point.revive_time_ms, 0) for point in points]
        log.append([log.check_point(point, 0) for point in points])
        log.append([log.ack(handles[0], (0,))])
        await send(bench, b"behind", TIMER_DELAY_SEC="60")
        await timed.round()
        assert (timed.count, timed.behind) == (1, 3), "the first check point is settled"
        delivered_ms = began_ms + 1 - MADE_BEFORE_MS
        assert timed.delivered_ms() == delivered_ms
        bench.clock.advance(SETTLING_MS - 1)
        await timed.round()
        assert (timed.count, timed.behind, timed.delivered_ms()) == (1, 3, delivered_ms)
        log.append([log.ack(handles[1], (1,))])
        await timed.round()
        assert (timed.count, timed.behind, timed.delivered_ms()) == (2, 0, bench.clock.now_ms())
        log.append([log.check_point(points[1]._replace(begin_offset=7), 0)])
        bench.clock.advance(SETTLING_MS)
        await timed.round()
        assert (timed.count, timed.behind) == (3, 0), "a consumer that takes longer gets it back in time"


async def test_when_the_wall_clock_is_set_back_nothing_is_held_back_until_that_time(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        timed, log, now_ms = bench.parts.timed_messages, bench.parts.revive.log, bench.clock.now_ms()
        await timed.load()
        log.append([log.check_point(CheckPoint("T", "g", 0, 0, now_ms, 60_000, (0,), "broker-a"), 0)])
        bench.clock.set_wall(now_ms - 3_600_000)
        await timed.round()
        assert (timed.count, timed.behind) == (1, 0)


async def test_timed_messages_are_appointments_by_the_wall_clock(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.parts.timed_messages.load()
        await send(bench, TIMER_DELAY_SEC="60")
        await pass_time(bench, 1_000)
        bench.clock.set_wall(bench.clock.now_ms() - 30_000)
        await pass_time(bench, 61_000)
        assert delivered(bench) == []
        bench.clock.set_wall(bench.clock.now_ms() + 30_000)
        await pass_time(bench, 1_000)
        assert delivered(bench) == [b"x"]
