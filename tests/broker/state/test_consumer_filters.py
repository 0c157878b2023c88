import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.broker.conftest import bodies, pull_header, serving
from tests.store.conftest import new_message

from cometmq.broker.state.consumer_filters import (
    COMPILED_AT_LEAST,
    COMPILED_PER_SECOND,
    RESTART_MS,
    ConsumerFilters,
)
from cometmq.errors import StoreDamaged
from cometmq.filter.bloom import BloomFilter, bits_of, unpack
from cometmq.format import properties
from cometmq.io.clock import ManualClock
from cometmq.io.files import Disk
from cometmq.store.tables import JsonTable
from cometmq.wire.bodies import ConsumerData, Heartbeat, SubscriptionData
from cometmq.wire.codes import RequestCode

DAY_MS = 24 * 3_600_000
REAL = """{
	"filterDataByTopic":{
		"TopicC":{
			"groupFilterData":{
				"cg3":{
					"bloomFilterData":{
						"bitNum":112,
						"bitPos":[21,54,18]
					},
					"bornTime":1795242909437,
					"clientVersion":1795242910374,
					"consumerGroup":"cg3",
					"dead":true,
					"deadTime":1795242982670,
					"expression":"a > 1",
					"expressionType":"SQL92",
					"topic":"TopicC"
				}
			},
			"topic":"TopicC"
		}
	}
}"""


def load(directory: Path, clock: ManualClock, *, expected: int = 32) -> ConsumerFilters:
    table = JsonTable(Disk(), directory / "consumerFilter.json")
    filters = ConsumerFilters(table, clock, BloomFilter(20, expected), keep_ms=DAY_MS)
    filters.load()
    return filters


def wanted(expression: str = "a > 1", version: int = 1, topic: str = "T") -> SubscriptionData:
    return SubscriptionData(topic, expression, "SQL92", version)


def test_a_real_brokers_filters_are_read_and_written_again_equal(tmp_path: Path) -> None:
    path = tmp_path / "consumerFilter.json"
    path.write_text(REAL)
    filters = load(tmp_path, ManualClock(1_795_242_983_000))
    known = filters.find("TopicC", "cg3")
    assert known is not None and known.is_dead
    assert known.bits == bits_of([21, 54, 18])
    assert known.compiled.matches({"a": "2"})
    path.unlink()
    filters.save()
    assert path.read_text() == REAL


def test_a_newer_version_with_another_expression_is_born_anew(tmp_path: Path) -> None:
    clock = ManualClock()
    filters = load(tmp_path, clock)
    filters.register("g", [wanted(version=5)])
    born = clock.now_ms()
    clock.advance(10)
    filters.register("g", [wanted("a > 2", version=5)])
    filters.register("g", [wanted("a > 2", version=4)])
    known = filters.find("T", "g")
    assert known is not None and (known.data.expression, known.data.born_time) == ("a > 1", born)
    filters.register("g", [wanted(version=6)])
    known = filters.find("T", "g")
    assert known is not None and (known.data.client_version, known.data.born_time) == (6, born)
    filters.register("g", [wanted("a > 2", version=7)])
    known = filters.find("T", "g")
    assert known is not None and (known.data.expression, known.data.born_time) == ("a > 2", born + 10)
    filters.register("g", [wanted("a >", version=8)])
    assert filters.find("T", "g") is None


def test_only_filters_that_are_none_by_tags_and_mean_something_are_known(tmp_path: Path) -> None:
    filters = load(tmp_path, ManualClock())
    filters.register("g", [SubscriptionData("T"), wanted("", topic="U"), wanted("a >", topic="V")])
    assert [filters.find(topic, "g") for topic in "TUV"] == [None, None, None]
    assert filters.take_changed() is None


def test_a_topic_left_out_and_a_group_without_members_are_dead_until_they_come_again(tmp_path: Path) -> None:
    clock = ManualClock()
    filters = load(tmp_path, clock)
    filters.register("g", [wanted(topic="T"), wanted(topic="U")])
    clock.advance(10)
    filters.register("g", [wanted(topic="T")])
    assert [known.is_dead for topic in "TU" for known in filters.of_topic(topic)] == [False, True]
    filters.unregister("g")
    assert [known.is_dead for topic in "TU" for known in filters.of_topic(topic)] == [True, True]
    filters.register("g", [wanted(topic="T"), wanted(topic="U", version=2)])
    assert [known.is_dead for topic in "TU" for known in filters.of_topic(topic)] == [False, False]


def test_who_has_been_dead_for_a_day_is_forgotten(tmp_path: Path) -> None:
    clock = ManualClock()
    filters = load(tmp_path, clock)
    filters.register("g", [wanted()])
    filters.register("h", [wanted()])
    filters.unregister("g")
    clock.advance(DAY_MS - 1)
    filters.save()
    assert filters.find("T", "g")
    clock.advance(1)
    filters.save()
    assert filters.find("T", "g") is None and filters.find("T", "h")
    filters.unregister("h")
    clock.advance(DAY_MS)
    filters.save()
    assert json.loads((tmp_path / "consumerFilter.json").read_text()) == {"filterDataByTopic": {}}


@pytest.mark.parametrize("step_ms", [10 * DAY_MS, -10 * DAY_MS])
def test_a_wall_clock_that_is_set_forgets_nobody_early_or_late(tmp_path: Path, step_ms: int) -> None:
    clock = ManualClock()
    filters = load(tmp_path, clock)
    filters.register("g", [wanted()])
    clock.set_wall(clock.now_ms() + step_ms)
    filters.unregister("g")
    (known,) = filters.of_topic("T")
    assert known.is_dead
    clock.advance(DAY_MS - 1)
    clock.set_wall(clock.now_ms() + step_ms)
    filters.save()
    assert filters.find("T", "g") is not None
    clock.advance(1)
    filters.save()
    assert filters.find("T", "g") is None


