"""Which handles a producer refuses, what it asks the broker, and what it makes of the answer."""

from pathlib import Path

import pytest
from tests.client.brokers import Broker, cluster
from tests.live import serving

from cometmq.client import Producer
from cometmq.client.producer.recalls import checked_handle, recall_request, recalled_id
from cometmq.errors import NoRoute, RemoteError, SettingsError
from cometmq.message import Message
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.recall_handle import RecallHandle

MESSAGE = RecallHandle("Orders", "a", "1700000000001", "ID")


def test_a_handle_means_a_message() -> None:
    assert checked_handle("Orders", str(MESSAGE)) == MESSAGE


@pytest.mark.parametrize(
    ("handle", "words"),
    [
        (None, "recall handle None, topic 'Orders': .*send it with delay_ms or deliver_time"),
        ("", "'' is not a recall handle: give the one"),
        ("0" * 99, f"'{'0' * 60}' is not a recall handle"),
        (str(MESSAGE._replace(topic="Others")), "of topic 'Others', not 'Orders': give the message's topic"),
    ],
)
def test_what_cannot_be_a_handle_of_the_topic_is_refused(handle: str | None, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        checked_handle("Orders", handle)


def test_the_broker_is_asked_as_javas_producer_asks_it() -> None:
    request = recall_request("shop", MESSAGE)
    assert (request.code, request.ext_fields) == (
        RequestCode.RECALL_MESSAGE,
        {"topic": "Orders", "recallHandle": str(MESSAGE), "producerGroup": "shop", "bname": "a"},
    )


def test_the_answer_names_the_message_that_was_taken_back() -> None:
    assert recalled_id(Command(ResponseCode.SUCCESS, ext_fields={"msgId": "ID"}), MESSAGE) == "ID"


@pytest.mark.parametrize(
    ("code", "remark", "text"),
    [
        (16, "forbidden", r"code 16: forbidden \(.*: let its recallMessageEnable be true\)"),
        (
            604,
            "invalid",
            r"code 604: invalid \(.*: a message can be recalled until it is due, at the broker",
        ),
        (
            3,
            "not supported",
            r"code 3: not supported \(.*: RocketMQ brokers recall messages from 5\.3\.2",
        ),
        (1, "no room", r"code 1: no room \(.*\)$"),
        (1, None, r"code 1: refused \("),
    ],
)
def test_a_refusal_names_the_message_and_the_remedy(code: int, remark: str | None, text: str) -> None:
    with pytest.raises(RemoteError, match=text) as raised:
        recalled_id(Command(code, remark=remark), MESSAGE)
    assert raised.value.code == code
    assert "(message ID of topic 'Orders', due at 1700000000001, broker 'a'" in raised.value.remark


async def test_a_broker_that_takes_nothing_back_says_which_setting_lets_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, Producer(live.name_server) as producer:
        result = await producer.send(Message("Orders", b"x", delay_ms=60_000))
        with pytest.raises(RemoteError, match=r"code 16: .*recallMessageEnable"):
            await producer.recall("Orders", result.recall_handle)


async def test_a_broker_that_is_not_known_is_named() -> None:
    async with cluster(Broker("b")) as name_server, Producer(name_server) as producer:
        with pytest.raises(NoRoute, match="no master of broker 'a' is known for topic 'Orders'"):
            await producer.recall("Orders", str(MESSAGE))


async def test_the_broker_of_the_handle_is_asked_and_no_other() -> None:
    brokers = [Broker(name) for name in "ab"]
    async with cluster(*brokers) as name_server, Producer(name_server, "shop") as producer:
        assert await producer.recall("Orders", str(MESSAGE)) == "ID"
    asked, other = (broker.recalled for broker in brokers)
    assert ([header.recall_handle for header in asked], other) == ([str(MESSAGE)], [])
