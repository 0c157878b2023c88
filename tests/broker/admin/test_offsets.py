from pathlib import Path

import pytest
from tests.broker.conftest import BROKER, Bench, Client, pull_header, serving

from cometmq.broker.admin.offsets import LOGGED_MAX
from cometmq.format.java import fastjson
from cometmq.wire import headers as h
from cometmq.wire.bodies import GroupConfig, QueueOffsets, decode
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command


async def stock(bench: Bench) -> None:
    """Create a topic of two queues, the first with three messages, one each second, and a group."""
    header = h.CreateTopicHeader("T", "TBW102", 2, 2, 6, "SINGLE_TAG")
    await bench.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header)
    await bench.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=GroupConfig("g"))
    for _ in range(3):
        await bench.send("T")
        bench.clock.advance(1_000)


async def reset(bench: Bench, time: int = 0, **named: int) -> Command:
    header = h.ResetOffsetHeader("g", "T", time, is_force=True, **named)
    return await bench.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)


def offsets(answer: Command) -> dict[int, int]:
    assert answer.code == ResponseCode.SUCCESS, answer
    found = decode(QueueOffsets, answer.body).offsets
    assert {(queue.topic, queue.broker_name) for queue in found} == {("T", BROKER)}
    return {queue.queue_id: offset for queue, offset in found.items()}


async def test_all_offsets_are_told(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        bench.parts.offsets.commit("g", "T", 0, 2)
        answer = await bench.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)
        found = fastjson.loads(answer.body)
        assert found["offsetTable"] == {"T@g": {0: 2}} and "endTable" not in found


