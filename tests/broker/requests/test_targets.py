from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.broker.conftest import send_header, serving

from cometmq.message import MessageQueue
from cometmq.wire.bodies import LockRequest, TopicConfig
from cometmq.wire.codes import RequestCode, ResponseCode

V2 = RequestCode.SEND_MESSAGE_V2


async def test_a_topic_that_shrinks_is_noticed(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        assert (await bench.send("T", queue_id=3)).code == ResponseCode.SUCCESS
        bench.parts.topics.put(TopicConfig(topic="T", read_queue_count=1, write_queue_count=2))
        assert (await bench.send("T", queue_id=1)).code == ResponseCode.SUCCESS
        assert (await bench.send("T", queue_id=3)).code == ResponseCode.INVALID_PARAMETER


async def test_a_topic_without_queues_takes_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        bench.parts.topics.put(TopicConfig(topic="T", read_queue_count=0, write_queue_count=0))
        for queue_id in (0, -1):
            assert (await bench.send("T", queue_id=queue_id)).code == ResponseCode.INVALID_PARAMETER


async def test_without_permission_to_write_only_ordered_topics_are_refused(tmp_path: Path) -> None:
    async with serving(tmp_path, broker_permission=4) as bench:
        bench.parts.topics.put(TopicConfig(topic="ordered", order=True))
        assert (await bench.send("plain")).code == ResponseCode.SUCCESS
        assert (await bench.send("ordered")).code == ResponseCode.NO_PERMISSION


async def test_a_retried_message_goes_to_the_dead_letters_after_the_last_try(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.heartbeat("cg", "T")
        header = replace(send_header("%RETRY%cg", DELAY="3"), reconsume_times=2, max_reconsume_times=2)
        assert (await bench.ask(V2, header, b"x")).code == ResponseCode.SUCCESS
        assert (await bench.ask(V2, replace(header, reconsume_times=3), b"x")).code == ResponseCode.SUCCESS
        assert bench.store.max_queue_offset("SCHEDULE_TOPIC_XXXX", 2) == 1
        assert bench.store.max_queue_offset("%DLQ%cg", 0) == 1


async def test_an_orderly_group_has_no_retries(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.heartbeat("cg", "T")
        await bench.ask(RequestCode.LOCK_BATCH_MQ, body=LockRequest("c", "cg", [MessageQueue("T", "b", 0)]))
        await bench.send("%RETRY%cg")
        assert bench.store.max_queue_offset("%DLQ%cg", 0) == 1


@pytest.mark.parametrize(
    ("auto_create", "code"),
    [(True, ResponseCode.SUCCESS), (False, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)],
)
async def test_a_retry_of_an_unknown_group_makes_that_where_sends_may(
    tmp_path: Path, auto_create: bool, code: ResponseCode
) -> None:
    async with serving(tmp_path, auto_create_subscription_group=auto_create) as bench:
        assert (await bench.send("%RETRY%cg")).code == code
        assert bench.store.max_queue_offset("%RETRY%cg", 0) == auto_create
