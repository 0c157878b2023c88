"""The tables that a slave copies from its master."""

from pathlib import Path

from tests.replication.conftest import (
    answer_of,
    name_server,
    pair,
    running,
    slave,
    until,
)

from cometmq.format.timer.checkpoint import TimerCheckpoint
from cometmq.wire.bodies import RequestMode, TopicConfig
from cometmq.wire.bodies.pop import MessageModeRequest
from cometmq.wire.codes import RequestCode
from cometmq.wire.headers import (
    UpdateConsumerOffsetHeader,
)


async def test_a_slave_copies_topics_groups_and_offsets(tmp_path: Path) -> None:
    async with pair(tmp_path) as (master, follower, producer, _):
        await producer.send("Kept", b"0")
        follower.parts.topics.put(TopicConfig(topic="OnlyHere"))
        await producer.heartbeat("cg", "Kept")
        offset = UpdateConsumerOffsetHeader("cg", "Kept", 0, 1)
        await producer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, offset)
        replica = follower.parts.replication
        replica.copy_soon()
        await until(lambda: follower.parts.offsets.committed("cg", "Kept", 0) == 1)
        assert follower.parts.topics.find("OnlyHere") is None
        assert follower.parts.topics.data_version == master.parts.topics.data_version
        assert follower.parts.groups.find("cg") == master.parts.groups.find("cg")


async def test_a_master_that_does_not_answer_is_a_problem_until_it_does(tmp_path: Path) -> None:
    async with name_server() as names, slave(tmp_path / "s", names) as follower:
        async with running(tmp_path / "m", names) as master:
            follower.parts.replication.registered(answer_of(master))
            await until(lambda: not follower.parts.replication.problems())
        follower.parts.replication.copy_soon()
        await until(lambda: any("copies: master" in one for one in follower.parts.replication.problems()))


async def test_delays_modes_and_the_timer_are_copied_too(tmp_path: Path) -> None:
    async with pair(tmp_path) as (master, follower, _, _):
        await until(lambda: not follower.parts.replication.problems())
        masters, copied = master.parts.timed_messages, follower.parts.timed_messages
        master.parts.modes.put(MessageModeRequest("T", "cg", RequestMode.POP, 4))
        master.parts.schedule.follow_master({3: 0})
        await masters.follow_master(TimerCheckpoint(read_time=7_000, queue_offset=0))
        follower.parts.replication.copy_soon()
        await until(lambda: copied.checkpoint.read_time == masters.checkpoint.read_time)
        assert follower.parts.modes.find("T", "cg") == master.parts.modes.find("T", "cg")
        assert follower.parts.schedule.offsets == {3: 0}
