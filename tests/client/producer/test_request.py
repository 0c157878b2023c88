"""What makes a message a request, what makes one a reply, and what is read of a reply that is passed on."""

import uuid
from typing import Any, cast

import pytest
from msgspec.structs import replace
from tests.kit.messages import ASKED, HEADER, stored

from cometmq.client.producer import outgoing
from cometmq.client.producer.request import (
    UNKNOWN_OFFSET,
    PendingReplies,
    received_reply,
    reply_of,
    reply_topic,
    request_of,
)
from cometmq.errors import HeaderError, MessageIllegal, NetworkError, UndecodableBody
from cometmq.format import properties
from cometmq.format.checksum import body_crc
from cometmq.format.compression import compress
from cometmq.format.sys_flag import CompressionType, compressed_with
from cometmq.io.clock import ManualClock
from cometmq.message import Message, StoredMessage
from cometmq.net.connection import Connection
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import ONEWAY_FLAG, Command
from cometmq.wire.headers import fields

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


class Wire:
    """Receives what the broker is answered."""

    def __init__(self) -> None:
        self.answers: list[Command] = []

    def send(self, command: Command) -> None:
        self.answers.append(command)


def pushed(correlation_id: str, body: bytes = b"yes", flag: int = 0, sys_flag: int = 0) -> Command:
    named = properties.encode({"CORRELATION_ID": correlation_id}).decode()
    header = replace(HEADER, properties=named, sys_flag=sys_flag)
    code = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
    return Command(code, opaque=7, flag=flag, ext_fields=fields(header), body=body)


def take(replies: PendingReplies, command: Command) -> list[Command]:
    """Deliver a reply; return what the broker is answered."""
    wire = Wire()
    replies.receive(cast(Connection, wire), command)
    return wire.answers


async def test_each_reply_goes_to_the_request_with_its_correlation_id() -> None:
    replies = PendingReplies(ManualClock())
    with replies.expect() as (one, first), replies.expect() as (two, second):
        assert uuid.UUID(one) != uuid.UUID(two)
        for correlation_id in (two, one):
            (answer,) = take(replies, pushed(correlation_id, correlation_id.encode()))
            assert (answer.code, answer.opaque, answer.remark) == (ResponseCode.SUCCESS, 7, None)
        assert ((await first).body, (await second).body) == (one.encode(), two.encode())
        assert int((await first).properties["ARRIVE_TIME"]) == ManualClock().now_ms()


@pytest.mark.parametrize("correlation_id", ["unknown", "", "past", "twice"])
async def test_a_reply_that_nobody_waits_for_is_logged_and_answered(
    correlation_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    replies = PendingReplies(ManualClock())
    with replies.expect() as (past, _):
        pass
    with replies.expect() as (twice, reply):
        take(replies, pushed(twice))
        ids = {"past": past, "twice": twice}
        (answer,) = take(replies, pushed(ids.get(correlation_id, correlation_id), b"no"))
        assert answer.code == ResponseCode.SUCCESS
        assert (await reply).body == b"yes"
    (record,) = caplog.records
    assert "of 10.0.0.2:1234 is dropped" in record.getMessage()


async def test_a_reply_that_wants_no_answer_gets_none() -> None:
    replies = PendingReplies(ManualClock())
    with replies.expect() as (correlation_id, reply):
        assert take(replies, pushed(correlation_id, flag=ONEWAY_FLAG)) == []
        assert (await reply).body == b"yes"


async def test_a_reply_without_its_fields_is_no_reply() -> None:
    command = pushed("42")
    del command.ext_fields["storeTimestamp"]
    with pytest.raises(HeaderError, match="storeTimestamp"):
        take(PendingReplies(ManualClock()), command)


async def test_who_has_given_up_waiting_does_not_get_it() -> None:
    replies = PendingReplies(ManualClock())
    with replies.expect() as (correlation_id, reply):
        reply.cancel()
        (answer,) = take(replies, pushed(correlation_id))
        assert answer.code == ResponseCode.SUCCESS and reply.cancelled()


async def test_closing_fails_what_waits_and_what_comes_later() -> None:
    replies = PendingReplies(ManualClock())
    with (
        replies.expect() as (_, reply),
        replies.expect() as (_, unseen),
        replies.expect() as (_, done),
    ):
        done.cancel()
        replies.close()
        with pytest.raises(NetworkError, match="closed before the reply came"):
            await reply
        assert unseen.done()
    with pytest.raises(NetworkError, match="this producer is closed"), replies.expect():
        pass


@pytest.mark.parametrize("kind", CompressionType)
async def test_the_body_of_a_reply_is_decompressed_if_the_flag_says_so(kind: CompressionType) -> None:
    replies, flag = PendingReplies(ManualClock()), compressed_with(0, kind)
    with replies.expect() as (one, reply):
        take(replies, pushed(one, compress(b"42 EUR" * 99, kind), sys_flag=flag))
        assert (reply.result().body, reply.result().sys_flag) == (b"42 EUR" * 99, flag & ~1)


async def test_a_reply_that_cannot_be_decompressed_is_an_error_and_not_what_came() -> None:
    replies = PendingReplies(ManualClock())
    with replies.expect() as (one, reply):
        take(replies, pushed(one, b"no zlib", sys_flag=1))
        with pytest.raises(UndecodableBody) as caught:
            await reply
        assert caught.value.message.body == b"no zlib"