def test_after_a_restart_all_are_taken_for_dead(tmp_path: Path) -> None:
    clock = ManualClock()
    first = load(tmp_path, clock)
    first.register("old", [wanted()])
    clock.advance(RESTART_MS + 5)
    first.register("young", [wanted()])
    first.save()
    again = load(tmp_path, clock)
    dead = {known.data.group: known.data.dead_time for known in again.of_topic("T")}
    assert dead == {"old": clock.now_ms() - RESTART_MS, "young": clock.now_ms()}
    assert all(known.is_dead for known in again.of_topic("T"))


def test_a_bloom_filter_of_another_size_makes_all_forgotten(tmp_path: Path) -> None:
    first = load(tmp_path, ManualClock())
    first.register("g", [wanted()])
    first.save()
    assert load(tmp_path, ManualClock(), expected=64).find("T", "g") is None
    assert load(tmp_path, ManualClock()).find("T", "g")


def test_a_file_of_something_else_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "consumerFilter.json").write_text('{"filterDataByTopic":[1]}')
    with pytest.raises(StoreDamaged, match="consumerFilter"):
        load(tmp_path, ManualClock())


def test_a_bitmap_says_which_filters_a_message_passes(tmp_path: Path) -> None:
    filters = load(tmp_path, ManualClock())
    message = new_message("T")._replace(properties=properties.encode({"a": "2"}))
    assert filters.bitmap(message) == b""
    filters.register("small", [wanted("a < 2")])
    assert filters.bitmap(message) == bytes(14)
    filters.register("large", [wanted("a > 1")])
    small, large = (filters.find("T", group) for group in ("small", "large"))
    assert small is not None and large is not None
    bitmap = filters.bitmap(message)
    assert unpack(bitmap) == large.bits
    later = large.data.born_time + 1
    assert large.may_match(later, bitmap) and not small.may_match(later, bitmap)
    assert small.may_match(small.data.born_time, bitmap), "the message may be older than the filter"
    assert small.may_match(later, b"") and small.may_match(later, bytes(15))


def test_no_filter_is_born_before_a_message_that_lacks_its_bits(tmp_path: Path) -> None:
    table = JsonTable(Disk(), tmp_path / "consumerFilter.json")
    clock = ManualClock()
    stored = clock.now_ms() + 50  # and then the clock was put back
    filters = ConsumerFilters(table, clock, BloomFilter(20, 32), keep_ms=DAY_MS, stored_time=lambda: stored)
    filters.register("g", [wanted()])
    known = filters.find("T", "g")
    assert known is not None and known.data.born_time == stored


def test_after_a_kill_no_older_bitmap_is_asked(tmp_path: Path) -> None:
    clock = ManualClock()
    first = load(tmp_path, clock)
    first.register("g", [wanted()])
    first.save()
    clock.advance(1_000)
    table = JsonTable(Disk(), tmp_path / "consumerFilter.json")
    again = ConsumerFilters(table, clock, BloomFilter(20, 32), keep_ms=DAY_MS)
    again.load(trusted=False)
    known = again.find("T", "g")
    assert known is not None and known.is_dead
    assert known.may_match(clock.now_ms(), bytes(14)) and not known.may_match(clock.now_ms() + 1, bytes(14))


async def test_a_pull_looks_only_at_messages_that_the_bitmaps_let_pass(tmp_path: Path) -> None:
    extended = {"enable_consume_queue_ext": True, "mapped_file_size_consume_queue_ext": 4_096}

    async with serving(
        tmp_path, extended, enable_property_filter=True, enable_calc_filter_bit_map=True
    ) as bench:
        await bench.send("T", b"before", a="2")
        bench.clock.advance(10)
        beat = Heartbeat("c", consumers=[ConsumerData("cg", subscriptions=[wanted()])])
        await bench.ask(RequestCode.HEART_BEAT, body=beat)
        bench.clock.advance(10)
        for number in range(6):
            await bench.send("T", b"%d" % number, a=str(number))
        header = replace(pull_header("T"), sys_flag=0, subscription=None)
        answer = await bench.ask(RequestCode.PULL_MESSAGE, header)
        assert bodies(answer) == [b"before", b"2", b"3", b"4", b"5"]
        known = bench.parts.filters.find("T", "cg")
        queue = bench.store._queues.find("T", 0)
        assert known is not None and queue is not None and queue.ext is not None
        units = [queue.ext.get(queue.entry(offset).tags_code) for offset in range(7)]
        passed = [known.may_match(unit.store_time, unit.bitmap) for unit in units if unit is not None]
        assert passed == [True, False, False, True, True, True, True]


def test_many_new_filters_wait_for_later_heartbeats(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock(1_000)
    filters = load(tmp_path, clock)
    beat = [wanted(f"a = {number} OR b = 'waits for later'", topic=f"T{number}") for number in range(1_000)]
    filters.register("G", beat)
    known = sum(filters.find(one.topic, "G") is not None for one in beat)
    assert known == COMPILED_PER_SECOND // COMPILED_AT_LEAST + 1
    assert "waits for the next heartbeat: more than 32768 characters of new filters" in caplog.text
    for _ in range(3):
        clock.advance(1_000)
        filters.register("G", beat)
    assert all(filters.find(one.topic, "G") for one in beat)
