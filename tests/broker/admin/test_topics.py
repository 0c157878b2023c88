import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.broker.conftest import BROKER, GatedDisk, bodies, pull_header, send_header, serving

from cometmq.message import MessageQueue
from cometmq.testing.memory_disk import MemoryDisk
from cometmq.wire.bodies import (
    GroupNames,
    TopicConfig,
    TopicConfigs,
    TopicNames,
    TopicOffset,
    TopicStats,
    TopicTable,
    decode,
)
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.headers import CreateTopicHeader, GetAllTopicConfigHeader, TopicHeader

CREATE = RequestCode.UPDATE_AND_CREATE_TOPIC
WANTED = CreateTopicHeader(
    topic="T",
    default_topic="TBW102",
    read_queue_count=3,
    write_queue_count=2,
    perm=6,
    filter_type="SINGLE_TAG",
)


class Saves(MemoryDisk):
    """A disk that keeps the names of the tables that are saved."""

    def __init__(self) -> None:
        super().__init__()
        self.saved: list[str] = []

    def save(self, path: Path, data: bytes) -> None:
        super().save(path, data)
        self.saved.append(path.name)


async def test_a_topic_is_created_changed_shown_and_deleted(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        assert (await bench.ask(CREATE, WANTED)).code == ResponseCode.SUCCESS
        await bench.ask(CREATE, replace(WANTED, perm=4, attributes="+message.type=FIFO"))
        await bench.ask(CREATE, replace(WANTED, perm=4, order=True))
        shown = await bench.ask(RequestCode.GET_TOPIC_CONFIG, TopicHeader("T"))
        assert decode(TopicConfig, shown.body) == TopicConfig(
            attributes={"message.type": "FIFO"},
            order=True,
            perm=4,
            read_queue_count=3,
            topic="T",
            write_queue_count=2,
        )
        await bench.ask(CREATE, replace(WANTED, attributes="-message.type"))
        topic = bench.parts.topics.find("T")
        assert topic is not None and topic.attributes == {}

        await bench.send("T")
        await bench.ask(RequestCode.PULL_MESSAGE, pull_header("T"))
        bench.parts.offsets.commit("cg", "T", 0, 1)
        assert (await bench.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader("T"))).code == 0
        answer = await bench.ask(RequestCode.GET_TOPIC_CONFIG, TopicHeader("T"))
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST
        assert bench.store.queues() == [] and bench.parts.offsets.groups_of("T") == set()
        again = await bench.send("T")
        assert again.ext_fields["queueOffset"] == "0"


@pytest.mark.parametrize(
    ("changes", "code", "says"),
    [
        ({"topic": "../x"}, ResponseCode.INVALID_PARAMETER, "only the characters"),
        ({"topic": "TBW102"}, ResponseCode.INVALID_PARAMETER, "conflict with system topic"),
        ({"topic": "rmq_sys_mine"}, ResponseCode.INVALID_PARAMETER, "conflict with system topic"),
        ({"read_queue_count": -1}, ResponseCode.INVALID_PARAMETER, "readQueueNums -1 is not in 0 to 65535"),
        ({"write_queue_count": 70_000}, ResponseCode.INVALID_PARAMETER, "writeQueueNums 70000"),
        ({"perm": 8}, ResponseCode.INVALID_PARAMETER, "perm 8 is not in 0 to 7"),
        ({"attributes": "+queue.type=BatchCQ"}, ResponseCode.INVALID_PARAMETER, "queue.type=SimpleCQ"),
        ({"attributes": "message.type=FIFO"}, ResponseCode.INVALID_PARAMETER, "message.type"),
    ],
)
async def test_a_topic_that_cannot_be_is_refused(
    tmp_path: Path, changes: dict[str, Any], code: ResponseCode, says: str
) -> None:
    async with serving(tmp_path) as bench:
        answer = await bench.ask(CREATE, replace(WANTED, **changes))
        assert (answer.code, says in (answer.remark or "")) == (code, True), answer
        assert bench.parts.topics.data_version.counter == 0


async def test_how_many_queues_a_request_may_give_a_topic_is_a_setting(tmp_path: Path) -> None:
    async with serving(tmp_path, topic_queues_max=4) as bench:
        assert (await bench.ask(CREATE, replace(WANTED, read_queue_count=4, write_queue_count=4))).code == 0
        refused = await bench.ask(CREATE, replace(WANTED, read_queue_count=5))
        assert "readQueueNums 5 is not in 0 to 4 (topicQueuesMax)" in (refused.remark or "")


@pytest.mark.parametrize("topic", ["..", "SELF_TEST_TOPIC"])
async def test_only_a_topic_of_users_can_be_deleted(tmp_path: Path, topic: str) -> None:
    async with serving(tmp_path / "store") as bench:
        answer = await bench.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader(topic))
        assert answer.code == ResponseCode.INVALID_PARAMETER
        assert (tmp_path / "store").is_dir()


