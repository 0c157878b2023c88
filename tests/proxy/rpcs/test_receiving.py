import asyncio
import sys
import zlib
from collections.abc import Iterable

import pytest
from google.protobuf.duration_pb2 import Duration
from tests.kit.grpc_clients import pop_is_held
from tests.proxy.conftest import Front, receive_request

from cometmq import Producer
from cometmq.message import Message, StoredMessage
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.http2.unsent import AnswersHeld, Recipient
from cometmq.proxy.rpcs import receiving
from cometmq.proxy.settings import ProxySettings
from cometmq.proxy.transport import Call


async def test_a_held_receive_ends_with_the_message(front: Front) -> None:
    await front.create_topic("T")
    request = receive_request("T", "G", long_polling_timeout=Duration(seconds=20))
    receiving = asyncio.create_task(front.client.receive(request))
    await front.send("T", b"late")
    status, messages = await receiving
    assert status.code == pb.OK and [message.body for message in messages] == [b"late"]


async def test_messages_are_filtered_by_tag(front: Front) -> None:
    await front.create_topic("T", queues=1)
    only_red = pb.FilterExpression(type=pb.TAG, expression="red || green")
    for tag in ("blue", "red", "green"):
        await front.send("T", tag.encode(), tag=tag)
    found = await front.receive("T", "G", 2, filter_expression=only_red)
    assert [message.system_properties.tag for message in found] == ["red", "green"]


async def test_messages_are_filtered_by_sql(front: Front) -> None:
    await front.create_topic("T", queues=1)
    sql = pb.FilterExpression(type=pb.SQL, expression="TAGS = 'red'")
    for tag in ("blue", "red"):
        await front.send("T", tag.encode(), tag=tag)
    (message,) = await front.receive("T", "G", 1, filter_expression=sql)
    assert message.body == b"red"


@pytest.mark.parametrize(
    "wanted",
    [
        pb.FilterExpression(type=pb.TAG, expression="||"),
        pb.FilterExpression(type=pb.SQL, expression="a = "),
    ],
)
async def test_a_filter_that_cannot_be_parsed_is_refused(front: Front, wanted: pb.FilterExpression) -> None:
    await front.create_topic("T")
    status, _ = await front.client.receive(receive_request("T", "G", filter_expression=wanted))
    assert status.code == pb.ILLEGAL_FILTER_EXPRESSION


async def test_times_that_are_too_short_are_refused(front: Front) -> None:
    await front.create_topic("T")
    request = receive_request("T", "G", invisible_duration=Duration(seconds=9))
    assert (await front.client.receive(request))[0].code == pb.ILLEGAL_INVISIBLE_TIME
    status, _ = await front.client.receive(receive_request("T", "G"), timeout_s=3)
    assert status.code == pb.ILLEGAL_POLLING_TIME


async def test_a_compressed_body_arrives_as_it_was(front: Front) -> None:
    await front.create_topic("T", queues=1)
    front.broker.send(Message("T", b"x" * 10_000))
    (message,) = await front.receive("T", "G", 1)
    assert message.body == b"x" * 10_000
    assert message.system_properties.body_encoding == pb.IDENTITY


async def test_a_client_that_can_decompress_a_body_gets_it_as_it_is(front: Front) -> None:
    await front.create_topic("T", queues=1)
    async with Producer(front.broker.name_server) as producer:
        await producer.send(Message("T", b"x" * 10_000))
    client = front.client._replace(metadata={**front.client.metadata, "x-mq-language": "JAVA"})
    _, (message,) = await client.receive(receive_request("T", "G"))
    assert zlib.decompress(message.body) == b"x" * 10_000
    assert message.system_properties.body_encoding == pb.GZIP


async def test_messages_that_there_is_no_room_for_are_delivered_again(front: Front) -> None:
    await front.create_topic("T", queues=1)
    await front.send("T", b"1", b"2")
    unsent = front.proxy._server._shared.unsent
    others = Recipient(unsent, lambda _: None)
    held = others.hold(unsent.messages_max - 1)
    status, messages = await front.client.receive(receive_request("T", "G"))
    assert status.code == pb.TOO_MANY_REQUESTS and messages == []
    others.release(held)
    found = await front.receive("T", "G", 2)
    assert {message.system_properties.delivery_attempt for message in found} == {1}
    assert unsent.bytes == 0


