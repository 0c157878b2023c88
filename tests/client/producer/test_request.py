"""What makes a message a request, what makes one a reply, and what is read of a reply that is passed on."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.kit.messages import ASKED, HEADER, stored

from cometmq.client.producer import outgoing
from cometmq.client.producer.request import UNKNOWN_OFFSET, received_reply, reply_of, reply_topic, request_of
from cometmq.errors import MessageIllegal
from cometmq.format import properties
from cometmq.format.checksum import body_crc
from cometmq.format.compression import compress
from cometmq.format.sys_flag import CompressionType, compressed_with
from cometmq.message import Message, StoredMessage

READY = outgoing.single(Message("Prices", b"how much?", "t", ("k",), {"color": "red"}), "ID")


def named(ready: outgoing.Outgoing) -> dict[str, str]:
    return properties.decode(ready.properties.encode())


def test_a_request_says_who_asks_and_for_how_long() -> None:
    request = request_of(READY, "42", "10.0.0.1@asker", 3_000)
    assert named(request) == named(READY) | ASKED
    assert request == replace(READY, properties=request.properties, wants_reply=True)


def test_a_reply_repeats_what_its_request_asked() -> None:
    reply = reply_of(READY, stored(**ASKED, CLUSTER="c", KEYS="of the request"))
    assert named(reply) == named(READY) | ASKED | {"MSG_TYPE": "reply"}
    assert reply == replace(READY, properties=reply.properties, is_reply=True)


def test_a_request_without_a_time_limit_is_replied_to() -> None:
    without = {name: value for name, value in ASKED.items() if name != "TTL"}
    assert "TTL" not in named(reply_of(READY, stored(**without, CLUSTER="c")))


@pytest.mark.parametrize("make", [lambda ready: request_of(ready, "42", "c" * 32_700, 1)])
def test_properties_that_get_too_long_are_refused(make: Any) -> None:
    with pytest.raises(MessageIllegal, match="the limit is 32767"):
        make(READY)


def test_the_topic_of_a_reply_is_that_of_the_cluster() -> None:
    assert reply_topic(stored(**ASKED, CLUSTER="east")) == "east_REPLY_TOPIC"


@pytest.mark.parametrize("missing", ["CLUSTER", "CORRELATION_ID", "REPLY_TO_CLIENT"])
def test_what_asks_for_no_reply_has_no_topic_for_it(missing: str) -> None:
    has = {name: value for name, value in (ASKED | {"CLUSTER": "c"}).items() if name != missing}
    words = f"message ID of topic 'Prices' asks for no reply: it has no property {missing}; only"
    with pytest.raises(MessageIllegal, match=words):
        reply_topic(stored(**has))


def test_a_reply_is_read_as_it_was_sent() -> None:
    assert received_reply(HEADER, b"42 EUR", 3_000) == StoredMessage(
        topic="c_REPLY_TOPIC",
        queue_id=3,
        queue_offset=UNKNOWN_OFFSET,
        physical_offset=UNKNOWN_OFFSET,
        message_id="ID",
        offset_id="",
        tags="t",
        keys=("k", "l"),
        properties={**ASKED, "UNIQ_KEY": "ID", "TAGS": "t", "KEYS": "k  l", "ARRIVE_TIME": "3000"},
        body=b"42 EUR",
        flag=5,
        sys_flag=0,
        born_time=1_000,
        born_host="10.0.0.2:1234",
        store_time=2_000,
        store_host="10.0.0.3:10911",
        reconsume_times=1,
        body_crc=body_crc(b"42 EUR"),
    )


def test_a_body_is_left_as_it_came() -> None:
    packed, flag = compress(b"42 EUR" * 99, CompressionType.LZ4), compressed_with(0, CompressionType.LZ4)
    reply = received_reply(replace(HEADER, sys_flag=flag), packed, 0)
    assert (reply.body, reply.sys_flag, reply.body_crc) == (packed, flag, body_crc(packed))


def test_a_reply_without_properties_is_read() -> None:
    reply = received_reply(replace(HEADER, properties="\ud800"), b"x", 7)
    assert (reply.message_id, reply.tags, reply.keys) == ("", None, ())
    assert reply.properties == {"ARRIVE_TIME": "7"}
