"""When traces are sent, and how they are found."""

import asyncio
from collections.abc import Awaitable

from cometmq.client.trace import FLUSH_COUNT, TopicTrace, Tracer, trace_messages
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
