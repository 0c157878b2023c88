from pathlib import Path

from tests.broker.conftest import serving

from cometmq.broker.state.pop.retry_topics import PopRetryTopics
from cometmq.wire.bodies import GroupConfig, TopicConfig


async def found(root: Path, topics: str, groups: str, offsets: str = "") -> tuple[list[str], list[str]]:
    """Return the retry topics of the group ``a``, and those of the topic ``T``, which ``a`` consumes.

    Args:
        offsets: pairs ``group=topic``.
    """
    async with serving(root) as bench:
        parts = bench.parts
        for name in topics.split():
            parts.topics.put(TopicConfig(topic=name))
        for name in groups.split():
            parts.groups.put(GroupConfig(name))
        for pair in ("a=T " + offsets).split():
            group, _, topic = pair.partition("=")
            parts.offsets.commit(group, topic, 0, 0)
        retries = PopRetryTopics(parts.topics, parts.groups, parts.offsets)
        return retries.of_group("a"), retries.of_topic("T")


async def test_both_forms_belong_to_a_group_and_to_a_topic(tmp_path: Path) -> None:
    both = ["%RETRY%a+T", "%RETRY%a_T"]
    of_group, of_topic = await found(tmp_path, "T %RETRY%a_T %RETRY%a+T %RETRY%a %RETRY%ab_T", "a")
    assert (of_group, sorted(of_topic)) == (both, both)


async def test_one_where_another_group_s_messages_come_back_does_not(tmp_path: Path) -> None:
    assert await found(tmp_path, "T %RETRY%a_T", "a a_T") == ([], [])


async def test_readers_decide_between_two_readings_of_a_name(tmp_path: Path) -> None:
    topics, groups = "T b_T %RETRY%a_b_T", "a a_b"
    assert (await found(tmp_path / "1", topics, groups, "a=%RETRY%a_b_T"))[0] == ["%RETRY%a_b_T"]
    assert (await found(tmp_path / "2", topics, groups, "a_b=%RETRY%a_b_T"))[0] == []
    assert (await found(tmp_path / "3", topics, groups))[0] == [], "either could be"
    assert (await found(tmp_path / "4", topics, "a"))[0] == ["%RETRY%a_b_T"]


async def test_one_of_a_topic_that_is_unknown_stays(tmp_path: Path) -> None:
    assert (await found(tmp_path, "T %RETRY%a_U", "a"))[0] == []
