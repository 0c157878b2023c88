"""Delayed messages: where they wait, when they come, and what a restart or a full disk makes of it."""

import shutil
from pathlib import Path

import pytest
from tests.broker.conftest import Bench, deliver, serving

from cometmq.broker.timed.schedule import LOOK_AGAIN_MS, PAUSE_MS
from cometmq.format import layout, properties, record
from cometmq.format.message_id import parse_offset_message_id
from cometmq.io.files import Disk
from cometmq.store.append import NewMessage
from cometmq.store.tables import JsonTable
from cometmq.testing.memory_disk import MemoryDisk
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.headers import SendBackHeader, TopicHeader

SCHEDULE = "SCHEDULE_TOPIC_XXXX"
SECOND_MS = 1_000
GOLDEN_SIZES = {
    "mapped_file_size_commit_log": 1 << 20,
    "mapped_file_size_consume_queue": 6_000,
    "max_hash_slot_num": 1_000,
    "max_index_num": 4_000,
}


def stored(bench: Bench, topic: str, queue_id: int = 0) -> list[record.Record]:
    return [record.decode(data) for data in bench.store.get(topic, queue_id, 0).records]


def bodies(bench: Bench, topic: str, queue_id: int = 0) -> list[bytes]:
    return [message.body for message in stored(bench, topic, queue_id)]


