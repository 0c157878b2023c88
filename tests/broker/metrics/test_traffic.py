from pathlib import Path

from tests.broker.conftest import Bench, pull_header, serving

from cometmq.broker.metrics import families
from cometmq.broker.metrics.traffic import add_rates, is_system, read_traffic
from cometmq.broker.reads import read
from cometmq.metrics.family import Family, Series, Values
from cometmq.wire.bodies import TopicConfig
from cometmq.wire.codes import RequestCode


async def series(bench: Bench, family: Family) -> Series:
    values = Values()
    await bench.parts.statistics.count()
    await read(bench.store, read_traffic(values, bench.parts.topics, bench.parts.statistics))
    return values.series.get(family, {})


async def test_a_topic_counts_under_the_type_that_it_is_declared_for(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        bench.parts.topics.put(TopicConfig(topic="F", attributes={"message.type": "FIFO"}))
        for topic in ("F", "T", "T"):
            await bench.send(topic)
        assert await series(bench, families.MESSAGES_IN) == {
            ("F", "fifo", "false"): 1,
            ("T", "normal", "false"): 2,
        }


async def test_dead_letters_count_by_their_group_and_retries_not_at_all(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        bench.parts.topics.put(TopicConfig(topic="%DLQ%cg"))
        bench.parts.topics.put(TopicConfig(topic="%RETRY%cg"))
        for topic in ("%DLQ%cg", "%RETRY%cg"):
            await bench.send(topic)
        assert await series(bench, families.TO_DLQ) == {("cg", "%DLQ%cg", "false"): 1}
        assert await series(bench, families.MESSAGES_IN) == {}


async def test_a_group_counts_what_it_has_pulled(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        for _ in range(3):
            await bench.send("T")
        await bench.ask(RequestCode.PULL_MESSAGE, pull_header("T", 0))
        assert await series(bench, families.MESSAGES_OUT) == {("T", "cg", "false", "false"): 3}
        (size,) = (await series(bench, families.BYTES_OUT)).values()
        assert size == bench.store.written_offset


async def test_send_times_are_in_buckets_that_hold_all_sends(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        times = bench.parts.rates.put_times
        for took_ms, count in ((0, 2), (5, 1), (4_000, 1)):
            times.note(took_ms, count)
        values = Values()
        add_rates(values, bench.parts.rates)
        found = values.buckets[families.SEND_MS]
        assert found.counts == (2, 0, 1, 0, 0, 0, 0, 0, 0, 1) and found.total == 4_005
        bench.clock.advance(60_000)
        times.sample()
        times.note(0, 1)
        add_rates(values, bench.parts.rates)
        assert sum(values.buckets[families.SEND_MS].counts) == 5  # those of former minutes, too


def test_topics_and_groups_of_the_system_are_marked() -> None:
    assert is_system("TBW102") == is_system("T", "CID_RMQ_SYS_TRANS") == "true"
    assert is_system("T") == is_system("T", "cg") == "false"
