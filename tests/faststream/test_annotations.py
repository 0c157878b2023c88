"""A handler's arguments, by their types."""

import logging

import pytest

pytest.importorskip("faststream", reason="FastStream is not installed: it is in requirements.lock")

from cometmq.faststream import TestRocketMQBroker
from cometmq.faststream.annotations import ContextRepo, Logger, RocketMQBroker, RocketMQMessage
from cometmq.faststream.broker import RocketMQBroker as Broker


async def test_a_handler_gets_the_message_its_broker_the_logger_and_the_context() -> None:
    broker, got = Broker("127.0.0.1:1", group="billing", logger=logging.getLogger("shop")), []

    @broker.subscriber("orders")
    async def handle(
        body: str, message: RocketMQMessage, own: RocketMQBroker, logger: Logger, context: ContextRepo
    ) -> None:
        got.append(
            (body, message.stored.topic, own is broker, logger is not None, context.get("broker") is own)
        )

    async with TestRocketMQBroker(broker):
        await broker.publish("an order", "orders")
    assert got == [("an order", "orders", True, True, True)]
