from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.broker.conftest import Bench, deliver, serving

from cometmq.format import properties, record
from cometmq.format.message_id import parse_offset_message_id
from cometmq.wire.bodies import GroupConfig
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import SendBackHeader

BACK = RequestCode.CONSUMER_SEND_MSG_BACK
TEN_SECONDS_MS = 10_000


def header_for(sent: Command, *, delay_level: int = 0) -> SendBackHeader:
    at = parse_offset_message_id(sent.ext_fields["msgId"]).physical_offset
    return SendBackHeader(physical_offset=at, group="cg", delay_level=delay_level)


def stored(bench: Bench, topic: str) -> list[record.Record]:
    return [record.decode(data) for data in bench.store.get(topic, 0, 0).records]


async def test_a_message_sent_back_comes_again_under_the_groups_retry_topic(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        sent = await bench.send("T", b"again", TAGS="A", KEYS="k")
        await bench.heartbeat("cg", "T")
        assert (await bench.ask(BACK, header_for(sent))).code == ResponseCode.SUCCESS
        deliver(bench, TEN_SECONDS_MS)
        (original,), (message,) = stored(bench, "T"), stored(bench, "%RETRY%cg")
        assert (message.body, message.reconsume_times) == (b"again", 1)
        assert (message.born_host, message.born_time) == (original.born_host, original.born_time)
        named = properties.decode(message.properties)
        assert named["RETRY_TOPIC"] == "T" and named["ORIGIN_MESSAGE_ID"] == sent.ext_fields["msgId"]
        assert (named["DELAY"], named["WAIT"], named["TAGS"], named["KEYS"]) == ("3", "false", "A", "k")

        again = replace(header_for(sent, delay_level=7), physical_offset=message.physical_offset)
        await bench.ask(BACK, again)
        deliver(bench, 18 * TEN_SECONDS_MS)  # level 7
        twice = stored(bench, "%RETRY%cg")[1]
        assert twice.reconsume_times == 2
        named = properties.decode(twice.properties)
        assert named["RETRY_TOPIC"] == "T" and named["ORIGIN_MESSAGE_ID"] == sent.ext_fields["msgId"]
        assert named["DELAY"] == "7"


@pytest.mark.parametrize(
    ("delay_level", "times_max"), [(-1, 16), (0, 0)], ids=["at once", "after the last try"]
)
async def test_a_message_goes_to_the_dead_letters(tmp_path: Path, delay_level: int, times_max: int) -> None:
    async with serving(tmp_path) as bench:
        sent = await bench.send("T", b"dead")
        config = GroupConfig(group="cg", retry_max_times=times_max)
        await bench.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=config)
        await bench.ask(BACK, header_for(sent, delay_level=delay_level))
        (message,) = stored(bench, "%DLQ%cg")
        assert message.body == b"dead" and properties.decode(message.properties)["DELAY"] == "0"
        assert stored(bench, "%RETRY%cg") == []


async def test_the_client_says_how_often_it_wants_to_try(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        sent = await bench.send("T")
        await bench.heartbeat("cg", "T")
        header = replace(header_for(sent), max_reconsume_times=0)
        await bench.ask(BACK, header, version=100)  # too old a client to be asked
        deliver(bench, TEN_SECONDS_MS)
        assert len(stored(bench, "%RETRY%cg")) == 1
        await bench.ask(BACK, header)
        assert len(stored(bench, "%DLQ%cg")) == 1


async def test_a_group_without_retry_queues_drops_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        sent = await bench.send("T")
        config = GroupConfig(group="cg", retry_queue_count=0)
        await bench.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=config)
        before = bench.store.written_offset
        assert (await bench.ask(BACK, header_for(sent))).code == ResponseCode.SUCCESS
        assert bench.store.written_offset == before


async def test_what_cannot_be_sent_back_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path, broker_permission=4, auto_create_subscription_group=False) as bench:
        sent = await bench.send("T")
        answer = await bench.ask(BACK, header_for(sent))
        assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        await bench.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=GroupConfig(group="cg"))
        assert (await bench.ask(BACK, header_for(sent))).code == ResponseCode.NO_PERMISSION


async def test_a_group_that_was_deleted_is_made_again_by_what_it_sends_back(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        sent = await bench.send("T")
        assert (await bench.ask(BACK, header_for(sent))).code == ResponseCode.SUCCESS
        deliver(bench, TEN_SECONDS_MS)
        assert [message.body for message in stored(bench, "%RETRY%cg")] == [b"body"]


async def test_a_message_that_is_not_there_is_said(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        sent = await bench.send("T")
        await bench.heartbeat("cg", "T")
        answer = await bench.ask(BACK, replace(header_for(sent), physical_offset=10**6))
        assert (answer.code, answer.remark) == (
            ResponseCode.SYSTEM_ERROR,
            "look message by offset failed, 1000000",
        )


async def test_a_retry_topic_that_may_not_be_written_to_takes_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        sent = await bench.send("T")
        await bench.heartbeat("cg", "T")
        topic = bench.parts.topics.find("%RETRY%cg")
        assert topic is not None
        bench.parts.topics.put(replace(topic, perm=4))
        answer = await bench.ask(BACK, header_for(sent))
        assert answer.code == ResponseCode.NO_PERMISSION
        assert answer.remark == "the topic[%RETRY%cg] sending message is forbidden: its perm is 4"
        assert stored(bench, "%RETRY%cg") == []