async def test_a_delayed_message_waits_in_its_levels_queue_and_comes_when_it_is_due(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        answer = await bench.send("T", b"late", queue_id=2, DELAY="2", TAGS="A", KEYS="k")
        assert (answer.code, answer.ext_fields["queueId"]) == (ResponseCode.SUCCESS, "2")
        deliver(bench, 5 * SECOND_MS - 1)
        assert bodies(bench, "T", 2) == [] and bodies(bench, SCHEDULE, 1) == [b"late"]
        deliver(bench, 1)
        (waited,), (message,) = stored(bench, SCHEDULE, 1), stored(bench, "T", 2)
        assert message.store_time == waited.store_time + 5 * SECOND_MS
        assert (message.body, message.born_time, message.born_host) == (
            waited.body,
            waited.born_time,
            waited.born_host,
        )
        named = properties.decode(message.properties)
        assert (named["DELAY"], named["REAL_TOPIC"], named["REAL_QID"]) == ("2", "T", "2")
        assert (named["TAGS"], named["KEYS"]) == ("A", "k")
        deliver(bench, 60 * SECOND_MS)
        assert bodies(bench, "T", 2) == [b"late"]


async def test_many_of_all_levels_come_in_their_order_each_at_its_time(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        for number in range(100):
            await bench.send("T", b"%d" % number, DELAY=str(1 + number % 3))
        for after_ms, expected in ((1, 34), (4, 67), (5, 100)):
            deliver(bench, after_ms * SECOND_MS)
            assert bench.store.max_queue_offset("T", 0) == expected
        reads = [bench.store.get("T", 0, begin).records for begin in range(0, 100, 32)]
        found = [record.decode(data).body for read in reads for data in read]
        assert found == [b"%d" % n for level in range(3) for n in range(level, 100, 3)]


async def test_a_level_above_the_highest_is_the_highest(tmp_path: Path) -> None:
    async with serving(tmp_path, {"message_delay_level": "1s 2s"}) as bench:
        await bench.send("T", b"x", DELAY="99")
        (waiting,) = stored(bench, SCHEDULE, 1)
        assert properties.decode(waiting.properties)["DELAY"] == "2"
        deliver(bench, 2 * SECOND_MS)
        assert bodies(bench, "T") == [b"x"]


async def test_what_was_given_out_is_known_after_a_restart_and_the_rest_comes_then(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T", b"first", DELAY="1")
        deliver(bench, SECOND_MS)
        await bench.send("T", b"second", DELAY="1")
        bench.parts.schedule.save()
        assert bench.parts.schedule.take_changed() is None
    async with serving(tmp_path) as bench:
        bench.clock.advance(60 * SECOND_MS)
        deliver(bench)
        assert bodies(bench, "T") == [b"first", b"second"]


async def test_without_the_table_messages_may_come_twice_but_none_is_lost(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T", b"x", DELAY="1")
        deliver(bench, SECOND_MS)
    async with serving(tmp_path) as bench:
        deliver(bench, 60 * SECOND_MS)
        assert bodies(bench, "T") == [b"x", b"x"]


async def test_a_real_brokers_table_is_read_and_written_again_equal(
    golden: dict[str, Path], tmp_path: Path
) -> None:
    root = tmp_path / "store"
    shutil.copytree(golden["store-clean"], root)
    path = layout.config_path(root, "delayOffset")
    content = path.read_text()

    async with serving(root, GOLDEN_SIZES) as bench:
        path.unlink()
        schedule = bench.parts.schedule
        JsonTable(Disk(), path).save(schedule._whole(schedule.offsets))
    assert path.read_text() == content


async def test_offsets_outside_their_queues_are_set_right(tmp_path: Path) -> None:
    path = layout.config_path(tmp_path, "delayOffset")
    path.parent.mkdir()
    path.write_text('{"offsetTable":{1:7,2:-3}}')
    async with serving(tmp_path) as bench:
        answer = await bench.ask(RequestCode.GET_ALL_DELAY_OFFSET)
        assert b'"offsetTable":{1:0,2:0}' in answer.body


async def test_on_a_full_disk_messages_wait_on() -> None:
    disk, body = MemoryDisk(), b"x" * 10_000
    async with serving(Path("/store"), files=disk) as bench:
        await bench.send("T", body, DELAY="1")
        disk.space_bytes = 0
        deliver(bench, SECOND_MS)
        assert bodies(bench, "T") == []
        disk.space_bytes = 1 << 40
        assert bench.parts.schedule.wait_ms() == PAUSE_MS
        deliver(bench, PAUSE_MS)
        assert bodies(bench, "T") == [body]


HOUR_MS = 3_600_000


@pytest.mark.parametrize("step_ms", [-HOUR_MS, -2 * SECOND_MS, HOUR_MS, 365 * 24 * HOUR_MS])
async def test_however_the_wall_clock_is_set_a_message_waits_for_its_delay_no_more_and_no_less(
    tmp_path: Path, step_ms: int
) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T", b"before", DELAY="3")
        deliver(bench, 4 * SECOND_MS)
        bench.clock.set_wall(bench.clock.now_ms() + step_ms)
        await bench.send("T", b"after", DELAY="3")
        deliver(bench, 6 * SECOND_MS - 1)
        assert bodies(bench, "T") == []
        deliver(bench, 1)
        assert bodies(bench, "T") == [b"before"]
        deliver(bench, 4 * SECOND_MS - 1)
        assert bodies(bench, "T") == [b"before"]
        deliver(bench, 1)
        assert bodies(bench, "T") == [b"before", b"after"]


async def test_a_step_that_nobody_looked_at_in_between_is_known_when_a_message_becomes_the_first(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T", b"first", DELAY="3")
        bench.clock.advance(5 * SECOND_MS)
        await bench.send("T", b"second", DELAY="3")
        deliver(bench)
        bench.clock.set_wall(bench.clock.now_ms() - HOUR_MS)
        deliver(bench, 5 * SECOND_MS)
        assert bodies(bench, "T") == [b"first"]
        deliver(bench, 5 * SECOND_MS)
        assert bodies(bench, "T") == [b"first", b"second"]


async def test_after_a_restart_with_the_clock_put_back_a_message_waits_no_longer(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        bench.clock.advance(HOUR_MS)
        await bench.send("T", b"x", DELAY="18")
    async with serving(tmp_path) as bench:
        deliver(bench)
        assert bodies(bench, "T") == [b"x"]


async def test_a_clock_put_back_by_milliseconds_makes_no_message_come_at_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T", b"x", DELAY="2")
        bench.clock.set_wall(bench.clock.now_ms() - 5)
        deliver(bench)
        assert bodies(bench, "T") == []
        deliver(bench, 5 * SECOND_MS + 5)
        assert bodies(bench, "T") == [b"x"]


async def test_a_message_is_due_by_the_levels_of_when_it_came_not_by_those_of_now(tmp_path: Path) -> None:
    async with serving(tmp_path, {"message_delay_level": "3s"}) as bench:
        await bench.send("T", b"x", DELAY="1")
    async with serving(tmp_path, {"message_delay_level": "20s"}) as bench:
        assert not (tmp_path / "setaside").exists()
        deliver(bench, 3 * SECOND_MS - 1)
        assert bodies(bench, "T") == []
        deliver(bench, 1)
        assert bodies(bench, "T") == [b"x"]


async def test_a_message_whose_level_is_gone_is_named_at_the_start_and_comes_when_it_is_due(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path, {"message_delay_level": "1s 3s 9s"}) as bench:
        for level in ("2", "3", "3"):
            await bench.send("T", b"x" + level.encode(), DELAY=level)
    async with serving(tmp_path, {"message_delay_level": "1s"}) as bench:
        assert "1 messages wait in delay level 2, and messageDelayLevel has 1 levels now" in caplog.text
        assert "2 messages wait in delay level 3" in caplog.text
        deliver(bench, 3 * SECOND_MS)
        assert bodies(bench, "T") == [b"x2"]
        deliver(bench, 6 * SECOND_MS)
        assert bodies(bench, "T") == [b"x2", b"x3", b"x3"]


async def test_after_a_kill_too_a_message_is_due_by_the_levels_of_when_it_came() -> None:
    disk, root = MemoryDisk(), Path("/disk/store")
    async with serving(root, {"message_delay_level": "3s"}, files=disk) as bench:
        await bench.send("T", b"x", DELAY="1")
        for queue in bench.store._queues:
            queue.write_back()
        killed = disk.after_kill()
    async with serving(root, {"message_delay_level": "20s"}, files=killed) as bench:
        assert not bench.store.recovered.clean and bench.store.recovered.begin == 0
        deliver(bench, 3 * SECOND_MS)
        assert bodies(bench, "T") == [b"x"]


async def test_while_nothing_is_due_there_is_nothing_to_do_and_a_message_that_comes_says_so(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as bench:
        schedule, rung = bench.parts.schedule, []
        bench.store.on_arrival_of(SCHEDULE, lambda: rung.append(1))
        deliver(bench)
        assert (schedule.wait_ms(), rung) == (None, [])
        await bench.send("T", b"now")
        assert rung == []
        await bench.send("T", b"x", DELAY="2")
        assert rung == [1]
        deliver(bench, SECOND_MS)
        assert schedule.wait_ms() == 4 * SECOND_MS
        await bench.send("T", b"x", DELAY="18")
        deliver(bench, 5 * SECOND_MS)
        assert schedule.wait_ms() == LOOK_AGAIN_MS


@pytest.mark.parametrize("where", [{}, {"REAL_TOPIC": "T"}, {"REAL_TOPIC": "T", "REAL_QID": "x"}])
async def test_one_that_does_not_say_for_whom_it_is_holds_up_no_other(
    tmp_path: Path, where: dict[str, str]
) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T", b"x", DELAY="1")
        (waiting,) = bench.store.get(SCHEDULE, 0, 0).records
        good = record.decode(waiting)
        bench.store.append([_new(good, properties.encode({"DELAY": "1"} | where))])
        await bench.send("T", b"y", DELAY="1")
        deliver(bench, SECOND_MS)
        assert bodies(bench, "T") == [b"x", b"y"]


async def test_what_a_consumer_sends_back_comes_again_after_its_delay(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        sent = await bench.send("T", b"again")
        await bench.heartbeat("cg", "T")
        at = parse_offset_message_id(sent.ext_fields["msgId"]).physical_offset
        header = SendBackHeader(physical_offset=at, group="cg", delay_level=0)
        await bench.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)
        deliver(bench, 10 * SECOND_MS - 1)
        assert bodies(bench, "%RETRY%cg") == []
        deliver(bench, 1)
        (message,) = stored(bench, "%RETRY%cg")
        assert (message.body, message.reconsume_times) == (b"again", 1)


def _new(like: record.Record, named: bytes) -> NewMessage:
    return NewMessage(SCHEDULE, 0, b"lost", named, like.born_time, like.born_host, like.store_host)


@pytest.mark.parametrize("topic", ["T", "%RETRY%g"])
async def test_what_waits_for_a_deleted_topic_is_not_in_the_one_made_anew(tmp_path: Path, topic: str) -> None:
    async with serving(tmp_path) as bench:
        await bench.heartbeat("g", "T")
        await bench.send(topic, b"old", DELAY="2")
        await bench.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader(topic))
        await bench.heartbeat("g", "T")
        await bench.send(topic, b"new", DELAY="2")
        deliver(bench, 5 * SECOND_MS)
        assert bodies(bench, topic) == [b"new"]
        assert bench.parts.schedule.offsets == {2: 2}
