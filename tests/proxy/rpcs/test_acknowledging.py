from typing import Any

from google.protobuf.duration_pb2 import Duration
from tests.proxy.conftest import Front

from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.settings import ProxySettings

NAMES: dict[str, Any] = {"group": pb.Resource(name="G"), "topic": pb.Resource(name="T")}
EXPIRED = "0 1000 1000 0 0 embedded 0 0 0"


async def received_one(front: Front) -> pb.Message:
    await front.create_topic("T", queues=1)
    await front.send("T", b"x")
    (message,) = await front.receive("T", "G", 1)
    return message


async def test_each_acknowledgement_has_its_outcome(front: Front) -> None:
    handle = (await received_one(front)).system_properties.receipt_handle
    entries = [
        pb.AckMessageEntry(message_id=text, receipt_handle=text) for text in (handle, EXPIRED, "no handle")
    ]
    answer = await front.client.call("AckMessage", pb.AckMessageRequest(entries=entries, **NAMES))
    assert answer.status.code == pb.MULTIPLE_RESULTS
    codes = {entry.message_id: entry.status.code for entry in answer.entries}
    assert codes == {
        handle: pb.OK,
        EXPIRED: pb.INVALID_RECEIPT_HANDLE,
        "no handle": pb.INVALID_RECEIPT_HANDLE,
    }
    again = await front.client.call("AckMessage", pb.AckMessageRequest(entries=entries[:1], **NAMES))
    assert again.status.code == pb.INVALID_RECEIPT_HANDLE


async def test_an_acknowledgement_of_nothing_fails(front: Front) -> None:
    answer = await front.client.call("AckMessage", pb.AckMessageRequest(**NAMES))
    assert answer.status.code == pb.INTERNAL_SERVER_ERROR


async def test_a_message_is_delivered_again_when_its_invisible_time_is_changed_to_nothing(
    front: Front,
) -> None:
    handle = (await received_one(front)).system_properties.receipt_handle
    request = pb.ChangeInvisibleDurationRequest(receipt_handle=handle, **NAMES)
    assert (await front.client.call("ChangeInvisibleDuration", request)).status.code == pb.OK
    (again,) = await front.receive("T", "G", 1)
    assert again.body == b"x" and again.system_properties.delivery_attempt == 2


async def test_a_changed_message_is_acknowledged_by_its_new_handle(front: Front) -> None:
    handle = (await received_one(front)).system_properties.receipt_handle
    request = pb.ChangeInvisibleDurationRequest(
        receipt_handle=handle, invisible_duration=Duration(seconds=10), **NAMES
    )
    changed = await front.client.call("ChangeInvisibleDuration", request)
    assert changed.status.code == pb.OK and changed.receipt_handle != handle
    assert changed.receipt_handle.split(" ")[8] == handle.split(" ")[8]
    entry = pb.AckMessageEntry(receipt_handle=changed.receipt_handle)
    answer = await front.client.call("AckMessage", pb.AckMessageRequest(entries=[entry], **NAMES))
    assert answer.status.code == pb.OK


async def test_an_invisible_time_that_is_too_long_is_refused(front: Front) -> None:
    request = pb.ChangeInvisibleDurationRequest(
        receipt_handle=EXPIRED, invisible_duration=Duration(seconds=12 * 3600 + 1), **NAMES
    )
    answer = await front.client.call("ChangeInvisibleDuration", request)
    assert answer.status.code == pb.ILLEGAL_INVISIBLE_TIME


async def test_a_forwarded_message_is_a_dead_letter_and_not_delivered_again(front: Front) -> None:
    handle = (await received_one(front)).system_properties.receipt_handle
    request = pb.ForwardMessageToDeadLetterQueueRequest(receipt_handle=handle, message_id="ID-x", **NAMES)
    answer = await front.client.call("ForwardMessageToDeadLetterQueue", request)
    assert answer.status.code == pb.OK
    (letter,) = front.broker.dead_letters("G")
    assert letter.body == b"x"
    await front.send("T", b"y")
    assert [message.body for message in await front.receive("T", "G", 1)] == [b"y"]


async def test_a_message_is_forwarded_once(front: Front) -> None:
    handle = (await received_one(front)).system_properties.receipt_handle
    request = pb.ForwardMessageToDeadLetterQueueRequest(receipt_handle=handle, message_id="ID-x", **NAMES)
    codes = [
        (await front.client.call("ForwardMessageToDeadLetterQueue", request)).status.code for _ in range(2)
    ]
    assert codes == [pb.OK, pb.INVALID_RECEIPT_HANDLE]
    assert len(front.broker.dead_letters("G")) == 1


async def test_a_handle_that_is_used_up_is_invalid(front: Front) -> None:
    handle = (await received_one(front)).system_properties.receipt_handle
    acknowledge = pb.AckMessageRequest(entries=[pb.AckMessageEntry(receipt_handle=handle)], **NAMES)
    assert (await front.client.call("AckMessage", acknowledge)).status.code == pb.OK
    assert (await front.client.call("AckMessage", acknowledge)).status.code == pb.INVALID_RECEIPT_HANDLE
    change = pb.ChangeInvisibleDurationRequest(
        receipt_handle=handle, invisible_duration=Duration(seconds=10), **NAMES
    )
    answer = await front.client.call("ChangeInvisibleDuration", change)
    assert answer.status.code == pb.INVALID_RECEIPT_HANDLE


async def test_an_acknowledgement_with_too_many_entries_is_refused(front: Front) -> None:
    entries = [pb.AckMessageEntry() for _ in range(ProxySettings().request_items_max + 1)]
    answer = await front.client.call("AckMessage", pb.AckMessageRequest(entries=entries, **NAMES))
    assert answer.status.code == pb.BAD_REQUEST
    assert "1001 entries in one request: at most 1000 are possible (requestItemsMax)" in answer.status.message
