"""What is told of sends, when, and what is not."""

import asyncio
from collections.abc import Awaitable

from cometmq.client import outgoing
from cometmq.client.hooks import Attempt
from cometmq.client.send_result import SendResult, SendStatus
from cometmq.client.trace import FLUSH_COUNT, Tracer, messages_of, trace_of
from cometmq.errors import NetworkError
from cometmq.message import Message, MessageQueue
from cometmq.wire.bodies.trace import TRACE_TOPIC, MessageKind, decode
from cometmq.wire.codes import ResponseCode
from cometmq.wire.frame import Command

QUEUE = MessageQueue("Orders", "broker-a", 0)


def attempt(message: Message, unique_id: str = "ID", **ext_fields: str) -> Attempt:
    return Attempt(
        "shop",
        outgoing.one(message, unique_id),
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


def test_a_broker_can_forbid_it_and_failures_are_not_told() -> None:
    assert trace_of(attempt(Message("Orders", b"x"), TRACE_ON="false")) is None
    failed = attempt(Message("Orders", b"x"))
    failed.result = None
    assert trace_of(failed) is None


def test_traces_of_a_topic_share_a_message_that_is_found_by_their_ids_and_keys() -> None:
    sends = [attempt(Message(f"T{n % 2}", b"x", keys=(f"k{n}",)), f"id{n}") for n in range(4)]
    traces = [trace for send in sends if (trace := trace_of(send)) is not None]
    first, second = messages_of(traces)
    assert first.topic == second.topic == TRACE_TOPIC
    assert (first.keys, second.keys) == (("id0", "id2", "k0", "k2"), ("id1", "id3", "k1", "k3"))
    assert [trace.message_id for trace in decode(first.body)] == ["id0", "id2"]


def test_traces_leave_by_twenty_and_the_rest_at_the_end() -> None:
    async def main() -> None:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        tracer = Tracer(send)
        for number in range(FLUSH_COUNT + 1):
            tracer.after_send(attempt(Message("Orders", b"x"), f"id{number}"))
        await asyncio.sleep(0)
        assert [len(decode(message.body)) for message in sent] == [FLUSH_COUNT]
        await tracer.close()
        assert [len(decode(message.body)) for message in sent] == [FLUSH_COUNT, 1]

    asyncio.run(main())


def test_traces_that_cannot_be_sent_are_lost_quietly() -> None:
    def send(message: Message) -> Awaitable[object]:
        raise NetworkError(message.topic)

    async def main() -> None:
        tracer = Tracer(send)
        tracer.after_send(attempt(Message("Orders", b"x")))
        await tracer.close()

    asyncio.run(main())
