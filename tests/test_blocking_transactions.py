"""Transactions of threads: the local transaction runs in the thread that sends, whatever becomes of it."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.client.brokers import cluster
from tests.client.transactions import GROUP, PATIENCE_S, HalfBroker, nobody_asks
from tests.kit.programs import FORKS, NOBODY, in_child

from cometmq.blocking import TransactionProducer
from cometmq.client import SendStatus, TransactionState
from cometmq.client.loop_thread import CLOSED, FORKED
from cometmq.client.producer.transaction import Check
from cometmq.errors import MessageIllegal, NetworkError, SettingsError
from cometmq.message import Message, StoredMessage

PAID = Message("Orders", b"paid", keys=("42",))
COMMIT, ROLLBACK, UNKNOWN = TransactionState


def executed(_: Message) -> TransactionState:
    raise AssertionError("nothing was to be executed")


def with_producer(
    broker: HalfBroker, work: Callable[[TransactionProducer], None], check: Check = nobody_asks, asks: int = 0
) -> None:
    """Run a thread with a producer of a broker, which asks it some times."""

    def run(name_server: str) -> None:
        with TransactionProducer(name_server, GROUP, check=check, topics=["Orders"]) as producer:
            work(producer)

    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S), cluster(broker) as name_server:
            asking = asyncio.create_task(broker.ask(count=asks))
            await asyncio.to_thread(run, name_server)
            asking.cancel()

    asyncio.run(main())


def test_the_local_transaction_runs_in_the_calling_thread() -> None:
    threads: list[threading.Thread] = []

    def execute(message: Message) -> TransactionState:
        assert message is PAID
        threads.append(threading.current_thread())
        return COMMIT

    def work(producer: TransactionProducer) -> None:
        result = producer.send_in_transaction(PAID, execute)
        assert (result.state, result.sent.status) == (COMMIT, SendStatus.SEND_OK)
        assert threads == [threading.current_thread()]

    broker = HalfBroker()
    with_producer(broker, work)
    assert decisions(broker) == [8]


def decisions(broker: HalfBroker) -> list[int]:
    """Return what a broker was told."""
    told = []
    while broker.was_told:
        told.append(asyncio.run(broker.told())[0].decision)
    return told


def test_an_async_one_runs_in_the_background_loop() -> None:
    async def execute(_: Message) -> TransactionState:
        assert threading.current_thread().name == "cometmq"
        return ROLLBACK

    def work(producer: TransactionProducer) -> None:
        assert producer.send_in_transaction(PAID, execute).state is ROLLBACK

    broker = HalfBroker()
    with_producer(broker, work)
    assert decisions(broker) == [12]


def test_what_may_not_be_safe_is_rolled_back_and_nothing_is_executed() -> None:
    def work(producer: TransactionProducer) -> None:
        assert producer.send_in_transaction(PAID, executed).state is ROLLBACK

    broker = HalfBroker("a", SendStatus.FLUSH_DISK_TIMEOUT)
    with_producer(broker, work)
    assert decisions(broker) == [12]


@pytest.mark.parametrize("failure", [ValueError("no"), KeyboardInterrupt()])
def test_what_the_local_transaction_raises_is_raised_and_the_broker_is_to_ask(failure: BaseException) -> None:
    def execute(_: Message) -> TransactionState:
        raise failure

    def work(producer: TransactionProducer) -> None:
        with pytest.raises(type(failure)):
            producer.send_in_transaction(PAID, execute)

    broker = HalfBroker()
    with_producer(broker, work)
    assert decisions(broker) == [0]


def test_a_state_that_is_none_leaves_it_to_the_check() -> None:
    nothing: Any = print

    def work(producer: TransactionProducer) -> None:
        with pytest.raises(SettingsError, match="return a TransactionState"):
            producer.send_in_transaction(PAID, nothing)

    broker = HalfBroker()
    with_producer(broker, work)
    assert decisions(broker) == [0]


def test_a_close_during_the_local_transaction_does_not_undo_it(caplog: pytest.LogCaptureFixture) -> None:
    def work(producer: TransactionProducer) -> None:
        def execute(_: Message) -> TransactionState:
            producer.__exit__(None)
            return COMMIT

        assert producer.send_in_transaction(PAID, execute).state is COMMIT

    broker = HalfBroker()
    with_producer(broker, work)
    assert decisions(broker) == []
    assert "COMMIT of message" in caplog.text


def test_checks_run_in_threads() -> None:
    answered = threading.Event()

    def check(_: StoredMessage) -> TransactionState:
        assert threading.current_thread().name.startswith("cometmq-check")
        answered.set()
        return COMMIT

    def work(_: TransactionProducer) -> None:
        assert answered.wait(PATIENCE_S)

    broker = HalfBroker()
    with_producer(broker, work, check, asks=1)
    assert decisions(broker) == [8]


def test_who_is_not_open_says_so_and_the_same_is_refused_as_with_asyncio() -> None:
    producer = TransactionProducer(NOBODY, GROUP, check=nobody_asks)
    with pytest.raises(NetworkError, match=CLOSED):
        producer.send_in_transaction(PAID, executed)
    with producer, pytest.raises(MessageIllegal, match="delay level"):
        producer.send_in_transaction(Message("Orders", b"x", delay_level=1), executed)
    with producer, pytest.raises(NetworkError, match="no name server answers"):
        producer.send_in_transaction(PAID, executed)


@FORKS
def test_a_forked_process_opens_one_of_its_own() -> None:
    made = TransactionProducer(NOBODY, GROUP, check=nobody_asks)  # not opened, so it may come along

    def child() -> None:
        with pytest.raises(NetworkError, match=FORKED):
            producer.send_in_transaction(PAID, executed)
        with made, pytest.raises(NetworkError, match="no name server answers"):
            made.send_in_transaction(PAID, executed)

    with TransactionProducer(NOBODY, GROUP, check=nobody_asks) as producer:
        assert in_child(child) == 0
