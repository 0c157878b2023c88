from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from tests.proxy.conftest import message_of

from cometmq.format import properties, sys_flag
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.messages.sent import checked_messages, outgoing_message, properties_of
from cometmq.proxy.outcomes import Failure

NOW_MS = 1_795_602_428_484
DAY_S = 86_400


def with_properties(**named: str) -> pb.Message:
    message = message_of("T")
    message.user_properties.update(named)
    return message


def refused(*messages: pb.Message) -> pb.Code:
    with pytest.raises(Failure) as caught:
        checked_messages(messages, NOW_MS)
    return caught.value.code


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (message_of("no topic"), pb.ILLEGAL_TOPIC),
        (message_of("T", b""), pb.MESSAGE_BODY_EMPTY),
        (message_of("T", bytes(4 * 1024 * 1024 + 1)), pb.MESSAGE_BODY_TOO_LARGE),
        (with_properties(TAGS="a"), pb.ILLEGAL_MESSAGE_PROPERTY_KEY),
        (with_properties(a="\x01"), pb.ILLEGAL_MESSAGE_PROPERTY_KEY),
        (with_properties(**{f"k{number}": "v" for number in range(129)}), pb.MESSAGE_PROPERTIES_TOO_LARGE),
        (with_properties(a="v" * 16 * 1024), pb.MESSAGE_PROPERTIES_TOO_LARGE),
        (message_of("T", tag="a|b"), pb.ILLEGAL_MESSAGE_TAG),
        (message_of("T", tag=" "), pb.ILLEGAL_MESSAGE_TAG),
        (message_of("T", keys=["a", " "]), pb.ILLEGAL_MESSAGE_KEY),
        (message_of("T", keys=[""] * (16 * 1024 + 1)), pb.MESSAGE_PROPERTIES_TOO_LARGE),
        (message_of("T", message_id=" "), pb.ILLEGAL_MESSAGE_ID),
        (
            message_of(
                "T",
                message_type=pb.TRANSACTION,
                orphaned_transaction_recovery_duration=Duration(seconds=3601),
            ),
            pb.BAD_REQUEST,
        ),
        (message_of("T", lite_topic="a.b"), pb.ILLEGAL_LITE_TOPIC),
        (
            message_of("T", delivery_timestamp=Timestamp(seconds=NOW_MS // 1000 + DAY_S + 1)),
            pb.ILLEGAL_DELIVERY_TIME,
        ),
        (message_of("T", message_group=" "), pb.ILLEGAL_MESSAGE_GROUP),
        (message_of("T", message_group="g" * 64), pb.ILLEGAL_MESSAGE_GROUP),
    ],
)
def test_a_message_that_breaks_a_rule_is_refused_with_its_code(message: pb.Message, code: pb.Code) -> None:
    assert refused(message) == code


def test_a_send_of_nothing_or_of_two_topics_is_refused() -> None:
    assert refused() == pb.MESSAGE_CORRUPTED
    assert refused(message_of("T"), message_of("U")) == pb.MESSAGE_CORRUPTED


def test_messages_at_the_limits_are_accepted() -> None:
    edge = Timestamp(seconds=NOW_MS // 1000 + DAY_S, nanos=NOW_MS % 1000 * 1_000_000)
    for system in ({"message_group": "g" * 63}, {"delivery_timestamp": edge}, {"tag": ""}):
        more: dict[str, Any] = dict(system)
        assert checked_messages([message_of("T", **more)], NOW_MS) == "T"
    assert checked_messages([message_of("T", bytes(4 * 1024 * 1024))], NOW_MS) == "T"


def test_what_the_client_says_becomes_properties() -> None:
    message = message_of(
        "T",
        message_id="ID",
        tag="red",
        keys=["k", "l"],
        message_group="g",
        born_timestamp=Timestamp(seconds=1, nanos=5_000_000),
        delivery_timestamp=Timestamp(seconds=2),
        trace_context="c",
    )
    message.user_properties["mine"] = "1"
    assert properties_of(message, "10.0.0.1:5") == {
        "mine": "1",
        properties.UNIQ_KEY: "ID",
        properties.PRODUCER_GROUP: "T",
        properties.BORN_HOST: "10.0.0.1:5",
        properties.TAGS: "red",
        properties.KEYS: "k l",
        properties.BORN_TIMESTAMP: "1005",
        properties.TIMER_DELIVER_MS: "2000",
        properties.SHARDING_KEY: "g",
        properties.TRACE_CONTEXT: "c",
    }


def test_a_half_message_says_so_and_when_it_may_be_checked() -> None:
    recovery = Duration(seconds=7)
    message = message_of("T", message_type=pb.TRANSACTION, orphaned_transaction_recovery_duration=recovery)
    named = properties_of(message, "")
    assert named[properties.TRANSACTION_PREPARED] == "true" and named[properties.CHECK_IMMUNITY_TIME] == "7"
    flags = outgoing_message(message, named).sys_flag
    assert sys_flag.transaction_type(flags) == sys_flag.TRANSACTION_PREPARED


def test_a_compressed_body_is_stored_as_it_is() -> None:
    message = message_of("T", b"zip", body_encoding=pb.GZIP, born_timestamp=Timestamp(seconds=3))
    ready = outgoing_message(message, properties_of(message, ""))
    assert ready.body == b"zip" and ready.sys_flag == sys_flag.COMPRESSED and ready.born_time == 3000
