"""What is told of sends, and what is not."""

import pytest

from cometmq.client.producer import outgoing
from cometmq.client.producer.hooks import Attempt
from cometmq.client.producer.send_result import SendResult, SendStatus
from cometmq.client.producer.send_trace import IDS_MAX, SendTracer, trace_of
from cometmq.client.producer.transaction import half_message
from cometmq.message import Message, MessageQueue
from cometmq.wire.bodies.trace import MessageKind, PubTrace, decode
from cometmq.wire.codes import ResponseCode
from cometmq.wire.frame import Command

QUEUE = MessageQueue("Orders", "broker-a", 0)


def attempt(message: Message, unique_id: str = "ID", **ext_fields: str) -> Attempt:
    return Attempt(
        "shop",
        outgoing.single(message, unique_id),
        QUEUE,
        "127.0.0.1:10911",
        1_000,
        cost_ms=7,
        answer=Command(ResponseCode.SUCCESS, ext_fields=ext_fields),
        result=SendResult(SendStatus.SEND_OK, unique_id, "OFFSET", QUEUE, 0),
    )


def test_a_send_that_was_answered_is_told_of() -> None:
    message = Message("Orders", b"paid", "TagA", ("k1", "k2"), delay_level=3)
    trace = trace_of(attempt(message, MSG_REGION="here"))
    assert trace == (
        *(1_000, "here", "shop", "Orders", "ID", "TagA", "k1 k2", "127.0.0.1:10911", 4, 7),
        *(MessageKind.DELAYED, "OFFSET", True),
    )


@pytest.mark.parametrize("message", [Message("T", b"x", delay_ms=1), Message("T", b"x", deliver_time=1)])
def test_a_timed_message_is_told_of_as_delayed(message: Message) -> None:
    trace = trace_of(attempt(message))
    assert trace is not None and trace.kind is MessageKind.DELAYED


def test_a_half_message_is_told_of_as_one() -> None:
    half_sent = attempt(Message("Orders", b"x"))
    half_sent.ready = half_message(half_sent.ready, "shop")
    trace = trace_of(half_sent)
    assert trace is not None and trace.kind is MessageKind.HALF


def test_a_broker_can_forbid_it_and_failures_are_not_told() -> None:
    assert trace_of(attempt(Message("Orders", b"x"), TRACE_ON="false")) is None
    failed = attempt(Message("Orders", b"x"))
    failed.result = None
    assert trace_of(failed) is None


@pytest.mark.parametrize("is_one_record", [False, True])
async def test_a_large_batch_is_told_of_in_parts_that_each_fit_into_a_message(*, is_one_record: bool) -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        outgoing.single(message, "ID" * 16)
        sent.append(message)

    ids = [f"{number:032X}" for number in range(2 * IDS_MAX + 1)]
    offset_ids = ["0" * 32] if is_one_record else [f"{number:032x}" for number in range(len(ids))]
    batch = attempt(Message("Orders", b"x"))
    batch.ready = outgoing.many([Message("Orders", b"x")] * len(ids), ids, "BATCH")
    batch.result = SendResult(SendStatus.SEND_OK, ids[0], ",".join(offset_ids), QUEUE, 0)
    tracer = SendTracer(send)
    tracer.after_send(batch)
    await tracer.close()
    assert [key for message in sent for key in message.keys] == ids
    parts = [one for message in sent for one in decode(message.body) if isinstance(one, PubTrace)]
    assert [key for one in parts for key in one.message_id.split(",")] == ids
    told = [key for one in parts for key in one.offset_id.split(",")]
    assert told == offset_ids * (len(parts) if is_one_record else 1)


async def test_sends_are_told_of_when_the_producer_closes_at_the_latest() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    tracer = SendTracer(send)
    answered = attempt(Message("Orders", b"x"))
    for one in (answered, attempt(Message("Orders", b"x"), TRACE_ON="false")):
        tracer.before_send(one)
        tracer.after_send(one)
    await tracer.close()
    assert [decode(message.body) for message in sent] == [[trace_of(answered)]]
