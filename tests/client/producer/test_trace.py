"""When traces are sent, and how they are found."""

import asyncio
from collections.abc import Awaitable

from cometmq.client.producer import outgoing
from cometmq.client.producer.trace import (
    BODY_BYTES_MAX,
    FLUSH_COUNT,
    KEYS_BYTES_MAX,
    TopicTrace,
    Tracer,
    trace_messages,
)
from cometmq.errors import NetworkError
from cometmq.message import Message
from cometmq.wire.bodies.trace import TRACE_TOPIC, BeforeTrace, decode


def trace(number: int, keys: str = "") -> BeforeTrace:
    return BeforeTrace(1_000, "here", "shop", "REQUEST", f"id{number}", 0, keys)


def test_traces_of_a_topic_share_a_message_that_is_found_by_their_ids_and_keys() -> None:
    first, second = trace_messages([TopicTrace(f"T{n % 2}", trace(n, f"k{n} all")) for n in range(4)])
    assert first.topic == second.topic == TRACE_TOPIC
    assert (first.keys, second.keys) == (("all", "id0", "id2", "k0", "k2"), ("all", "id1", "id3", "k1", "k3"))
    assert [trace.message_id for trace in decode(first.body)] == ["id0", "id2"]


def test_traces_whose_keys_do_not_fit_into_one_message_are_sent_in_several() -> None:
    """Each handled message brings its keys; twenty with two thousand bytes of them exceed a message."""
    traces = [trace(number, f"{number}".zfill(2_000)) for number in range(FLUSH_COUNT)]
    messages = trace_messages([TopicTrace("T", one) for one in traces])
    assert [one for message in messages for one in decode(message.body)] == traces
    assert len(messages) == 2
    for message in messages:
        assert {key for one in decode(message.body) for key in (one.message_id, one.keys)} == {*message.keys}
        assert len(" ".join(message.keys)) <= KEYS_BYTES_MAX
        outgoing.single(message, "ID" * 16)


def test_traces_whose_records_do_not_fit_into_one_message_are_sent_in_several() -> None:
    traces = [trace(0)._replace(request_id=f"{number}".zfill(BODY_BYTES_MAX // 2)) for number in range(3)]
    messages = trace_messages([TopicTrace("T", one) for one in traces])
    assert [decode(message.body) for message in messages] == [[one] for one in traces]


async def test_traces_leave_by_twenty_and_the_rest_at_the_end() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    tracer = Tracer(send)
    for number in range(FLUSH_COUNT + 1):
        tracer.record("Orders", trace(number))
    await asyncio.sleep(0)
    assert [len(decode(message.body)) for message in sent] == [FLUSH_COUNT]
    await tracer.close()
    assert [len(decode(message.body)) for message in sent] == [FLUSH_COUNT, 1]


async def test_traces_that_cannot_be_sent_are_lost_quietly() -> None:
    def send(message: Message) -> Awaitable[object]:
        raise NetworkError(message.topic)

    tracer = Tracer(send)
    tracer.record("Orders", trace(0))
    await tracer.close()
