"""Transactions of the Python clients at a real broker: the committed arrives, what is left open is asked."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import pytest
from tests.consuming import Basket
from tests.interop.patience import PATIENCE_S
from tests.interop.peers import Peer

from cometmq import Message, StoredMessage, TransactionState, blocking
from cometmq.client import Consumer, Start, TransactionProducer

pytestmark = pytest.mark.interop

COMMIT, ROLLBACK, UNKNOWN = TransactionState


@pytest.fixture
def name_server(asking_broker: Peer) -> str:
    return asking_broker.namesrv


async def nobody_asks(message: StoredMessage) -> TransactionState:
    raise AssertionError(f"nobody was to ask about {message.keys}")


def consumer_of(name_server: str, topic: str, basket: Basket) -> Consumer:
    consumer = Consumer(name_server, topic, start=Start.FIRST)
    consumer.subscribe(topic, basket.put)
    return consumer


async def commit(_: Message) -> TransactionState:
    return COMMIT


async def roll_back(_: Message) -> TransactionState:
    return ROLLBACK


async def leave_open(_: Message) -> TransactionState:
    return UNKNOWN


async def test_what_is_committed_arrives_and_what_is_rolled_back_does_not(
    name_server: str, topic: str
) -> None:
    basket = Basket()
    async with (
        asyncio.timeout(PATIENCE_S),
        TransactionProducer(name_server, topic, check=nobody_asks) as producer,
    ):
        await producer.send(Message(topic, b"makes the topic"))
        async with consumer_of(name_server, topic, basket):
            await basket.has(1)
            rolled_back = await producer.send_in_transaction(Message(topic, b"no"), roll_back)
            body = b"yes" * 5_000  # is compressed
            message = Message(topic, body, "paid", ("42",), {"color": "red"}, flag=5)
            committed = await producer.send_in_transaction(message, commit)
            assert (rolled_back.state, committed.state) == (ROLLBACK, COMMIT)
            assert await basket.has(2) == [b"makes the topic", body]
        got = basket.messages[1]
        assert (got.message_id, got.tags, got.keys, got.flag) == (
            committed.sent.message_id,
            "paid",
            ("42",),
            5,
        )
        assert got.properties["color"] == "red"
        assert got.queue_id == committed.sent.queue.queue_id


async def test_what_is_left_open_is_asked_until_it_is_told(name_server: str, topic: str) -> None:
    basket = Basket()
    asked: list[StoredMessage] = []

    async def check(message: StoredMessage) -> TransactionState:
        asked.append(message)
        if len(asked) == 1:
            raise ValueError("not yet")
        return COMMIT

    async with (
        asyncio.timeout(PATIENCE_S),
        TransactionProducer(name_server, topic, check=check) as producer,
    ):
        await producer.send(Message(topic, b"makes the topic"))
        async with consumer_of(name_server, topic, basket):
            await basket.has(1)
            result = await producer.send_in_transaction(Message(topic, b"later", keys=("42",)), leave_open)
            await basket.has(2)
        assert {message.keys for message in asked} == {("42",)}
        assert {message.topic for message in asked} == {topic}
        assert {message.message_id for message in asked} == {result.sent.message_id}
        assert basket.messages[1].message_id == result.sent.message_id


async def test_what_a_failure_left_open_is_asked_and_rolled_back(name_server: str, topic: str) -> None:
    basket, asked = Basket(), asyncio.Event()

    async def check(_: StoredMessage) -> TransactionState:
        asked.set()
        return ROLLBACK

    async def fail(_: Message) -> TransactionState:
        raise ValueError("no")

    async with (
        asyncio.timeout(PATIENCE_S),
        TransactionProducer(name_server, topic, check=check) as producer,
    ):
        await producer.send(Message(topic, b"makes the topic"))
        with pytest.raises(ValueError, match="no"):
            await producer.send_in_transaction(Message(topic, b"never"), fail)
        await asked.wait()
        await producer.send_in_transaction(Message(topic, b"last"), commit)
        async with consumer_of(name_server, topic, basket):
            assert set(await basket.has(2)) == {b"makes the topic", b"last"}


async def test_a_producer_that_is_started_anew_is_asked_what_the_one_before_left_open(
    name_server: str, topic: str
) -> None:
    basket = Basket()

    async def check(message: StoredMessage) -> TransactionState:
        return COMMIT if message.body == b"left open" else ROLLBACK

    async with TransactionProducer(name_server, topic, check=nobody_asks) as before:
        await before.send(Message(topic, b"makes the topic"))
        await before.send_in_transaction(Message(topic, b"left open"), leave_open)
        await before.send_in_transaction(Message(topic, b"dropped"), leave_open)
    async with (
        asyncio.timeout(PATIENCE_S),
        consumer_of(name_server, topic, basket),
        TransactionProducer(name_server, topic, check=check, topics=[topic]),
    ):
        assert set(await basket.has(2)) == {b"makes the topic", b"left open"}


def test_transactions_of_threads(name_server: str, topic: str) -> None:
    got: SimpleQueue[bytes] = SimpleQueue()
    threads: set[tuple[str, str]] = set()

    def check(_: StoredMessage) -> TransactionState:
        threads.add(("check", threading.current_thread().name.partition("_")[0]))
        return COMMIT

    def execute(message: Message) -> TransactionState:
        threads.add(("execute", threading.current_thread().name.partition("_")[0]))
        number = int(message.body)
        return (COMMIT, ROLLBACK, UNKNOWN)[number % 3]

    consumer = blocking.Consumer(name_server, topic, start=Start.FIRST)
    consumer.subscribe(topic, lambda message: got.put(message.body))
    with (
        blocking.TransactionProducer(name_server, topic, check=check) as producer,
        ThreadPoolExecutor(4, "caller") as pool,
    ):
        messages = [Message(topic, b"%d" % number) for number in range(12)]
        results = list(pool.map(lambda message: producer.send_in_transaction(message, execute), messages))
        assert [result.state for result in results] == [COMMIT, ROLLBACK, UNKNOWN] * 4
        with consumer:
            bodies = {got.get(timeout=PATIENCE_S) for _ in range(8)}
    assert bodies == {b"%d" % number for number in range(12) if number % 3 != 1}
    assert threads == {("check", "cometmq-check"), ("execute", "caller")}
