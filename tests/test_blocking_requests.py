"""Requests and replies of threads."""

from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from threading import Event

import pytest

from cometmq.blocking import Consumer, Producer
from cometmq.client import SendStatus, Start
from cometmq.errors import MessageIllegal, NetworkError, RequestTimeout
from cometmq.message import Message, StoredMessage

PATIENCE_S = 60
PATIENCE_MS = PATIENCE_S * 1_000


def test_threads_ask_and_reply(name_server: str, topic: str) -> None:
    begun, results = Event(), SimpleQueue[SendStatus]()
    with Producer(name_server) as replier, Producer(name_server, topic) as producer:
        consumer = Consumer(name_server, topic, start=Start.FIRST)

        @consumer.on(topic)
        def answer(message: StoredMessage) -> None:
            try:
                sent = replier.reply(
                    message, message.body.upper(), tags="t", keys=("k",), properties={"a": "b"}
                )
            except MessageIllegal:
                begun.set()
            else:
                results.put(sent.status)

        producer.send(Message(topic, b"no request"))
        with consumer, ThreadPoolExecutor(8) as threads:
            assert begun.wait(PATIENCE_S)
            messages = [Message(topic, b"%d x" % number) for number in range(40)]
            replies = list(threads.map(lambda message: producer.request(message, PATIENCE_MS), messages))
            assert [results.get(timeout=PATIENCE_S) for _ in replies] == [SendStatus.SEND_OK] * 40
    assert [reply.body for reply in replies] == [b"%d X" % number for number in range(40)]
    assert {(reply.tags, reply.keys, reply.properties["a"]) for reply in replies} == {("t", ("k",), "b")}


def test_a_request_without_a_reply_times_out(name_server: str, topic: str) -> None:
    with Producer(name_server) as producer, pytest.raises(RequestTimeout, match="no reply to message"):
        producer.request(Message(topic, b"anybody?"), timeout_ms=100)


def test_closing_the_producer_ends_the_wait_of_threads(name_server: str, topic: str) -> None:
    with ThreadPoolExecutor(1) as thread, Producer(name_server) as producer:
        producer.send(Message(topic, b"makes the topic"))
        asking = thread.submit(producer.request, Message(topic, b"anybody?"), PATIENCE_MS)
        while not producer._client._replies._waiting:
            producer.queues(topic)  # let the loop have its turn
        producer.__exit__(None)
        with pytest.raises(NetworkError):
            asking.result(PATIENCE_S)
