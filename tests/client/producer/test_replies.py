"""Replies that are waited for: whose they are, and what the broker is answered."""

import uuid
from typing import cast

import pytest
from msgspec.structs import replace
from tests.kit.messages import HEADER

from cometmq.client.producer.replies import PendingReplies
from cometmq.errors import HeaderError, NetworkError, UndecodableBody
from cometmq.format import properties
from cometmq.format.compression import compress
from cometmq.format.sys_flag import CompressionType, compressed_with
from cometmq.io.clock import ManualClock
from cometmq.net.connection import Connection
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import ONEWAY_FLAG, Command
from cometmq.wire.headers import fields


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
