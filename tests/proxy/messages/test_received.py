from typing import Any

from msgspec.structs import replace
from tests.kit.grpc_clients import STORED
from tests.proxy.conftest import message_of

from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.messages.received import received_message, timestamp_of
from cometmq.proxy.messages.sent import properties_of


def test_a_client_receives_all_that_is_known_of_a_message() -> None:
    message = received_message(STORED, "handle")
    system = message.system_properties
    assert message.topic.name == "T" and message.body == b"body"
    assert dict(message.user_properties) == {"mine": "1", "__SHARDINGKEY": "g"}
    assert (system.tag, list(system.keys), system.message_id) == ("red", ["k", "l"], "ID")
    assert (system.queue_id, system.queue_offset, system.delivery_attempt) == (3, 7, 3)
    assert (system.born_host, system.store_host) == ("10.0.0.1:5", "10.0.0.2:6")
    assert system.born_timestamp == timestamp_of(1005) and system.store_timestamp == timestamp_of(2000)
    assert system.message_type == pb.FIFO and system.message_group == "g"
    assert system.receipt_handle == "handle" and not system.HasField("lite_topic")


def test_the_digest_is_that_of_the_body_as_it_is_sent() -> None:
    digest = received_message(STORED).system_properties.body_digest
    assert digest == pb.Digest(type=pb.MD5, checksum="841A2D689AD86BD1611447453C22C6FC")


def test_the_encoding_says_whether_the_body_is_still_compressed() -> None:
    assert received_message(STORED).system_properties.body_encoding == pb.IDENTITY
    assert received_message(replace(STORED, sys_flag=1)).system_properties.body_encoding == pb.GZIP


def test_a_delayed_message_and_a_dead_letter_say_where_they_come_from() -> None:
    named: dict[str, Any] = {
        "TIMER_DELIVER_MS": "5001",
        "DLQ_ORIGIN_TOPIC": "U",
        "DLQ_ORIGIN_MESSAGE_ID": "old",
        "__BORNHOST": "1.2.3.4:5",
    }
    system = received_message(replace(STORED, properties=named)).system_properties
    assert system.delivery_timestamp == timestamp_of(5001) and system.message_type == pb.DELAY
    assert (system.dead_letter_queue.topic, system.dead_letter_queue.message_id) == ("U", "old")
    assert system.born_host == "1.2.3.4:5"


def test_what_was_sent_is_received() -> None:
    sent = message_of(
        "T", b"body", message_id="ID", tag="t", keys=["a"], message_group="g", trace_context="c"
    )
    sent.user_properties["mine"] = "1"
    stored = replace(STORED, tags="t", keys=("a",), properties=properties_of(sent, ""))
    system = received_message(stored).system_properties
    assert (system.tag, list(system.keys), system.message_group) == ("t", ["a"], "g")
    assert system.trace_context == "c"
