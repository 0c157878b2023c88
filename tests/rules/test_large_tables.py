"""Tables that change all the time are as cheap for the loop when they are large as when they are small."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from tests.broker.conftest import Bench, serving
from tests.broker.desk import Wire
from tests.rules.largest import counted

from cometmq.broker.state import consumer_filters
from cometmq.broker.state.changing_table import ChangingTable
from cometmq.broker.state.consumer_filters import ConsumerFilters
from cometmq.broker.state.consumers import Consumers
from cometmq.broker.state.locks import LOCK_LIFETIME_MS, QueueLocks
from cometmq.broker.state.offsets import Offsets
from cometmq.broker.state.producers import ConnectedMember
from cometmq.filter.bloom import BloomFilter
from cometmq.format.host import pack_host
from cometmq.format.java import fastjson
from cometmq.io.clock import ManualClock
from cometmq.io.files import Disk
from cometmq.message import MessageQueue
from cometmq.net.server import Server, Session
from cometmq.store import NewMessage
from cometmq.store.tables import JsonTable
from cometmq.wire import bodies
from cometmq.wire.codes import LanguageCode, RequestCode
from cometmq.wire.connection import FrameReader
from cometmq.wire.frame import Command
from cometmq.wire.headers import ConsumerGroupHeader, GroupHeader, Header, ProducerGroupHeader, TopicHeader
from cometmq.wire.headers.admin import AllOffsetsHeader

GROUPS: Final = 10_000
QUEUES: Final = 8
FILTERS: Final = 5_000
LOCKS: Final = 10_000
MEMBERS: Final = 1_200
WORK_MAX: Final = 50
"""So many calls may it cost the loop that one entry has changed."""
LOOK_UP_WORK_MAX: Final = 1_000
"""So many calls may it cost the loop to find or delete what belongs to one topic or group."""
TURN_WORK_MAX: Final = 15_000
TOPICS: Final = 600
QUEUES_EACH: Final = 2
LARGE: Final = {"mapped_file_size_commit_log": 1 << 16}
HOST: Final = pack_host("127.0.0.1", 10911)


@contextmanager
def work() -> Iterator[list[int]]:
    """Count calls."""
    calls = [0]

    def note(_: object, event: str, __: object) -> None:
        calls[0] += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def check(table: ChangingTable[Any, Any], change: Callable[[], object]) -> str:
    """Check that one change costs the loop little; return what is on the disk then."""
    table.save()
    with work() as calls:
        change()
        changes = table.take_changed()
    assert changes is not None
    assert calls[0] <= WORK_MAX
    table.write(changes)
    return table._table.path.read_text()


def test_one_commit_among_80000_offsets(tmp_path: Path) -> None:
    offsets = Offsets(JsonTable(Disk(), tmp_path / "consumerOffset.json"), ManualClock())
    for n in range(GROUPS):
        for queue_id in range(QUEUES):
            offsets.commit(f"g{n}", "T", queue_id, n)
    text = check(offsets, lambda: offsets.commit("g7", "T", 3, 12_345))
    content = fastjson.loads(text)
    assert content["offsetTable"]["T@g7"] == {
        queue_id: 12_345 if queue_id == 3 else 7 for queue_id in range(8)
    }
    assert len(content["offsetTable"]) == len(content["groupTopicMap"]) == GROUPS


def test_one_filter_among_5000(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_filters, "COMPILED_PER_SECOND", 100 * FILTERS)
    table = JsonTable(Disk(), tmp_path / "consumerFilter.json")
    filters = ConsumerFilters(table, ManualClock(), BloomFilter(20, 32), keep_ms=1_000)

    def wanted(expression: str, version: int) -> list[bodies.SubscriptionData]:
        return [bodies.SubscriptionData("T", expression, "SQL92", version)]

    for n in range(FILTERS):
        filters.register(f"g{n}", wanted("a > 1", 1))
    text = check(filters, lambda: filters.register("g7", wanted("a > 1", 2)))
    found = fastjson.loads(text)["filterDataByTopic"]["T"]["groupFilterData"]
    assert len(found) == FILTERS and (found["g7"]["clientVersion"], found["g8"]["clientVersion"]) == (2, 1)


def test_one_lock_among_10000(tmp_path: Path) -> None:
    clock = ManualClock()
    locks = QueueLocks(JsonTable(Disk(), tmp_path / "queueLocks.json"), clock)
    each = [MessageQueue("T", "b", n) for n in range(QUEUES)]
    for n in range(LOCKS // QUEUES):
        locks.lock(f"g{n}", f"c{n}", each)
    text = check(locks, lambda: locks.lock("g7", "c7", [MessageQueue("T", "b", QUEUES)]))
    found = fastjson.loads(text)["lockTable"]
    assert len(found) == LOCKS // QUEUES and len(found["g7"]["c7"]) == QUEUES + 1
    clock.advance(LOCK_LIFETIME_MS + 1)
    locks.lock("g8", "x", each)
    locks.save()
    assert list(fastjson.loads(locks._table.path.read_text())["lockTable"]) == ["g8"]


async def test_all_offsets_are_told_a_part_in_each_turn(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        for n in range(GROUPS):
            bench.parts.offsets.record_pulls((f"T@g{n}", queue_id, n, n, n) for queue_id in range(QUEUES))
        with counted() as turns:
            answer = await bench.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)
        assert max(turns) <= TURN_WORK_MAX
        content = fastjson.loads(answer.body)
        assert len(content["offsetTable"]) == len(content["groupTopicMap"]) == GROUPS
        assert content["offsetTable"]["T@g7"] == dict.fromkeys(range(QUEUES), 7)


async def test_the_ends_of_queues_are_told_a_part_in_each_turn(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        for n in range(GROUPS):
            bench.parts.topics.put(bodies.TopicConfig(f"T{n}", QUEUES, QUEUES))
            bench.parts.offsets.commit("g", f"T{n}", 0, 0)
        with counted() as turns:
            answer = await bench.ask(RequestCode.GET_ALL_CONSUMER_OFFSET, AllOffsetsHeader(with_ends=True))
        assert max(turns) <= TURN_WORK_MAX
        ends = fastjson.loads(answer.body)["endTable"]
        assert len(ends) == GROUPS and ends["T7"] == dict.fromkeys(range(QUEUES), 0)


async def join(bench: Bench, count: int) -> list[Wire]:
    """Connect so many members of a group, all of which know of the others; return their connections."""
    server, wires = Server(bench.parts.requests, clock=bench.clock), list[Wire]()
    for n in range(count):
        session = Session(server.shared)
        wires.append(Wire("127.0.0.1"))
        session.connection_made(wires[-1])  # type: ignore[arg-type]  # it is one as far as it cares
        beat = bodies.Heartbeat(
            f"c{n}", consumers=[bodies.ConsumerData("cg")], producers=[bodies.ProducerData("pg")]
        )
        bench.parts.requests.handle(session, [Command(RequestCode.HEART_BEAT, body=bodies.encode(beat))])
    while asyncio.all_tasks() and not all(wire.data for wire in wires):
        await bench.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
    return wires


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (RequestCode.GET_CONSUMER_CONNECTION_LIST, ConsumerGroupHeader("cg")),
        (RequestCode.GET_PRODUCER_CONNECTION_LIST, ProducerGroupHeader("pg")),
    ],
)
async def test_many_members_are_told_a_part_in_each_turn(
    tmp_path: Path, code: RequestCode, fields: Header
) -> None:
    async with serving(tmp_path) as bench:
        await join(bench, MEMBERS)
        with counted() as turns:
            answer = await bench.ask(code, fields)
        assert max(turns) <= TURN_WORK_MAX
        told = {member["clientId"] for member in fastjson.loads(answer.body)["connectionSet"]}
        assert told == {f"c{n}" for n in range(MEMBERS)}


async def test_a_member_of_many_asks_for_the_others_ids_at_little_cost(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await join(bench, MEMBERS)
        with counted() as turns:
            answer = await bench.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, ConsumerGroupHeader("cg"))
        assert max(turns) <= MEMBERS
        assert bodies.decode(bodies.ConsumerIds, answer.body).ids == [f"c{n}" for n in range(MEMBERS)]


async def test_many_members_are_told_of_a_new_one_some_in_each_turn(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        wires = await join(bench, MEMBERS)
        for wire in wires:
            wire.data = b""
        with counted() as turns:
            await bench.heartbeat("cg", client_id="new")
            while not all(wire.data for wire in wires):
                await bench.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
        assert max(turns) <= TURN_WORK_MAX
        (notice,) = FrameReader().receive_data(wires[-1].data)
        assert notice.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED


@pytest.mark.parametrize(
    ("code", "fields", "answers"),
    [
        (RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, TopicHeader("T7"), {"groupList": ["g7"]}),
        (RequestCode.QUERY_TOPICS_BY_CONSUMER, GroupHeader("g7"), {"topicList": ["T7"]}),
    ],
)
async def test_the_groups_of_a_topic_are_found_among_many_at_the_cost_of_the_answer(
    tmp_path: Path, code: RequestCode, fields: Header, answers: dict[str, Any]
) -> None:
    async with serving(tmp_path) as bench:
        for n in range(GROUPS):
            bench.parts.offsets.commit(f"g{n}", f"T{n}", 0, 1)
        with counted() as turns:
            answer = await bench.ask(code, fields)
        assert max(turns) <= LOOK_UP_WORK_MAX
        assert fastjson.loads(answer.body) == answers


class NotAll(dict[str, Any]):
    """A table of which nobody looks at all entries."""

    def items(self) -> Any:
        raise AssertionError("all entries are looked at")

    __iter__ = keys = values = items


def test_the_groups_that_subscribe_to_a_topic_are_found_without_a_look_at_the_others() -> None:
    clock = ManualClock()
    consumers = Consumers[str](clock)
    member = ConnectedMember("c", LanguageCode.JAVA, 479, clock.monotonic_ms())
    for n in range(9):
        wanted = [bodies.tag_subscription(f"T{n % 5}", "*", 1)]
        consumers.heartbeat("a", bodies.ConsumerData(f"g{n}", subscriptions=wanted), member)
    consumers._groups = NotAll(consumers._groups)
    assert (consumers.groups_of("T2"), consumers.groups_of("T7")) == ({"g2", "g7"}, set())


@asynccontextmanager
async def serving_many_queues(root: Path) -> AsyncIterator[Bench]:
    """Serve a store that was closed with many queues, half of them of topics that the broker has."""
    async with serving(root, LARGE) as bench:
        for n in range(TOPICS):
            queues = range(QUEUES_EACH)
            bench.store.append([NewMessage(f"T{n}", q, b"", b"", 0, HOST, HOST) for q in queues])
        bench.store.append([NewMessage("T0", 0, bytes(60_000), b"", 0, HOST, HOST)])  # alone in the last file
        bench.parts.topics.put_all(bodies.TopicConfig(topic=f"T{n}") for n in range(0, TOPICS, 2))
        bench.parts.offsets.record_pulls((f"T{n}@g{n}", 0, 1, 1, 1) for n in range(TOPICS))
        await bench.parts.topics.settled()
    async with serving(root, LARGE) as bench:
        yield bench


async def test_one_topic_is_deleted_among_many_queues(tmp_path: Path) -> None:
    async with serving_many_queues(tmp_path) as bench:
        with counted() as turns:
            answer = await bench.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader("T6"))
        assert (answer.code, bench.store.max_queue_offset("T6", 0)) == (0, 0)
        assert max(turns) <= LOOK_UP_WORK_MAX
        assert bench.parts.offsets.groups_of("T6") == set()


@pytest.mark.parametrize("code", [RequestCode.CLEAN_UNUSED_TOPIC, RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE])
async def test_many_queues_are_looked_at_and_removed_some_in_each_turn(
    tmp_path: Path, code: RequestCode
) -> None:
    async with serving_many_queues(tmp_path) as bench:
        if code == RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE:  # as if all had
            bench.store._log.chain.detach_before(bench.store.written_offset)
        with counted() as turns:
            assert (await bench.ask(code)).code == 0
        assert max(turns) <= TURN_WORK_MAX
        assert sorted(bench.store.topics()) == sorted(f"T{n}" for n in range(0, TOPICS, 2))
        assert sorted(bench.parts.offsets.keys()) == sorted(f"T{n}@g{n}" for n in range(0, TOPICS, 2))
