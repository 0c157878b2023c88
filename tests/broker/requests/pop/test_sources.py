from pathlib import Path

from tests.broker.conftest import Bench, serving

from cometmq.broker.requests.pop.sources import PopSources, Source
from cometmq.broker.settings_by_subject import PopSettings
from cometmq.broker.state.topics import PERM_WRITE
from cometmq.format.pop.names import RetryFlag
from cometmq.wire.bodies import TopicConfig

V1, V2 = "%RETRY%g_T", "%RETRY%g+T"


def topics(bench: Bench, *names: str) -> TopicConfig:
    for name in names:
        bench.parts.topics.find_or_create(name)
    return bench.parts.topics.find_or_create("T", 4)


def orders(found: list[list[Source]]) -> set[tuple[str, ...]]:
    return {tuple(source.topic for source in sources) for sources in found}


async def test_a_pop_reads_the_topic_and_its_retry_topic_in_either_order(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        topic = topics(bench, V1, V2, "%RETRY%h_T")
        sources = PopSources(bench.parts.topics, PopSettings())
        found = [sources.of_pop(topic, "g", -1) for _ in range(200)]
        assert orders(found) == {("T", V1), (V1, "T")}
        assert {tuple(sorted(one[0].queue_ids)) for one in found} == {(0, 1, 2, 3), (0,)}
        assert len({tuple(one[0].queue_ids) for one in found if one[0].topic == "T"}) == 4
        (normal, *_) = sources.of_notification(topic, "g", 2)
        assert normal == Source("T", RetryFlag.NONE, (2,))


async def test_with_newer_names_either_version_is_read_but_one_at_a_time(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        topic = topics(bench, V1, V2)
        own = PopSettings(enable_retry_topic_v2=True, pop_from_retry_probability=0)
        sources = PopSources(bench.parts.topics, own)
        assert orders([sources.of_pop(topic, "g", 0) for _ in range(100)]) == {("T", V1), ("T", V2)}
        assert orders([sources.of_notification(topic, "g", 0)]) == {("T", V2, V1)}


async def test_a_peek_reads_the_retry_topic_first_now_and_then(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        topic = topics(bench, V1)
        sources = PopSources(bench.parts.topics, PopSettings())
        found = [tuple(one.topic for one in sources.of_peek(topic, "g", -1)) for _ in range(500)]
        assert 50 <= found.count((V1, "T")) <= 150


async def test_a_retry_topic_has_none_itself_and_one_without_read_permission_is_left_out(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as bench:
        topics(bench, V1)
        retry = bench.parts.topics.find_or_create(V1)
        sources = PopSources(bench.parts.topics, PopSettings())
        assert sources.of_pop(retry, "g", -1) == [Source(V1, RetryFlag.V1, range(1))]
        closed = TopicConfig(topic=V1, read_queue_count=1, write_queue_count=1, perm=PERM_WRITE)
        bench.parts.topics.put(closed)
        assert orders([sources.of_pop(topics(bench), "g", -1)]) == {("T",)}
