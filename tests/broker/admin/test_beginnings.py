"""Where groups begin that have committed nothing."""

from pathlib import Path

import pytest
from tests.broker.conftest import Bench, pull_header, serving

from cometmq.wire.bodies import ConsumeFromWhere, MessageModel, TopicConfig
from cometmq.wire.codes import RequestCode

FIRST = ConsumeFromWhere.FIRST_OFFSET


def begin(bench: Bench, topic: str = "T", queue_id: int = 0) -> int | None:
    return bench.parts.beginnings.find("cg", topic, queue_id)


async def stock(bench: Bench) -> None:
    """Five messages in a queue, of which the first two were removed."""
    bench.parts.topics.put(TopicConfig("T", 2, 2))
    for _ in range(5):
        await bench.send("T")
    queue = bench.store.queue_ends._queues.find("T", 0)
    assert queue is not None
    queue.min_offset = 2


async def test_members_that_begin_at_the_first_message_have_it_before_they_pull(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await stock(bench)
        await bench.heartbeat("cg", "U", start=FIRST)
        assert begin(bench) is None, "they do not subscribe to it"
        await bench.heartbeat("cg", "T", start=FIRST)
        assert begin(bench) == 2
        await bench.ask(RequestCode.PULL_MESSAGE, pull_header("T", 4))
        assert begin(bench) == 2, "what they hold since before the broker started counts, too"


@pytest.mark.parametrize(("pulled", "begun"), [(4, 4), (0, 2), (9, 2)])
async def test_others_begin_where_they_first_pull(tmp_path: Path, pulled: int, begun: int) -> None:
    async with serving(tmp_path) as bench:
        await stock(bench)
        await bench.heartbeat("cg", "T")
        assert begin(bench) is None
        await bench.ask(RequestCode.PULL_MESSAGE, pull_header("T", pulled))
        assert begin(bench) == begun
        assert begin(bench, queue_id=1) is None


async def test_a_group_that_is_gone_begins_anew(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await stock(bench)
        await bench.heartbeat("cg", "T")
        await bench.ask(RequestCode.PULL_MESSAGE, pull_header("T", 3))
        consumers = bench.parts.consumers
        (session,) = consumers.groups()["cg"].members
        consumers.unregister(session, "cg")
        consumers.remove_empty()
        assert begin(bench) == 3, "it may be reconnecting"
        consumers.remove_empty(-1)
        assert begin(bench) is None


async def test_a_queue_beside_those_with_commits_was_added_later(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await stock(bench)
        bench.parts.offsets.commit("cg", "T", 1, 0)
        assert begin(bench) == 2


async def test_the_retry_topic_of_a_group_begins_with_its_first_message(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.heartbeat("cg", "T", "%RETRY%cg")
        assert begin(bench, "%RETRY%cg") == 0


async def test_a_group_that_broadcasts_has_no_beginning_and_no_topics(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await stock(bench)
        await bench.heartbeat("cg", "T", model=MessageModel.BROADCASTING, start=FIRST)
        await bench.ask(RequestCode.PULL_MESSAGE, pull_header("T", 2))
        assert begin(bench) is None
        assert bench.parts.beginnings.topics_of("cg") == set()
        await bench.heartbeat("cg", "T")
        assert bench.parts.beginnings.topics_of("cg") == {"T"}
