import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.broker.conftest import Bench, deliver, pull_header, serving
from tests.broker.halves import records
from tests.broker.pops import ack, popped
from tests.kit.brokers import sample

from cometmq.broker.admin import statistics
from cometmq.wire.bodies import TopicConfig
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import SendBackHeader
from cometmq.wire.headers.admin import StatisticHeader

VIEW = RequestCode.VIEW_BROKER_STATS_DATA
PULL = RequestCode.PULL_MESSAGE
CLUSTER = "DefaultCluster"
NOTHING = {"avgpt": 0.0, "sum": 0, "tps": 0.0}
SIZES = {"mapped_file_size_consume_queue": 20 * 10_000}


async def view(bench: Bench, name: str, key: str) -> Command:
    return await bench.ask(VIEW, StatisticHeader(name, key))


async def minute(bench: Bench, name: str, key: str) -> Mapping[str, Any]:
    answer = await view(bench, name, key)
    assert answer.code == ResponseCode.SUCCESS, answer
    found: Mapping[str, Any] = json.loads(answer.body)["statsMinute"]
    return found


async def total(bench: Bench, name: str, key: str) -> int:
    found: int = (await minute(bench, name, key))["sum"]
    return found


async def pull(bench: Bench, topic: str, offset: int, queue_id: int = 0, group: str = "cg") -> None:
    answer = await bench.ask(PULL, pull_header(topic, offset, queue_id=queue_id, group=group))
    assert answer.code == ResponseCode.SUCCESS


