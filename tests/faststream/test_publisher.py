"""Publishers as they are declared; that they send is in test_services.py."""

import pytest

pytest.importorskip("faststream", reason="FastStream is not installed: it is in requirements.lock")

from faststream.response.publish_type import PublishType
from faststream.response.response import PublishCommand
from tests.faststream.stored import stored_message

from cometmq.faststream import RocketMQBroker, RocketMQMessage, TestRocketMQBroker
from cometmq.faststream.publisher import ReplyPublisher


async def test_what_a_publisher_was_declared_with_counts_unless_the_call_says_otherwise() -> None:
    broker, got = RocketMQBroker("127.0.0.1:1", group="billing", logger=None), []

    @broker.subscriber("bills")
    async def handle(message: RocketMQMessage) -> None:
        got.append((message.stored.tags, message.stored.keys, message.headers["from"], message.headers["to"]))

    publisher = broker.publisher("bills", tags="new", keys=("1",), headers={"from": "shop", "to": "all"})
    async with TestRocketMQBroker(broker):
        await publisher.publish("a bill")
        await publisher.publish("a bill", tags="old", headers={"to": "you"})
    assert got == [("new", ("1",), "shop", "all"), ("old", ("1",), "shop", "you")]


def test_a_reply_goes_to_whom_asked() -> None:
    request = stored_message(topic="prices")
    broker = RocketMQBroker("127.0.0.1:1", logger=None)
    plain = PublishCommand("5", _publish_type=PublishType.PUBLISH)
    cmd = ReplyPublisher(broker.config.producer, request).patch_command(plain)
    assert cmd.request is request and (cmd.body, cmd.publish_type) == ("5", PublishType.REPLY)