async def test_a_deletion_that_the_disk_refuses_leaves_the_topic_and_its_messages(tmp_path: Path) -> None:
    disk = MemoryDisk()
    async with serving(tmp_path, files=disk) as bench:
        await bench.ask(CREATE, WANTED)
        await bench.send("T", queue_id=1)
        bench.parts.offsets.commit("cg", "T", 1, 1)
        disk.space_bytes = 0
        answer = await bench.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader("T"))
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "disk full" in (answer.remark or "")
        assert (await bench.ask(RequestCode.GET_TOPIC_CONFIG, TopicHeader("T"))).code == 0
        assert (bench.store.max_queue_offset("T", 1), bench.store.deleted_before("T")) == (1, 0)
        assert bench.parts.offsets.committed("cg", "T", 1) == 1
        disk.space_bytes = 2**40
        assert (await bench.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader("T"))).code == 0
        await bench.ask(CREATE, WANTED)
        assert bench.store.max_queue_offset("T", 1) == 0
    async with serving(tmp_path, files=disk) as bench:
        assert bench.parts.topics.find("T") is not None and bench.store.topics() == []


async def test_what_is_sent_while_a_topic_is_being_deleted_is_in_the_topic_made_anew(tmp_path: Path) -> None:
    disk = GatedDisk()
    async with serving(tmp_path, files=disk) as bench:
        for _ in range(3):
            await bench.send("T")
        disk.saves.clear()
        deletion = bench.ask_later(RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader("T"))
        sends = [
            bench.ask_later(RequestCode.SEND_MESSAGE_V2, send_header("T", queue_id), b"%d" % number)
            for number, queue_id in enumerate([0, 0, 1])
        ]
        assert (await bench.ask(RequestCode.GET_TOPIC_CONFIG, TopicHeader("T"))).code == 0, "made anew"
        assert bench.store.deleted_before("T") > 0
        await asyncio.wait(sends, timeout=0.05)
        assert not any(asked.done() for asked in (deletion, *sends)), "its deletion is not on the disk"
        disk.saves.set()
        assert (await deletion).code == 0
        assert [(await send).ext_fields["queueOffset"] for send in sends] == ["0", "1", "0"]
        killed = disk.after_kill()
    async with serving(tmp_path, files=killed) as bench:
        answer = await bench.ask(RequestCode.PULL_MESSAGE, pull_header("T"))
        assert bodies(answer) == [b"0", b"1"]


async def test_topics_deleted_in_one_turn_are_noted_by_one_write(tmp_path: Path) -> None:
    disk = Saves()
    async with serving(tmp_path, files=disk) as bench:
        for n in range(20):
            await bench.send(f"T{n}")
        disk.saved.clear()
        deletions = [
            bench.ask_later(RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader(f"T{n}")) for n in range(20)
        ]
        assert {(await deletion).code for deletion in deletions} == {0}
        assert (disk.saved.count("deletions.json"), bench.store.topics()) == (1, [])
        assert "queues.json" not in disk.saved


async def test_many_topics_are_created_at_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        topics = [
            TopicConfig(topic="A", attributes={"+message.type": "DELAY"}),
            TopicConfig(topic="B", read_queue_count=1),
        ]
        body = TopicConfigs([*topics, TopicConfig(topic="C", attributes={"+message.type": "FIFO,-x"})])
        answer = await bench.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=body)
        assert answer.code == ResponseCode.INVALID_PARAMETER and "'FIFO,-x'" in (answer.remark or "")
        assert bench.parts.topics.find("A") is None
        body = TopicConfigs(topics)
        assert (await bench.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=body)).code == 0
        first, second = bench.parts.topics.find("A"), bench.parts.topics.find("B")
        assert first is not None and first.attributes == {"message.type": "DELAY"}
        assert second is not None and second.read_queue_count == 1


async def test_all_topics_are_shown_at_once_or_by_the_page(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        code = RequestCode.GET_ALL_TOPIC_CONFIG
        answer = await bench.ask(code, GetAllTopicConfigHeader())
        everything = decode(TopicTable, answer.body).topics
        assert answer.ext_fields["totalTopicNum"] == str(len(everything))
        pages: dict[str, TopicConfig] = {}
        while len(pages) < len(everything):
            header = GetAllTopicConfigHeader(first=len(pages), max_count=5)
            page = decode(TopicTable, (await bench.ask(code, header)).body).topics
            assert len(page) in range(1, 6)
            pages |= page
        assert pages == everything


async def test_the_ends_of_each_queue_are_shown(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.ask(CREATE, WANTED)
        await bench.send("T", queue_id=1)
        bench.clock.advance(5)
        await bench.send("T", queue_id=1)
        answer = await bench.ask(RequestCode.GET_TOPIC_STATS_INFO, TopicHeader("T"))
        assert decode(TopicStats, answer.body).offsets == {
            MessageQueue("T", BROKER, 0): TopicOffset(),
            MessageQueue("T", BROKER, 1): TopicOffset(bench.clock.now_ms(), 2, 0),
            MessageQueue("T", BROKER, 2): TopicOffset(),
        }
        unknown = await bench.ask(RequestCode.GET_TOPIC_STATS_INFO, TopicHeader("none"))
        assert unknown.code == ResponseCode.TOPIC_NOT_EXIST


async def test_who_consumes_a_topic_is_told_now_and_before(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        bench.parts.offsets.commit("before", "T", 0, 1)
        await bench.heartbeat("now", "T")
        answer = await bench.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, TopicHeader("T"))
        assert decode(GroupNames, answer.body).groups == ["before", "now"]


async def test_the_brokers_own_topics_are_told(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T")
        answer = await bench.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
        names = decode(TopicNames, answer.body).topics
        assert "TBW102" in names and "T" not in names