async def test_the_body_is_the_one_that_the_tools_read(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        for _ in range(4):
            await bench.send("T")
        await sample(bench)
        answer = await view(bench, "TOPIC_PUT_NUMS", "T")
        assert answer.body == (
            b'{"statsDay":{"avgpt":0.0,"sum":0,"tps":0.0},"statsHour":{"avgpt":0.0,"sum":0,"tps":0.0},'
            b'"statsMinute":{"avgpt":1.0,"sum":4,"tps":0.4}}'
        )


async def test_what_was_never_counted_does_not_exist(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T")
        await sample(bench)
        for name, key in (
            ("TOPIC_PUT_NUMS", "Other"),
            ("TOPIC_PUT_NUMS", "T@0"),
            ("QUEUE_PUT_NUMS", "T@1"),
            ("QUEUE_PUT_NUMS", "T"),
            ("GROUP_GET_NUMS", "T@cg"),
            ("QUEUE_GET_NUMS", "T@0@cg"),
            ("BROKER_PUT_NUMS", "OtherCluster"),
            ("BROKER_GET_NUMS", CLUSTER),
            ("NO_SUCH_NUMS", "T"),
        ):
            answer = await view(bench, name, key)
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert answer.remark == f"The stats <{name}> <{key}> not exist"


async def test_messages_and_bytes_are_counted_by_topic_queue_and_broker(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T", b"old")
        begin = bench.store.written_offset
    async with serving(tmp_path) as bench:
        for queue_id in (0, 0, 1):
            await bench.send("T", bytes(100), queue_id)
        await bench.send("U")
        end_of_t = bench.store.read_record(begin)
        assert end_of_t is not None
        await sample(bench)
        assert await total(bench, "TOPIC_PUT_NUMS", "T") == 3, "not what was there before"
        assert await total(bench, "QUEUE_PUT_NUMS", "T@0") == 2
        assert await total(bench, "TOPIC_PUT_NUMS", "U") == 1
        assert await total(bench, "BROKER_PUT_NUMS", CLUSTER) == 4
        sizes = [await total(bench, "TOPIC_PUT_SIZE", topic) for topic in "TU"]
        assert sum(sizes) == bench.store.written_offset - begin
        of_queues = [await minute(bench, "QUEUE_PUT_SIZE", f"T@{queue_id}") for queue_id in (0, 1)]
        assert [one["sum"] for one in of_queues] == [2 * len(end_of_t), len(end_of_t)]
        assert of_queues[0]["avgpt"] == len(end_of_t), "bytes of a message"


async def test_what_a_group_pops_is_counted_once_from_where_it_began(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        bench.parts.topics.put(TopicConfig("T", 1, 1))
        for _ in range(5):
            await bench.send("T", bytes(100))
        held = await popped(bench, max_msg_nums=2)
        held += await popped(bench, max_msg_nums=2)
        await ack(bench, held[0])
        await sample(bench)
        assert await total(bench, "GROUP_GET_NUMS", "T@g") == 4
        assert await total(bench, "QUEUE_GET_NUMS", "T@0@g") == 4
        sizes = sum(len(bench.store.read_record(one.record.physical_offset) or b"") for one in held)
        assert await total(bench, "GROUP_GET_SIZE", "T@g") == sizes > 400
        assert await total(bench, "BROKER_GET_NUMS", CLUSTER) == 4
        await sample(bench)
        assert await total(bench, "GROUP_GET_NUMS", "T@g") == 4


async def test_what_a_group_pulls_is_counted_from_where_it_began(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        for _ in range(5):
            await bench.send("T")
        await pull(bench, "T", 0)
        await sample(bench)
        assert await total(bench, "GROUP_GET_NUMS", "T@cg") == 5
        assert await total(bench, "QUEUE_GET_NUMS", "T@0@cg") == 5
        assert await total(bench, "GROUP_GET_SIZE", "T@cg") == bench.store.written_offset
        assert await total(bench, "BROKER_GET_NUMS", CLUSTER) == 5
        await bench.send("T")
        await pull(bench, "T", 5)
        await sample(bench)
        assert await total(bench, "GROUP_GET_NUMS", "T@cg") == 6
        bench.parts.offsets.commit("cg", "T", 0, 6)
        for _ in range(2):
            await bench.send("T")
    async with serving(tmp_path) as bench:
        await pull(bench, "T", 6)
        await sample(bench)
        assert await total(bench, "GROUP_GET_NUMS", "T@cg") == 2, "from its committed offset"


async def test_only_messages_that_the_groups_tags_select_count_for_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.heartbeat("cg", "T", tags="A")
        sizes = {}
        for tag in "ABABB":
            begin = bench.store.written_offset
            await bench.send("T", TAGS=tag)
            sizes[tag] = bench.store.written_offset - begin
        await bench.ask(PULL, pull_header("T", tags="A"))
        await sample(bench)
        assert await total(bench, "GROUP_GET_NUMS", "T@cg") == 2
        assert await total(bench, "GROUP_GET_SIZE", "T@cg") == 2 * sizes["A"]
        assert await total(bench, "BROKER_GET_NUMS", CLUSTER) == 2


async def test_a_jump_of_a_group_counts_at_most_as_what_was_delivered(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        for _ in range(40):
            await bench.send("T")
        await pull(bench, "T", 38, group="late")
        await pull(bench, "T", 0, group="jumps")
        await sample(bench)
        assert (await view(bench, "GROUP_GET_NUMS", "T@late")).code == ResponseCode.SYSTEM_ERROR
        assert await total(bench, "GROUP_GET_NUMS", "T@jumps") == 32
        await bench.send("T")
        await pull(bench, "T", 40, group="jumps")
        await pull(bench, "T", 40, group="late")
        await sample(bench)
        assert await total(bench, "GROUP_GET_NUMS", "T@jumps") == 34, "9 on, but 2 were delivered"
        assert await total(bench, "GROUP_GET_NUMS", "T@late") == 1
        await pull(bench, "T", 0, group="jumps")
        await sample(bench)
        assert await total(bench, "GROUP_GET_NUMS", "T@jumps") == 34, "a step back"


async def test_the_size_of_many_messages_is_estimated_by_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "EXACT_MAX", 2)
    async with serving(tmp_path) as bench:
        for length in (500, 500, 100, 100):
            begin = bench.store.written_offset
            await bench.send("T", bytes(length))
        size = bench.store.written_offset - begin
        await sample(bench)
        assert await total(bench, "TOPIC_PUT_NUMS", "T") == 4
        assert await total(bench, "TOPIC_PUT_SIZE", "T") == 4 * size


async def test_samples_of_ten_seconds_ten_minutes_and_an_hour_are_kept(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await sample(bench, 3)
        await bench.send("T")
        await sample(bench)
        await bench.send("T")
        await sample(bench, 2)
        assert await minute(bench, "TOPIC_PUT_NUMS", "T") == {"avgpt": 1.0, "sum": 2, "tps": 2 / 30}
        await sample(bench, 3)
        assert await total(bench, "TOPIC_PUT_NUMS", "T") == 2, "seven samples span a minute"
        await sample(bench)
        assert await total(bench, "TOPIC_PUT_NUMS", "T") == 1
        await sample(bench)
        assert await minute(bench, "TOPIC_PUT_NUMS", "T") == NOTHING
        await sample(bench, 60 - 11)
        body = json.loads((await view(bench, "TOPIC_PUT_NUMS", "T")).body)
        assert body["statsHour"] == {"avgpt": 1.0, "sum": 2, "tps": 2 / 600}
        assert body["statsDay"] == NOTHING
        await sample(bench, 360 - 60)
        body = json.loads((await view(bench, "TOPIC_PUT_NUMS", "T")).body)
        assert body["statsDay"] == {"avgpt": 1.0, "sum": 2, "tps": 2 / 3600}
        await sample(bench, 60)
        body = json.loads((await view(bench, "TOPIC_PUT_NUMS", "T")).body)
        assert body["statsHour"] == NOTHING and body["statsDay"]["sum"] == 2


async def test_messages_that_consumers_send_back_are_counted_by_their_first_topic(tmp_path: Path) -> None:
    async with serving(tmp_path, {"message_delay_level": "0s 0s 0s 0s"}) as bench:
        await bench.send("T", b"x")
        for topic in ("T", "%RETRY%cg"):
            (found,) = records(bench, topic)
            header = SendBackHeader(physical_offset=found.physical_offset, group="cg", delay_level=1)
            answer = await bench.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)
            assert answer.code == ResponseCode.SUCCESS
            deliver(bench, 1)
        await sample(bench)
        assert await total(bench, "SNDBCK_PUT_NUMS", "T@cg") == 2
        answer = await view(bench, "SNDBCK_PUT_NUMS", "T@other")
        assert answer.code == ResponseCode.SYSTEM_ERROR


async def test_a_deleted_topic_and_a_deleted_group_have_no_statistics(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        for topic in "TU":
            await bench.send(topic)
            await pull(bench, topic, 0)
        await sample(bench)
        bench.store.delete_topic("T")
        bench.parts.offsets.delete_topics(["T"])
        await bench.send("T")
        for name, key in (("TOPIC_PUT_NUMS", "T"), ("GROUP_GET_NUMS", "T@cg")):
            assert (await view(bench, name, key)).code == ResponseCode.SYSTEM_ERROR
        await pull(bench, "T", 0)
        await sample(bench)
        assert await total(bench, "TOPIC_PUT_NUMS", "T") == 1
        assert await total(bench, "GROUP_GET_NUMS", "T@cg") == 1
        assert await total(bench, "GROUP_GET_NUMS", "U@cg") == 1


async def test_a_sample_costs_an_idle_broker_nothing_that_grows_with_its_queues(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        for topic in range(20):
            await bench.send(f"T{topic}")
            await pull(bench, f"T{topic}", 0)
        await sample(bench)
        calls = 0

        def note(_: object, event: str, __: object) -> None:
            nonlocal calls
            calls += event in {"call", "c_call"}

        sys.setprofile(note)
        await bench.parts.statistics.sample()
        sys.setprofile(None)
        assert calls < 40
