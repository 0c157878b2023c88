"""Subscribers as they are declared; what they do with messages is in test_services.py."""

import pytest

pytest.importorskip("faststream", reason="FastStream is not installed: it is in requirements.lock")

from faststream import AckPolicy
from faststream.exceptions import SetupError
from tests.faststream.stored import stored_message

from cometmq.client.handling.outcome import Retry
from cometmq.errors import FormatError
from cometmq.faststream.broker import RocketMQBroker


def new_broker() -> RocketMQBroker:
    return RocketMQBroker("127.0.0.1:1", group="billing", logger=None)


def test_a_message_that_fails_is_retried_unless_the_subscriber_or_its_broker_say_otherwise() -> None:
    assert new_broker().subscriber("orders").ack_policy is AckPolicy.NACK_ON_ERROR
    strict = RocketMQBroker(ack_policy=AckPolicy.REJECT_ON_ERROR, logger=None)
    assert strict.subscriber("orders").ack_policy is AckPolicy.REJECT_ON_ERROR
    assert strict.subscriber("orders", ack_policy=AckPolicy.ACK).ack_policy is AckPolicy.ACK


def test_a_subscription_has_the_filter_that_was_declared() -> None:
    subscriber = new_broker().subscriber("orders", group="large", sql="size > 10", ordered=True)
    subscription = subscriber.subscription
    assert (subscriber.group, subscription.topic) == ("large", "orders")
    assert (subscription.tags, subscription.sql, subscription.ordered) == ("*", "size > 10", True)
    with pytest.raises(FormatError, match="names no tag"):
        _ = new_broker().subscriber("orders", tags="||").subscription


async def test_a_subscriber_with_handlers_is_not_asked_for_messages() -> None:
    subscriber = new_broker().subscriber("orders")

    @subscriber
    async def handle(_: str) -> None:
        pass

    with pytest.raises(SetupError, match="'orders': its messages go to handlers"):
        await subscriber.get_one()


async def test_a_message_that_comes_after_the_stop_is_delivered_again() -> None:
    with pytest.raises(Retry):
        await new_broker().subscriber("orders").subscription.handler(stored_message())  # type: ignore[misc] # a coroutine


def test_log_lines_name_topic_and_group() -> None:
    context = new_broker().subscriber("orders").get_log_context(None)
    assert context == {"message_id": "", "topic": "orders", "group": "billing"}


async def test_what_only_handlers_have_is_refused_where_messages_are_asked_for() -> None:
    subscriber = new_broker().subscriber("orders", group="large", broadcasting=True)
    with pytest.raises(SetupError, match="broadcasting is for handlers"):
        await subscriber.get_one(timeout=0)
