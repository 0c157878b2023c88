"""Tables that change all the time are as cheap for the loop when they are large as when they are small."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from tests.broker.conftest import serving
from tests.broker.desk import Wire
from tests.rules.largest import counted

from cometmq.broker import consumer_filters
from cometmq.broker.changing_table import ChangingTable
from cometmq.broker.consumer_filters import ConsumerFilters
from cometmq.broker.locks import LOCK_LIFETIME_MS, QueueLocks
from cometmq.broker.offsets import Offsets
from cometmq.filter.bloom import BloomFilter
from cometmq.format import fastjson
from cometmq.io.clock import ManualClock
from cometmq.io.files import Disk
from cometmq.message import MessageQueue
from cometmq.net.server import Server, Session
from cometmq.store.tables import JsonTable
from cometmq.wire.bodies import ConsumerData, Heartbeat, ProducerData, SubscriptionData, encode
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import ConsumerGroupHeader, Header, ProducerGroupHeader

GROUPS: Final = 10_000
QUEUES: Final = 8
FILTERS: Final = 5_000
LOCKS: Final = 10_000
MEMBERS: Final = 1_200
WORK_MAX: Final = 50
"""So many calls may it cost the loop that one entry has changed."""
TURN_WORK_MAX: Final = 15_000


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

    def wanted(expression: str, version: int) -> list[SubscriptionData]:
        return [SubscriptionData("T", expression, "SQL92", version)]

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
            bench.parts.offsets.note_pulls((f"T@g{n}", queue_id, n, n) for queue_id in range(QUEUES))
        with counted() as turns:
            answer = await bench.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)
        assert max(turns) <= TURN_WORK_MAX
        content = fastjson.loads(answer.body)
        assert len(content["offsetTable"]) == len(content["groupTopicMap"]) == GROUPS
        assert content["offsetTable"]["T@g7"] == dict.fromkeys(range(QUEUES), 7)


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
        server = Server(bench.parts.requests, clock=bench.clock)
        for n in range(MEMBERS):
            session = Session(server)
            session.connection_made(Wire("127.0.0.1"))  # type: ignore[arg-type]  # as far as it cares
            beat = Heartbeat(f"c{n}", consumers=[ConsumerData("cg")], producers=[ProducerData("pg")])
            bench.parts.requests.handle(session, [Command(RequestCode.HEART_BEAT, body=encode(beat))])
        await bench.ask(RequestCode.GET_BROKER_RUNTIME_INFO)  # by then all members know that others came
        with counted() as turns:
            answer = await bench.ask(code, fields)
        assert max(turns) <= TURN_WORK_MAX
        told = {member["clientId"] for member in fastjson.loads(answer.body)["connectionSet"]}
        assert told == {f"c{n}" for n in range(MEMBERS)}