async def test_a_refusal_that_waits_for_its_client_keeps_no_messages(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    unsent, popped = front.proxy._server._shared.unsent, list[StoredMessage]()

    def more_than_fit(messages: Iterable[StoredMessage]) -> int:
        popped.extend(messages)
        return unsent.messages_max

    monkeypatch.setattr(receiving, "held_bytes", more_than_fit)
    await front.create_topic("T", queues=1)
    await front.send("T", b"1")
    recipient = Recipient(unsent, lambda _: None)
    recipient.hold(1)
    call = Call(front.client.metadata, "peer", answers=AnswersHeld(recipient))
    answers = front.proxy._receiving.receive_message(receive_request("T", "G"), call)
    refusal = await anext(answers)
    assert refusal.status.code == pb.TOO_MANY_REQUESTS
    await asyncio.gather(*front.proxy._receiving._abandoned)
    references = sys.getrefcount(popped[0])
    assert references <= 2  # our list, and the argument


async def test_nobody_pops_while_too_much_is_unread(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "ROOM_S", 0)
    await front.create_topic("T", queues=1)
    await front.send("T", b"1")
    unsent = front.proxy._server._shared.unsent
    Recipient(unsent, lambda _: None).hold(unsent.messages_max)
    status, messages = await front.client.receive(receive_request("T", "G"))
    assert status.code == pb.TOO_MANY_REQUESTS and messages == []
    assert "unread" in status.message


async def test_what_a_client_that_has_gone_would_have_received_comes_again_soon(front: Front) -> None:
    await front.create_topic("T", queues=1)
    request = receive_request("T", "G", long_polling_timeout=Duration(seconds=20))
    receiving = asyncio.create_task(front.client.receive(request))
    await pop_is_held(front, "G", "T")
    receiving.cancel()
    await asyncio.gather(receiving, return_exceptions=True)
    await front.send("T", b"x")
    (message,) = await front.receive("T", "G", 1)
    assert message.body == b"x"


async def test_a_message_that_has_failed_too_often_becomes_a_dead_letter(front: Front) -> None:
    await front.create_topic("T", queues=1)
    await front.create_group("G", retry_max_times=0)
    await front.send("T", b"x")
    (first,) = await front.receive("T", "G", 1)
    change = pb.ChangeInvisibleDurationRequest(
        group=pb.Resource(name="G"),
        topic=pb.Resource(name="T"),
        receipt_handle=first.system_properties.receipt_handle,
    )
    assert (await front.client.call("ChangeInvisibleDuration", change)).status.code == pb.OK
    while not front.broker.dead_letters("G"):
        await front.client.receive(receive_request("T", "G"))
    (letter,) = front.broker.dead_letters("G")
    assert letter.body == b"x"


async def test_a_message_of_an_ordered_group_that_comes_again_says_so(front: Front) -> None:
    await front.create_topic("T", "FIFO", queues=1)
    await front.create_group("G", consume_message_orderly=True)
    await front.send("T", b"x", message_group="g")
    (first,) = await front.receive("T", "G", 1)
    change = pb.ChangeInvisibleDurationRequest(
        group=pb.Resource(name="G"),
        topic=pb.Resource(name="T"),
        receipt_handle=first.system_properties.receipt_handle,
    )
    assert (await front.client.call("ChangeInvisibleDuration", change)).status.code == pb.OK
    (again,) = await front.receive("T", "G", 1)
    attempts = [one.system_properties.delivery_attempt for one in (first, again)]
    assert attempts == [1, 2]


async def test_a_client_that_handles_too_many_messages_gets_no_more_until_it_acknowledges_some(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = ProxySettings(handled_messages_max=2)
    monkeypatch.setattr(front.proxy._renewals, "_limits", limits)
    await front.create_topic("T", queues=1)
    await front.send("T", b"1", b"2", b"3")
    request = receive_request("T", "G", auto_renew=True, batch_size=2)
    _, (first, _) = await front.client.receive(request)
    status, messages = await front.client.receive(request)
    assert status.code == pb.TOO_MANY_REQUESTS and messages == [] and "handledMessagesMax" in status.message
    handle = pb.AckMessageEntry(receipt_handle=first.system_properties.receipt_handle)
    names = {"group": pb.Resource(name="G"), "topic": pb.Resource(name="T")}
    await front.client.call("AckMessage", pb.AckMessageRequest(entries=[handle], **names))
    _, (third,) = await front.client.receive(request)
    assert third.body == b"3"
