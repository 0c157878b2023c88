"""What a pop is answered with, and what it leaves: offsets, check points."""

from pathlib import Path
from typing import Any

import pytest
from tests.broker.conftest import SYNC, Bench, GatedDisk, serving
from tests.broker.halves import records
from tests.broker.pops import (
    INVISIBLE_MS,
    NOTHING,
    TIMER,
    check_points,
    come_back,
    committed,
    fill,
    handed,
    pop,
    pop_header,
    popped,
    stored,
)

from cometmq.broker.state.topics import PERM_WRITE
from cometmq.format import properties
from cometmq.testing.memory_disk import MemoryDisk
from cometmq.wire.bodies import GroupConfig, TopicConfig
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import ONEWAY_FLAG
from cometmq.wire.headers import PopResponseHeader, ResetOffsetHeader, TopicHeader, fields, parse


async def send(bench: Bench, *bodies: bytes, queue_id: int = 0, topic: str = "T", **named: str) -> None:
    for body in bodies:
        answer = await bench.send(topic, body, queue_id, **named)
        assert answer.code == ResponseCode.SUCCESS, answer


async def test_a_pop_hands_out_all_queues_messages_and_moves_their_offsets(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await send(bench, b"a", b"b", queue_id=3)
        await send(bench, b"c", queue_id=2)
        answer = await pop(bench)
        now = bench.clock.now_ms()
        messages = handed(answer)
        assert sorted(message.body for message in messages) == [b"a", b"b", b"c"]
        header = parse(PopResponseHeader, answer.ext_fields)
        assert (header.pop_time, header.invisible_time, header.rest_count) == (now, INVISIBLE_MS, 0)
        assert {str(message.handle) for message in messages} == {
            f"0 {now} 15000 {header.revive_queue_id} 0 broker-a {place}" for place in ("3 0", "3 1", "2 0")
        }
        assert committed(bench) == {0: 0, 1: 0, 2: 1, 3: 2}
        assert {(one.queue_id, one.offsets) for one in check_points(bench)} == {(3, (0, 1)), (2, (0,))}
        assert {(one.revive_queue_id, one.due_ms) for one in stored(bench)} == {
            (header.revive_queue_id, now + INVISIBLE_MS - 1_000)
        }
        again = await pop(bench)
        assert (again.code, again.remark) == NOTHING
        assert [message.body for message in await popped(bench, consumer_group="h")] != []


async def test_a_check_point_is_stored_as_rocketmq_stores_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await send(bench, b"a", queue_id=3, topic="TNORMAL")
        (message,) = await popped(bench, "TNORMAL", consumer_group="gnormal")
        now = message.handle.pop_time_ms
        (waiting,) = records(bench, TIMER)
        assert waiting.body.decode() == (
            '{"bm":0,"bn":"broker-a","c":"gnormal","d":[0],"it":15000,"n":1,'
            f'"pt":{now},"q":3,"reviveTime":{now + 15_000},"ro":0,"so":0,"sp":false,"t":"TNORMAL"}}'
        )
        assert properties.decode(waiting.properties) == {
            "TAGS": "ck",
            "UNIQ_KEY": f"TNORMAL@3@0@gnormal@{now}@broker-a@ck",
            "TIMER_DELIVER_MS": str(now + 14_000),
            "TIMER_OUT_MS": str((now + 14_000 - 1) // 1000 * 1000),
            "REAL_TOPIC": "rmq_sys_REVIVE_LOG_DefaultCluster",
            "REAL_QID": str(message.handle.revive_queue_id),
        }


async def test_each_pop_uses_the_next_revive_queue(tmp_path: Path) -> None:
    async with serving(tmp_path, revive_queue_num=3) as bench:
        await send(bench, *(b"%d" % n for n in range(4)))
        used = [(await popped(bench, max_msg_nums=1))[0].handle.revive_queue_id for _ in range(4)]
        assert used == [0, 1, 2, 0]


async def test_a_pop_of_one_queue_leaves_the_others_alone(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await send(bench, b"a", queue_id=1)
        await send(bench, b"b", queue_id=2)
        assert [message.body for message in await popped(bench, queue_id=2)] == [b"b"]
        assert committed(bench) == {2: 1}


async def test_no_more_than_asked_for_are_handed_out_and_the_rest_is_counted(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await send(bench, *(b"%d" % n for n in range(5)))
        await send(bench, b"x", b"y", queue_id=1)
        answer = await pop(bench, max_msg_nums=3)
        assert len(handed(answer)) == 3
        assert parse(PopResponseHeader, answer.ext_fields).rest_count == 4
        rest = await popped(bench)
        assert len(rest) == 4 and await popped(bench) == []


async def test_messages_that_a_filter_rejects_are_passed_over(tmp_path: Path) -> None:
    async with serving(tmp_path, enable_property_filter=True) as bench:
        for n in range(6):
            await send(bench, b"%d" % n, TAGS="ABC"[n % 3], n=str(n))
        messages = await popped(bench, exp="B", exp_type="TAG")
        assert [message.body for message in messages] == [b"1", b"4"]
        assert {message.handle.begin_offset for message in messages} == {0}
        assert check_points(bench)[0].distances == (1, 4)
        assert committed(bench)[0] == 6
        by_sql = await popped(bench, consumer_group="h", exp="n > 3", exp_type="SQL92")
        assert [message.body for message in by_sql] == [b"4", b"5"]
        assert await popped(bench, consumer_group="i", exp="D") == []
        assert committed(bench, group="i")[0] == 6
        assert len(await popped(bench, consumer_group="k", exp="")) == 6


@pytest.mark.parametrize(("init_mode", "expected"), [(0, [b"a", b"b", b"c"]), (1, [b"c"])])
async def test_a_new_group_begins_at_the_first_or_the_last_message(
    tmp_path: Path, init_mode: int, expected: list[bytes]
) -> None:
    async with serving(tmp_path, init_pop_offset_by_check_msg_in_mem=False) as bench:
        await send(bench, b"a", b"b", b"c")
        messages = await popped(bench, init_mode=init_mode)
        assert [message.body for message in messages] == expected


async def test_at_the_end_of_a_young_queue_a_new_group_gets_all_of_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await send(bench, b"a", b"b")
        assert len(await popped(bench, init_mode=1)) == 2


async def test_a_pop_beyond_either_end_goes_on_where_messages_are(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await send(bench, b"a", b"b")
        bench.parts.offsets.commit("g", "T", 0, 9)
        assert await popped(bench) == []
        assert committed(bench)[0] == 2
        await send(bench, b"c")
        assert [message.body for message in await popped(bench)] == [b"c"]


@pytest.mark.parametrize("flag", [1, 2])
async def test_messages_of_the_retry_topic_come_under_the_topics_name_with_their_handles(
    tmp_path: Path, flag: int
) -> None:
    async with serving(
        tmp_path, enable_retry_topic_v2=flag == 2, retrieve_message_from_pop_retry_topic_v1=False
    ) as bench:
        await bench.heartbeat("g", "T")
        retry = f"%RETRY%g{' _+'[flag]}T"
        bench.parts.topics.find_or_create(retry)
        await send(bench, b"new", topic="T")
        come_back(bench, retry, b"again", KEYS="k")
        messages = {message.body: message for message in await popped(bench)}
        again = messages[b"again"]
        assert messages.keys() == {b"new", b"again"}
        assert (again.record.topic, again.handle.retry_flag, again.place) == ("T", flag, (retry, 0, 0))
        assert properties.decode(again.record.properties)["KEYS"] == "k"
        assert "POP_CK" not in properties.decode(messages[b"new"].record.properties)
        assert committed(bench, retry) == {0: 1}
        assert retry in {one.topic for one in check_points(bench)}


async def test_messages_of_the_retry_topic_can_keep_its_name(tmp_path: Path) -> None:
    async with serving(tmp_path, pop_response_return_actual_retry_topic=True) as bench:
        bench.parts.topics.find_or_create("%RETRY%g_T")
        bench.parts.topics.find_or_create("T")
        come_back(bench, "%RETRY%g_T", b"again")
        (message,) = await popped(bench)
        assert (message.record.topic, message.handle.retry_flag) == ("%RETRY%g_T", 1)


async def test_a_fifth_of_the_pops_reads_the_retry_topic_first(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        bench.parts.topics.find_or_create("%RETRY%g_T")
        await send(bench, *[b"new"] * 200)
        come_back(bench, "%RETRY%g_T", *[b"again"] * 200)
        bench.parts.sources.random.seed(1)
        first = [(await popped(bench, max_msg_nums=1))[0].body for _ in range(200)]
        assert 20 <= first.count(b"again") <= 60


async def test_a_pop_that_must_be_refused_has_rocketmqs_code_and_a_header(tmp_path: Path) -> None:
    topics = [
        TopicConfig(topic="Unread", read_queue_count=1, write_queue_count=1, perm=PERM_WRITE),
    ]
    async with serving(tmp_path, auto_create_subscription_group=False) as bench:
        bench.parts.topics.put_all(topics)
        bench.parts.groups.put(GroupConfig(group="g"))
        bench.parts.groups.put(GroupConfig(group="closed", consume_enable=False))
        await send(bench, b"a")
        now = bench.clock.now_ms()
        for changes, code, words in (
            ({"born_time": now - 1_501, "poll_time": 1_000}, 210, "timeout too much"),
            ({"max_msg_nums": 33}, 29, "num is 33"),
            ({"max_msg_nums": 0}, 29, "num is 0"),
            ({"invisible_time": 2**40}, 29, "timerMaxDelaySec"),
            ({"order": True, "attempt_id": "x" * 257}, 29, "at most 256"),
            ({"topic": "None"}, 17, "topic[None] not exist"),
            ({"topic": "Unread"}, 16, "topic[Unread] may not be read"),
            ({"queue_id": 4}, 29, "queueId[4] is illegal"),
            ({"consumer_group": "none"}, 26, "group [none] does not exist"),
            ({"consumer_group": "closed"}, 16, "may not consume"),
            ({"exp": "||"}, 23, "names no tag"),
        ):
            answer = await bench.ask(RequestCode.POP_MESSAGE, pop_header(**{"topic": "T"} | changes))
            assert (answer.code, words in (answer.remark or "")) == (code, True), answer
            assert answer.ext_fields == fields(PopResponseHeader(0, 0, 0, 0))
        assert stored(bench) == [] and committed(bench) == {}


async def test_without_read_permission_or_the_timer_nothing_is_popped(tmp_path: Path) -> None:
    async with serving(tmp_path / "a", broker_permission=2) as bench:
        assert (await pop(bench)).code == ResponseCode.NO_PERMISSION
    async with serving(tmp_path / "b", {"timer_wheel_enable": False}) as bench:
        await send(bench, b"a")
        answer = await pop(bench)
        assert (answer.code, "timerWheelEnable" in (answer.remark or "")) == (1, True)


async def test_a_one_way_pop_hands_out_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await send(bench, b"a")
        bench.ask_later(RequestCode.POP_MESSAGE, pop_header(), flag=ONEWAY_FLAG)
        assert len(await popped(bench)) == 1


async def test_if_the_store_refuses_the_check_point_nothing_is_handed_out(tmp_path: Path) -> None:
    disk = MemoryDisk()
    async with serving(tmp_path, files=disk) as bench:
        await send(bench, b"a", b"b")
        assert await popped(bench, "T", queue_id=1) == []  # commits the group's begin
        await fill(bench, disk)
        before = len(check_points(bench))
        answer = await pop(bench)
        assert (answer.code, handed(answer)) == (ResponseCode.SERVICE_NOT_AVAILABLE, [])
        assert committed(bench)[0] == 0 and len(check_points(bench)) == before
        assert bench.parts.in_flight.count("g", "T", 0) == 0
        disk.space_bytes = 2**40
        bench.clock.advance(60_000)
        bench.store.tick()
        assert [message.body for message in await popped(bench)] == [b"a", b"b"]


async def test_under_sync_flush_the_answer_and_the_offset_wait_for_the_check_point(tmp_path: Path) -> None:
    disk = GatedDisk()
    async with serving(tmp_path, SYNC, files=disk) as bench:
        await send(bench, b"a", b"b")
        disk.gate.clear()
        first = bench.ask_later(RequestCode.POP_MESSAGE, pop_header(max_msg_nums=1))
        second = bench.ask_later(RequestCode.POP_MESSAGE, pop_header(max_msg_nums=1))
        third = await pop(bench)
        assert (third.code, third.remark) == NOTHING  # it stores nothing, so it waits for nothing
        assert not first.done() and not second.done()
        assert committed(bench)[0] == 0
        disk.gate.set()
        assert [message.body for message in handed(await first)] == [b"a"]
        assert [message.body for message in handed(await second)] == [b"b"]
        assert committed(bench)[0] == 2


async def test_how_many_messages_a_group_holds_is_counted_and_may_be_limited(tmp_path: Path) -> None:
    limited: dict[str, Any] = {"enable_pop_message_threshold": True, "pop_inflight_message_threshold": 2}
    async with serving(tmp_path, **limited) as bench:
        await send(bench, b"a", b"b", b"c")
        assert len(await popped(bench, max_msg_nums=2)) == 2
        assert bench.parts.in_flight.count("g", "T", 0) == 2
        answer = await pop(bench)
        assert (answer.code, answer.ext_fields["restNum"]) == (ResponseCode.POLLING_TIMEOUT, "1")
        bench.parts.in_flight.remove("g", "T", 0, bench.clock.now_ms())
        assert len(await popped(bench)) == 1


async def test_a_sent_handle_is_not_stored(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await send(bench, b"a", POP_CK="0 1 2 3 0 broker-b 0 0")
        (message,) = await popped(bench)
        assert message.handle.broker_name == "broker-a"
        assert "POP_CK" not in properties.decode(message.record.properties)


async def test_a_reset_moves_the_next_pop_and_clears_what_is_held(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await send(bench, b"a", b"b")
        assert len(await popped(bench)) == 2
        bench.clock.advance(1)
        reset = ResetOffsetHeader(topic="T", group="g", time=0, is_force=True, queue_id=0, offset=1)
        assert (await bench.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset)).code == 0
        assert bench.parts.in_flight.count("g", "T", 0) == 0
        assert [message.body for message in await popped(bench)] == [b"b"]
        assert committed(bench)[0] == 2


async def test_a_topic_is_deleted_with_its_retry_topics_and_offsets(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        bench.parts.topics.find_or_create("%RETRY%g_T")
        bench.parts.topics.find_or_create("%RETRY%g_U")
        await send(bench, b"a")
        come_back(bench, "%RETRY%g_T", b"again")
        assert len(await popped(bench)) == 2
        answer = await bench.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader("T"))
        assert answer.code == ResponseCode.SUCCESS
        assert bench.parts.topics.find("%RETRY%g_T") is None
        assert bench.parts.topics.find("%RETRY%g_U") is not None
        assert committed(bench) == committed(bench, "%RETRY%g_T") == {}
        assert bench.parts.in_flight.count("g", "T", 0) == 0
        await send(bench, b"new")
        assert [message.body for message in await popped(bench)] == [b"new"]
