"""What one master answers in a survey, with the ends of its queues or without; and what it refuses."""

from pathlib import Path
from unittest.mock import patch

import pytest
from tests.fuzzed_broker import NAME, fuzzed_broker
from tests.live import BROKER, Live, serving

from cometmq.admin.cluster import ClusterAdmin
from cometmq.admin.surveyed_broker import SurveyedBroker
from cometmq.admin.topics import TopicAdmin
from cometmq.client import Producer, PullConsumer
from cometmq.errors import RemoteError
from cometmq.message import Message, MessageQueue
from cometmq.net.address import free_port
from cometmq.wire import headers
from cometmq.wire.codes import RequestCode


async def stock(live: Live, admin: TopicAdmin) -> None:
    """Three messages in a topic of two queues, of which a group has consumed one."""
    await admin.create("T", queues=2)
    first = MessageQueue("T", BROKER, 0)
    async with Producer(live.name_server) as producer:
        for _ in range(3):
            await producer.send(Message("T", b"x"), first)
    async with PullConsumer(live.name_server, "g") as reader:
        await reader.commit(first, 1)


async def master(admin: ClusterAdmin) -> SurveyedBroker:
    return SurveyedBroker(admin, BROKER, (await admin.masters())[BROKER], 8)


@pytest.mark.parametrize("with_ends", [True, False])
async def test_lags_are_the_same_from_a_broker_that_adds_the_ends_and_from_one_that_does_not(
    tmp_path: Path, with_ends: bool
) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        await stock(live, admin)
        broker = await master(admin)
        header = headers.AllOffsetsHeader(with_ends=with_ends)
        with (
            patch.object(headers, "AllOffsetsHeader", lambda **_: header),
            patch.object(admin, "ask", wraps=admin.ask) as ask,
        ):
            found = await broker.lags()
        assert found == {"g": {MessageQueue("T", BROKER, 0): 2, MessageQueue("T", BROKER, 1): 0}}
        stats = [] if with_ends else [RequestCode.GET_TOPIC_STATS_INFO]
        codes = [call.args[1] for call in ask.call_args_list]
        assert codes == [RequestCode.GET_ALL_CONSUMER_OFFSET, *stats]
        assert broker.troubles == []


async def test_statistics_of_a_topic_are_asked_for_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        await stock(live, admin)
        broker = await master(admin)
        first = await broker.stats(["T", "none"])
        assert list(first) == ["T"]
        with patch.object(admin, "ask", side_effect=AssertionError("it was asked again")):
            assert await broker.stats(["none", "T"]) == first


async def test_what_is_refused_is_one_trouble_and_nothing_else(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        broker = await master(admin)
        with patch.object(admin, "ask", side_effect=RemoteError(16, "no permission")):
            assert await broker.topics() == {} and await broker.groups() == set()
            assert await broker.stats(["T"]) == {} and await broker.connections(["g"]) == {}
            assert await broker.lags() == {}
        (trouble,) = broker.troubles
        assert trouble.broker_name == BROKER and "no permission" in trouble.text


async def test_a_broker_that_does_not_answer_has_no_lags(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        gone = f"127.0.0.1:{free_port()}"
        broker = SurveyedBroker(admin, "broker-gone", gone, 8)
        assert await broker.lags() == {}
        (trouble,) = broker.troubles
        assert trouble.address == gone and gone in trouble.text


async def test_what_cannot_be_read_is_a_trouble_and_nothing_else(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin, fuzzed_broker(admin):
        address = (await admin.masters())[NAME]
        broker = SurveyedBroker(admin, NAME, address, 8)
        assert await broker.topics() == {} and await broker.groups() == set()
        assert await broker.stats(["T"]) == {} and await broker.lags() == {}
        assert all(f"{address} answers what cannot be read" in one.text for one in broker.troubles)
