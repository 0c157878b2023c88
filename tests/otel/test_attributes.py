"""Attributes, by the names of the semantic conventions."""

import pytest

pytest.importorskip("opentelemetry.sdk", reason="OpenTelemetry is not installed: it is in requirements.lock")

from opentelemetry.semconv._incubating.attributes import messaging_attributes
from opentelemetry.semconv.attributes import error_attributes
from tests.otel.spans import stored_message

from cometmq.message import Message
from cometmq.otel.attributes import ERROR_TYPE, attributes_of

OPERATION = {
    "messaging.system": "rocketmq",
    "messaging.operation.name": "send",
    "messaging.operation.type": "send",
}


def test_a_message_that_is_sent_shows_its_tag_keys_group_and_time() -> None:
    whole = Message("orders", b"body", "paid", ("1", "2"), sharding_key="42", delay_level=3)
    assert attributes_of("send", [whole]) == OPERATION | {
        "messaging.destination.name": "orders",
        "messaging.message.body.size": 4,
        "messaging.rocketmq.message.tag": "paid",
        "messaging.rocketmq.message.keys": ("1", "2"),
        "messaging.rocketmq.message.group": "42",
        "messaging.rocketmq.message.delay_time_level": 3,
    }
    timed = attributes_of("send", [Message("orders", b"", deliver_time=1_000)])
    assert timed["messaging.rocketmq.message.delivery_timestamp"] == 1_000


def test_a_batch_shows_its_size_and_its_topic_if_it_has_one() -> None:
    orders = [Message("orders", b"")] * 3
    of_one = {"messaging.destination.name": "orders", "messaging.batch.message_count": 3}
    assert attributes_of("send", orders) == OPERATION | of_one
    of_two = attributes_of("send", [*orders, Message("bills", b"")])
    assert of_two == OPERATION | {"messaging.batch.message_count": 4}


def test_the_conventions_have_all_these_names() -> None:
    known = vars(messaging_attributes).items()
    theirs = {value for name, value in known if name.startswith("MESSAGING_")} | {error_attributes.ERROR_TYPE}
    message = Message("orders", b"", "paid", ("1",), sharding_key="42", delay_level=3, deliver_time=0)
    names = {
        *attributes_of("send", [message]),
        *attributes_of("send", [Message("orders", b"", deliver_time=1)] * 2),
        *attributes_of("process", [stored_message({"TAGS": "paid"})]),
        "messaging.consumer.group.name",
        ERROR_TYPE,
    }
    assert names <= theirs and len(names) >= 12