async def test_the_ends_of_consumed_queues_are_told_beside_their_offsets_if_wanted(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await stock(bench)
        for topic in ("T", "gone"):
            bench.parts.offsets.commit("g", topic, 0, 2)
        answer = await bench.ask(RequestCode.GET_ALL_CONSUMER_OFFSET, h.AllOffsetsHeader(with_ends=True))
        found = fastjson.loads(answer.body)
        assert found["offsetTable"] == {"T@g": {0: 2}, "gone@g": {0: 2}}
        assert found["endTable"] == {"T": {0: 3, 1: 0}}


async def test_offsets_go_to_a_time_to_the_end_or_to_an_offset(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        began = bench.clock.now_ms()
        await stock(bench)
        assert offsets(await reset(bench)) == {0: 0, 1: 0}
        assert offsets(await reset(bench, began + 1_000)) == {0: 1, 1: 0}
        assert offsets(await reset(bench, -1)) == {0: 3, 1: 0}
        assert offsets(await reset(bench, queue_id=0, offset=2)) == {0: 2}
        assert bench.parts.offsets.committed("g", "T", 0) == 2


@pytest.mark.parametrize(
    ("group", "topic", "queue_id", "offset", "code"),
    [
        ("nobody", "T", -1, None, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ("g", "none", -1, None, ResponseCode.TOPIC_NOT_EXIST),
        ("g", "T", 2, None, ResponseCode.INVALID_PARAMETER),
        ("g", "T", 0, 4, ResponseCode.SYSTEM_ERROR),
        ("g", "T", 0, -2, ResponseCode.SYSTEM_ERROR),
    ],
)
async def test_what_is_not_there_is_refused(
    tmp_path: Path, group: str, topic: str, queue_id: int, offset: int | None, code: int
) -> None:
    async with serving(tmp_path) as bench:
        await stock(bench)
        header = h.ResetOffsetHeader(group, topic, 0, is_force=True, queue_id=queue_id, offset=offset)
        answer = await bench.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
        assert answer.code == code and bench.parts.offsets.committed("g", "T", 0) is None


async def test_a_held_pull_is_told_at_once_where_to_go_on_and_only_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await stock(bench)
        pull = RequestCode.PULL_MESSAGE
        waiting = bench.ask_later(pull, pull_header("T", 3, group="g", wait_ms=60_000))
        other = bench.ask_later(pull, pull_header("T", 3, group="x", wait_ms=60_000))
        await reset(bench, queue_id=0, offset=1)
        told = await waiting
        assert (told.code, told.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET")
        assert h.parse(h.PullResponseHeader, told.ext_fields).next_offset == 1
        again = await bench.ask(RequestCode.PULL_MESSAGE, pull_header("T", 1, group="g"))
        assert again.code == ResponseCode.SUCCESS
        assert not other.done() and bench.parts.pulls.held_count == 1


async def test_what_members_commit_before_they_hear_of_it_does_not_count(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await stock(bench)
        await reset(bench, queue_id=0, offset=1)
        commit = h.UpdateConsumerOffsetHeader("g", "T", 0, 3)
        answer = await bench.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)
        assert answer.code == ResponseCode.SUCCESS
        header = pull_header("T", 3, group="g")
        header.sys_flag, header.commit_offset = header.sys_flag | h.PullFlag.COMMIT_OFFSET, 3
        told = await bench.ask(RequestCode.PULL_MESSAGE, header)
        assert told.code == ResponseCode.PULL_OFFSET_MOVED
        assert bench.parts.offsets.committed("g", "T", 0) == 1
        await bench.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)
        assert bench.parts.offsets.committed("g", "T", 0) == 3


async def clone(bench: Bench, topic: str | None = None, *, offline: bool = False) -> set[str]:
    """Clone to a new group; give the topics in which that stands now."""
    bench.parts.offsets.delete_group("h")
    header = h.CloneOffsetHeader("g", "h", topic, offline=offline)
    assert (await bench.ask(RequestCode.CLONE_GROUP_OFFSET, header)).code == ResponseCode.SUCCESS
    return bench.parts.offsets.topics_of("h")


async def test_a_group_begins_where_another_one_stands(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        for topic in ("T", "U"):
            await bench.send(topic)
            bench.parts.offsets.commit("g", topic, 0, 2)
        assert await clone(bench, "U") == {"U"}
        assert await clone(bench) == {"T", "U"}
        assert bench.parts.offsets.committed("h", "T", 0) == 2


async def test_topics_that_the_members_of_a_group_do_not_subscribe_to_are_cloned_only_if_asked_to(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path) as bench:
        for topic in ("T", "U"):
            await bench.send(topic)
            bench.parts.offsets.commit("g", topic, 0, 2)
        member = await Client.open(bench.address)
        await member.heartbeat("g", "T")
        assert await clone(bench) == {"T"}
        assert "group 'g' in 'U' are not cloned: its members do not subscribe to it" in caplog.text
        assert (await clone(bench, "T"), await clone(bench, "U")) == ({"T"}, set())
        assert await clone(bench, offline=True) == {"T", "U"}
        assert await clone(bench, "U", offline=True) == {"U"}
        await member.ask(RequestCode.UNREGISTER_CLIENT, h.UnregisterClientHeader("c", consumer_group="g"))
        assert await clone(bench) == {"T", "U"}
        await member.connection.close()


async def test_a_topic_that_is_not_there_is_not_cloned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T")
        for topic in ("T", "gone"):
            bench.parts.offsets.commit("g", topic, 0, 2)
        assert (await clone(bench, offline=True), await clone(bench, "gone")) == ({"T"}, set())
        assert "group 'g' in 'gone' are not cloned: no such topic" in caplog.text


async def test_of_very_many_topics_that_are_not_cloned_some_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T")
        for topic in ("T", *(f"gone{n}" for n in range(LOGGED_MAX + 7))):
            bench.parts.offsets.commit("g", topic, 0, 2)
        assert await clone(bench) == {"T"}
        assert caplog.text.count("no such topic") == LOGGED_MAX
        assert "offsets of group 'g' in 7 further topics are not cloned" in caplog.text


async def test_the_lowest_offsets_of_all_groups_are_compared_with_one(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        commit = bench.parts.offsets.commit
        for group, queue_id, offset in (("a", 0, 5), ("a", 1, 9), ("b", 0, 3), ("b", 1, 10), ("c", 0, 1)):
            commit(group, "T", queue_id, offset)
        commit("b", "U", 0, 0)
        for header, body in (
            (h.CorrectionOffsetHeader("T", "b", "c"), b'{"correctionOffsets":{0:3,1:9}}'),
            (h.CorrectionOffsetHeader("T", "b"), b'{"correctionOffsets":{0:1,1:9}}'),
            (
                h.CorrectionOffsetHeader("T", "c", "a,c"),
                b'{"correctionOffsets":{0:9223372036854775807,1:10}}',
            ),
            (h.CorrectionOffsetHeader("None", "a"), b'{"correctionOffsets":{}}'),
        ):
            answer = await bench.ask(RequestCode.QUERY_CORRECTION_OFFSET, header)
            assert (answer.code, answer.body) == (ResponseCode.SUCCESS, body)
        assert bench.parts.offsets.committed("c", "T", 0) == 1, "a group that is left out keeps its offsets"
