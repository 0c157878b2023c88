"""Requests and their replies, between the Java client and this one, at either broker."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.interop.jvm import Run
from tests.interop.messages import like_java
from tests.interop.patience import PATIENCE_S
from tests.interop.peers import Peer

from cometmq import Consumer, Message, Producer, Start, StoredMessage
from cometmq.format.properties import REPLY_TO_CLIENT

pytestmark = pytest.mark.interop

COUNT = 120
ASKED_WELL = {"asked": COUNT, "done": True, "strange": {}, "timeout": True}
ANSWERED_WELL = {"answered": COUNT, "strange": {}}


def lines_of(call: Callable[[], list[dict[str, Any]]]) -> "asyncio.Future[list[dict[str, Any]]]":
    """Run a Java program in a thread."""
    return asyncio.get_running_loop().run_in_executor(None, call)


def test_java_asks_and_java_answers(broker: Peer, run_java: Run) -> None:
    assert run_java("Ask", broker.namesrv, "JavaAsksJava", COUNT, "answered") == [ASKED_WELL, ANSWERED_WELL]


def test_java_asks_and_python_answers(broker: Peer, run_java: Run) -> None:
    topic = "JavaAsksPython"

    async def main() -> None:
        consumer = Consumer(broker.namesrv, topic, start=Start.FIRST)
        async with Producer(broker.namesrv) as replier:

            @consumer.on(topic)
            async def answer(message: StoredMessage) -> None:
                if REPLY_TO_CLIENT in message.properties:
                    await replier.reply(message, message.body, tags=message.tags, keys=message.keys)

            await replier.send(Message(topic, b"makes the topic"))
            async with consumer:
                asked = await lines_of(lambda: run_java("Ask", broker.namesrv, topic, COUNT, "alone"))
        assert asked == [ASKED_WELL]

    asyncio.run(main())


def test_python_asks_and_java_answers(broker: Peer, run_java: Run) -> None:
    topic = "PythonAsksJava"

    async def ask(producer: Producer, number: int) -> None:
        request = like_java(topic, "ask", number)
        reply = await producer.request(request, PATIENCE_S * 1000)
        assert (reply.body, reply.tags, reply.keys) == (request.body, request.tags, request.keys)

    async def main() -> None:
        async with Producer(broker.namesrv) as producer:
            await producer.send(Message(topic, b"makes the topic", keys=("hello-0",)))
            answering = lines_of(lambda: run_java("Answer", broker.namesrv, topic, COUNT))
            await asyncio.gather(*(ask(producer, number) for number in range(COUNT)))
            assert await answering == [ANSWERED_WELL]

    asyncio.run(main())
