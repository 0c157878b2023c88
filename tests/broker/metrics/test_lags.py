"""The lags of groups beside what a RocketMQ 5.5.0 broker shows, and where that is wrong."""

from pathlib import Path

from msgspec.structs import replace
from tests.broker.conftest import Bench, pull_header, serving
from tests.broker.pops import ack, popped

from cometmq.broker.metrics import families
from cometmq.broker.metrics.lags import Lags
from cometmq.broker.reads import read
from cometmq.metrics.family import Values
from cometmq.wire.bodies import ConsumeFromWhere
from cometmq.wire.codes import RequestCode, ResponseCode

FAMILIES = (families.LAG, families.IN_FLIGHT, families.READY)
AGES = (families.LAG_MS, families.QUEUEING_MS)


def lags_of(bench: Bench) -> Lags:
    parts = bench.parts
    return Lags(bench.store, parts.topics, parts.consumers, parts.offsets, parts.beginnings, parts.in_flight)


async def values(bench: Bench, lags: Lags | None = None) -> Values:
    found = Values()
    await read(bench.store, (lags or lags_of(bench)).read_into(found))
    return found


async def lag(bench: Bench, topic: str = "T", group: str = "cg", *, is_retry: bool = False) -> list[float]:
    """Return what a group has not consumed, holds, and has not got; empty if there are no series."""
    found = await values(bench)
    labels = (group, topic, str(is_retry).lower(), "false")
    return [found.series[family][labels] for family in FAMILIES if labels in found.series.get(family, {})]


async def ages(bench: Bench, lags: Lags | None = None) -> list[float]:
    found = await values(bench, lags)
    return [value for family in AGES for value in found.series[family].values()]


async def pull(bench: Bench, offset: int, queue_id: int = 0, count: int = 32, topic: str = "T") -> None:
    header = replace(pull_header(topic, offset, queue_id=queue_id), max_message_count=count)
    assert (await bench.ask(RequestCode.PULL_MESSAGE, header)).code == ResponseCode.SUCCESS


async def test_pulls_and_commits_move_messages_from_ready_to_in_flight_to_consumed(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        for number in range(10):
            await bench.send("T", queue_id=number % 4)
        await bench.heartbeat("cg", "T")
        assert await lag(bench) == [0, 0, 0]  # it may begin at the end
        for queue_id in range(4):
            bench.parts.offsets.commit("cg", "T", queue_id, 0)
        assert await lag(bench) == [10, 0, 10]
        await pull(bench, 0, count=2)
        assert await lag(bench) == [10, 2, 8]
        bench.parts.offsets.commit("cg", "T", 0, 1)
        assert await lag(bench) == [9, 1, 8]


async def test_a_group_that_hangs_before_its_first_commit_lags_from_where_it_began(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        for _ in range(5):
            await bench.send("T")
            bench.clock.advance(1_000)
        await bench.heartbeat("cg", "T")
        await pull(bench, 1, count=2)
        assert await lag(bench) == [4, 2, 2]
        assert await ages(bench) == [4_000, 2_000]
        bench.parts.offsets.commit("cg", "T", 0, 2)
        assert await lag(bench) == [3, 1, 2]


async def test_a_group_that_begins_at_the_first_message_lags_before_it_pulls(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T")
        await bench.heartbeat("cg", "T", start=ConsumeFromWhere.FIRST_OFFSET)
        assert await lag(bench) == [1, 0, 1]


async def test_the_age_of_the_oldest_message_counts_and_is_read_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        for _ in range(2):
            await bench.send("T")
            bench.clock.advance(1_000)
        bench.parts.offsets.commit("cg", "T", 0, 0)
        lags = lags_of(bench)
        assert await ages(bench, lags) == [2_000, 2_000]
        await pull(bench, 0, count=1)
        assert await ages(bench, lags) == [2_000, 1_000]
        assert set(lags._times) == {("T", 0, 0), ("T", 0, 1)}
        bench.parts.offsets.commit("cg", "T", 0, 2)
        assert await ages(bench, lags) == [0, 0] and lags._times == {}


async def test_a_group_without_members_lags_all_the_same(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T")
        bench.parts.offsets.commit("gone", "T", 0, 0)
        assert await lag(bench, group="gone") == [1, 0, 1]


async def test_a_topic_that_its_members_do_not_subscribe_to_any_more_is_no_lag(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T")
        bench.parts.offsets.commit("cg", "T", 0, 0)
        await bench.heartbeat("cg", "U")
        assert await lag(bench) == []


async def test_messages_that_wait_in_a_retry_topic_are_a_series_of_their_own(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.heartbeat("cg", "T", "%RETRY%cg")
        await bench.send("%RETRY%cg")
        bench.parts.offsets.commit("cg", "%RETRY%cg", 0, 0)
        assert await lag(bench, "%RETRY%cg", is_retry=True) == [1, 0, 1]


async def test_popped_messages_are_in_flight_until_they_are_acknowledged(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        for _ in range(3):
            await bench.send("T")
        handed = await popped(bench, max_msg_nums=2)
        assert await lag(bench, group="g") == [3, 2, 1]
        await ack(bench, handed[0])
        assert await lag(bench, group="g") == [2, 1, 1]


async def test_what_the_store_has_removed_is_no_lag(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T")
        bench.parts.offsets.commit("cg", "T", 0, 0)
        queue = bench.store.queue_ends._queues.find("T", 0)
        assert queue is not None
        queue.min_offset = 1
        assert await lag(bench) == [0, 0, 0]
