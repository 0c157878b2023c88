"""What asks by a message and who replies to it: ``tests/interop`` runs these against a Java broker, too."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from tests.consuming import Basket

from cometmq import Consumer, Message, Producer, PullConsumer, SendStatus, Start, StoredMessage
from cometmq.errors import MessageIllegal, NetworkError, RemoteError, RequestTimeout
from cometmq.format.properties import REPLY_TO_CLIENT

PATIENCE_S = 90
PATIENCE_MS = PATIENCE_S * 1_000

Answer = Callable[[StoredMessage], Awaitable[object]]


@asynccontextmanager
async def answering(name_server: str, topic: str, answer: Answer) -> AsyncIterator[Producer]:
    """Answer the requests to a topic by a consumer; provide a producer to ask with."""
    begun = asyncio.Event()

    async def handle(message: StoredMessage) -> None:
        if REPLY_TO_CLIENT in message.properties:
            await answer(message)
        else:
            begun.set()

    consumer = Consumer(name_server, topic, start=Start.FIRST)
    consumer.subscribe(topic, handle)
    async with Producer(name_server, topic) as producer:
        await producer.send(Message(topic, b"makes the topic"))
        async with consumer:
            await begun.wait()
            yield producer


async def test_a_request_is_answered_by_who_consumes_it(name_server: str, topic: str) -> None:
    asked: list[StoredMessage] = []
    results = []

    async with Producer(name_server) as replier:

        async def answer(message: StoredMessage) -> None:
            asked.append(message)
            body = message.body.upper()
            results.append(
                await replier.reply(message, body, tags="t", keys=("k", "l"), properties={"color": "red"})
            )

        async with answering(name_server, topic, answer) as producer:
            message = Message(topic, b"how much?" * 1_000, "prices", ("42",), {"mood": "calm"}, flag=5)
            reply = await producer.request(message, PATIENCE_MS)
    assert reply.body == b"HOW MUCH?" * 1_000  # both were compressed
    assert (reply.tags, reply.keys, reply.properties["color"]) == ("t", ("k", "l"), "red")
    assert reply.topic == "DefaultCluster_REPLY_TOPIC"
    (request,), (result,) = asked, results
    assert (request.body, request.tags, request.keys, request.flag) == (
        message.body,
        "prices",
        ("42",),
        5,
    )
    assert (request.properties["mood"], request.properties["TTL"]) == ("calm", str(PATIENCE_MS))
    assert reply.properties["CORRELATION_ID"] == request.properties["CORRELATION_ID"]
    assert result.status is SendStatus.SEND_OK
    assert result.message_id == reply.message_id
    assert reply.store_host == request.store_host
    assert 0 <= int(reply.properties["ARRIVE_TIME"]) - int(reply.properties["PUSH_REPLY_TIME"]) < PATIENCE_MS

    async with PullConsumer(name_server, "readers") as reader:  # the broker keeps a copy
        (copy, *_) = (await reader.pull(result.queue, result.queue_offset)).messages
    kept = dict(reply.properties)
    del kept["ARRIVE_TIME"], kept["PUSH_REPLY_TIME"]
    assert copy.properties == kept


async def test_requests_that_are_made_together_get_each_its_own_reply(name_server: str, topic: str) -> None:
    async with Producer(name_server) as replier, Producer(name_server) as another:

        async def answer(message: StoredMessage) -> None:
            await replier.reply(message, b"to " + message.body)

        async with answering(name_server, topic, answer) as producer:
            askers = (producer, another)
            replies = await asyncio.gather(
                *(
                    askers[number % 2].request(Message(topic, b"%d" % number), PATIENCE_MS)
                    for number in range(50)
                )
            )
    assert [reply.body for reply in replies] == [b"to %d" % number for number in range(50)]


async def test_a_request_that_nobody_answers_times_out_and_a_late_reply_is_dropped(
    name_server: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    asked: asyncio.Queue[StoredMessage] = asyncio.Queue()
    async with answering(name_server, topic, asked.put) as producer:
        with pytest.raises(RequestTimeout) as raised:
            await producer.request(Message(topic, b"anybody?"), 500)
        request = await asked.get()
        assert str(raised.value) == (
            f"no reply to message {request.message_id} of topic '{topic}' within 500 ms: "
            "see that a consumer replies, or give a larger timeout_ms"
        )
        assert (await producer.reply(request, b"late")).status is SendStatus.SEND_OK
        assert f"the reply '{request.properties['CORRELATION_ID']}' of" in caplog.text
        assert "is dropped" in caplog.text


async def test_a_reply_to_a_producer_that_is_gone_is_refused(name_server: str, topic: str) -> None:
    asked: asyncio.Queue[StoredMessage] = asyncio.Queue()
    async with answering(name_server, topic, asked.put) as replier:
        async with Producer(name_server) as producer:
            asking = asyncio.create_task(producer.request(Message(topic, b"anybody?"), PATIENCE_MS))
            request = await asked.get()
        with pytest.raises(NetworkError, match="closed before the reply"):
            await asking
        client_id = request.properties[REPLY_TO_CLIENT]
        with pytest.raises(RemoteError, match=rf"channel of <{client_id}> not found"):
            await replier.reply(request, b"too late")


async def test_what_is_no_request_cannot_be_replied_to(name_server: str, topic: str) -> None:
    basket = Basket()
    consumer = Consumer(name_server, topic, start=Start.FIRST)
    consumer.subscribe(topic, basket.put)
    async with Producer(name_server) as producer:
        await producer.send(Message(topic, b"just so"))
        async with consumer:
            await basket.has(1)
        with pytest.raises(MessageIllegal, match="asks for no reply: it has no property CORRELATION_ID"):
            await producer.reply(basket.messages[0], b"to whom?")
