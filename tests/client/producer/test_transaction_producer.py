"""Sends in transactions: what is executed when, and what the broker is told of it."""

import asyncio
import threading
from contextlib import suppress
from inspect import signature
from typing import Any, get_type_hints

import pytest
from tests.client.brokers import cluster
from tests.client.transactions import GROUP, HalfBroker, nobody_asks, transactions

from cometmq.client import Producer, SendStatus, TransactionProducer, TransactionState
from cometmq.client.producer.hooks import Attempt
from cometmq.client.producer.transaction_producer import ProducerOptions
from cometmq.errors import IllegalName, MessageIllegal, NetworkError, RemoteError, SettingsError
from cometmq.format import properties, sys_flag
from cometmq.message import Message, MessageQueue, StoredMessage
from cometmq.net.address import free_port
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import EndTransactionHeader

PAID = Message("Orders", b"paid", keys=("42",))
COMMIT, ROLLBACK, UNKNOWN = TransactionState


async def commit(_: Message) -> TransactionState:
    return COMMIT


def executed(_: Message) -> TransactionState:
    raise AssertionError("nothing was to be executed")


@pytest.mark.parametrize(("state", "decision"), [(COMMIT, 8), (ROLLBACK, 12), (UNKNOWN, 0)])
@pytest.mark.parametrize("is_async", [True, False])
async def test_the_broker_is_told_what_the_local_transaction_gave(
    state: TransactionState, decision: int, is_async: bool
) -> None:
    broker = HalfBroker()
    got: list[tuple[Message, str]] = []

    def execute(message: Message) -> TransactionState:
        assert len(broker.sent) == 1 and not broker.was_told
        got.append((message, threading.current_thread().name))
        return state

    async def execute_async(message: Message) -> TransactionState:
        return execute(message)

    async with transactions(broker) as producer:
        result = await producer.send_in_transaction(PAID, execute_async if is_async else execute)
        header, remark = await broker.told()
    (sent,) = broker.sent
    by_name = properties.decode(sent.properties.encode())
    assert (by_name["TRAN_MSG"], by_name["PGROUP"], by_name["KEYS"]) == ("true", GROUP, "42")
    assert sys_flag.transaction_type(sent.sys_flag) == sys_flag.TRANSACTION_PREPARED
    assert header == EndTransactionHeader(
        producer_group=GROUP,
        half_offset=5,
        physical_offset=4_711,
        decision=decision,
        message_id=by_name["UNIQ_KEY"],
        from_check=False,
        transaction_id=by_name["UNIQ_KEY"],
        topic="Orders",
    )
    assert (result.state, result.sent.message_id, remark) == (state, by_name["UNIQ_KEY"], None)
    ((message, thread),) = got
    assert message is PAID
    assert thread.startswith("cometmq-transaction") is not is_async


@pytest.mark.parametrize("status", [status for status in SendStatus if status is not SendStatus.SEND_OK])
async def test_what_may_not_be_safe_is_rolled_back_and_nothing_is_executed(status: SendStatus) -> None:
    broker = HalfBroker("a", status)
    async with transactions(broker) as producer:
        result = await producer.send_in_transaction(PAID, executed)
        header, _ = await broker.told()
    assert (result.sent.status, result.state, header.decision) == (status, ROLLBACK, 12)


async def test_nothing_is_executed_if_the_half_message_is_refused() -> None:
    broker = HalfBroker("a", ResponseCode.NO_PERMISSION)
    async with transactions(broker, tries=1) as producer:
        with pytest.raises(RemoteError):
            await producer.send_in_transaction(PAID, executed)
    assert not broker.was_told


@pytest.mark.parametrize("is_async", [True, False])
async def test_if_the_local_transaction_fails_the_broker_is_to_ask_and_the_caller_is_told(
    is_async: bool,
) -> None:
    broker = HalfBroker()

    def execute(_: Message) -> TransactionState:
        raise ValueError("x" * 1_000)

    async def execute_async(message: Message) -> TransactionState:
        return execute(message)

    async with transactions(broker) as producer:
        with pytest.raises(ValueError, match="xxx"):
            await producer.send_in_transaction(PAID, execute_async if is_async else execute)
        header, remark = await broker.told()
    assert header.decision == 0
    assert remark is not None and remark.startswith("ValueError('xxx") and len(remark) == 500


async def test_a_state_that_is_none_leaves_it_to_the_check() -> None:
    broker = HalfBroker()
    nothing: Any = print
    async with transactions(broker) as producer:
        with pytest.raises(SettingsError, match="returned None: return a TransactionState"):
            await producer.send_in_transaction(PAID, nothing)
        assert (await broker.told())[0].decision == 0


async def test_if_a_transaction_is_cancelled_the_broker_is_to_ask() -> None:
    broker, begun = HalfBroker(), asyncio.Event()

    async def execute(_: Message) -> TransactionState:
        begun.set()
        await asyncio.Event().wait()
        return COMMIT

    async with transactions(broker) as producer:
        sending = asyncio.create_task(producer.send_in_transaction(PAID, execute))
        await begun.wait()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert ((await broker.told())[0].decision) == 0


async def test_half_messages_wait_for_no_others_and_have_no_key_of_their_own() -> None:
    broker = HalfBroker()
    async with transactions(broker, linger_ms=60_000, idempotent_by="message_id") as producer:
        await producer.send_in_transaction(PAID, commit)
    (sent,) = broker.sent
    assert not sent.batch
    assert properties.IDEMPOTENCE_KEY not in properties.decode(sent.properties.encode())


async def test_a_half_message_goes_to_the_queue_that_was_named() -> None:
    broker = HalfBroker()
    async with transactions(broker) as producer:
        for queue_id in (1, 0):
            queue = MessageQueue("Orders", "a", queue_id)
            assert (await producer.send_in_transaction(PAID, commit, queue)).sent.queue == queue
    assert [sent.queue_id for sent in broker.sent] == [1, 0]


async def test_a_compressed_half_message_is_both() -> None:
    broker = HalfBroker()
    async with transactions(broker) as producer:
        await producer.send_in_transaction(Message("Orders", bytes(10_000)), commit)
    (sent,) = broker.sent
    assert sys_flag.is_compressed(sent.sys_flag)
    assert sys_flag.transaction_type(sent.sys_flag) == sys_flag.TRANSACTION_PREPARED


async def test_other_messages_are_sent_as_by_any_producer() -> None:
    broker = HalfBroker()
    async with transactions(broker) as producer:
        await producer.send(PAID)
        await producer.send(Message("Orders", b"x", delay_level=3))
    assert {sent.sys_flag for sent in broker.sent} == {0}
    assert not broker.was_told


async def test_what_cannot_be_in_a_transaction_is_refused_before_anything_is_sent() -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    async with TransactionProducer(nowhere, GROUP, check=nobody_asks) as producer:
        for message, why in (
            (Message("Orders", b"x", delay_level=3), "delay level 3 in a transaction"),
            (Message("Orders", b"x", properties={"IDEMPOTENCE_KEY": "k"}), "idempotence key"),
            (Message("Orders", b"x", properties={"TRAN_MSG": "true"}), "'TRAN_MSG'"),
            (Message("Orders", b""), "body is empty"),
        ):
            with pytest.raises(MessageIllegal, match=why):
                await producer.send_in_transaction(message, executed)


async def test_an_end_that_cannot_be_told_undoes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    broker = HalfBroker()
    async with transactions(broker) as producer:

        async def execute(_: Message) -> TransactionState:
            await producer._connections.close()
            return COMMIT

        result = await producer.send_in_transaction(PAID, execute)
        assert result.state is COMMIT
    assert not broker.was_told
    assert "the broker will ask: no connection to" in caplog.text


async def test_a_broker_that_gives_no_place_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    broker = HalfBroker()
    broker.offset_id = "none"
    async with transactions(broker) as producer:
        assert (await producer.send_in_transaction(PAID, commit)).state is COMMIT
    assert not broker.was_told
    assert "offset message id" in caplog.text


async def test_many_transactions_run_at_a_time() -> None:
    broker, together = HalfBroker(), threading.Barrier(5)

    def execute(_: Message) -> TransactionState:
        together.wait(60)
        return COMMIT

    async with transactions(broker, max_concurrency=5) as producer:
        sends = (producer.send_in_transaction(PAID, execute) for _ in range(5))
        results = await asyncio.gather(*sends)
        ended = {(await broker.told())[0].message_id for _ in range(5)}
    assert {result.sent.message_id for result in results} == ended


async def test_hooks_see_half_messages() -> None:
    class Kinds:
        def __init__(self) -> None:
            self.seen: list[int] = []

        def before_send(self, attempt: Attempt) -> None:
            self.seen.append(sys_flag.transaction_type(attempt.ready.sys_flag))

        def after_send(self, attempt: Attempt) -> None:
            pass

    kinds = Kinds()
    async with transactions(HalfBroker(), hooks=[kinds]) as producer:
        await producer.send_in_transaction(PAID, commit)
    assert kinds.seen == [sys_flag.TRANSACTION_PREPARED]


async def test_a_producer_answers_what_became_of_the_messages_of_one_before_it() -> None:
    broker = HalfBroker()
    asked: list[StoredMessage] = []

    async def check(message: StoredMessage) -> TransactionState:
        asked.append(message)
        return COMMIT

    async with transactions(broker, check) as _:
        await broker.ask()
        header, remark = await broker.told()
    assert header == EndTransactionHeader(
        producer_group=GROUP,
        half_offset=7,
        physical_offset=4_712,
        decision=8,
        message_id="ID",
        from_check=True,
        transaction_id="ID",
        topic="RMQ_SYS_TRANS_HALF_TOPIC",
    )
    assert remark is None and broker.sent == []
    (message,) = asked
    assert (message.topic, message.queue_id, message.keys, message.body) == (
        "Orders",
        1,
        ("42",),
        b"paid",
    )


async def test_without_topics_a_broker_knows_the_producer_when_it_is_sent_to() -> None:
    broker = HalfBroker()
    async with (
        cluster(broker) as name_server,
        TransactionProducer(name_server, GROUP, check=commit_all) as producer,
    ):
        assert producer._presence._task is None
        await producer.send_in_transaction(PAID, commit)
        await broker.told()
        await broker.ask()
        assert (await broker.told())[0].from_check


async def commit_all(_: StoredMessage) -> TransactionState:
    return COMMIT


async def test_closing_waits_for_a_check_that_is_under_way() -> None:
    broker, begun, go_on = HalfBroker(), asyncio.Event(), asyncio.Event()

    async def check(_: StoredMessage) -> TransactionState:
        begun.set()
        await go_on.wait()
        return COMMIT

    async with transactions(broker, check) as producer:
        await broker.ask(count=3)
        await begun.wait()
        asyncio.get_running_loop().call_soon(go_on.set)
        assert producer._checks._waiting
    assert (await broker.told())[0].decision == 8
    assert not broker.was_told, "what waited is asked again, and not answered here"


async def test_closing_cancels_a_check_that_takes_too_long_and_takes_leave() -> None:
    broker, begun, cancelled = HalfBroker(), asyncio.Event(), asyncio.Event()

    async def check(_: StoredMessage) -> TransactionState:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return COMMIT

    async with transactions(broker, check, stop_timeout_ms=1):
        await broker.ask()
        await begun.wait()
    assert cancelled.is_set()
    assert not broker.was_told


async def test_a_close_that_is_cancelled_closes_all_the_same() -> None:
    broker, begun = HalfBroker(), asyncio.Event()

    async def check(_: StoredMessage) -> TransactionState:
        begun.set()
        await asyncio.Event().wait()
        return COMMIT

    async with cluster(broker) as name_server:
        producer = TransactionProducer(name_server, GROUP, check=check, topics=["Orders"])
        await producer.__aenter__()
        await broker.ask()
        await begun.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await producer.__aexit__()
        with pytest.raises(NetworkError, match="closed"):
            await producer.send_in_transaction(PAID, executed)


async def test_what_a_broker_asks_else_is_refused_as_by_any_producer() -> None:
    broker = HalfBroker()
    async with transactions(broker):
        await broker.send(Command(RequestCode.GET_CONSUMER_RUNNING_INFO))
        answer = await broker.answers.get()
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


def test_settings_that_cannot_be_are_refused_at_once() -> None:
    address = "127.0.0.1:9876"
    with pytest.raises(SettingsError, match="topics 'Orders': give them as a tuple"):
        TransactionProducer(address, GROUP, check=nobody_asks, topics="Orders")
    with pytest.raises(IllegalName):
        TransactionProducer(address, GROUP, check=nobody_asks, topics=["no topic"])
    with pytest.raises(SettingsError, match="max_concurrency 0"):
        TransactionProducer(address, GROUP, check=nobody_asks, max_concurrency=0)


def test_all_settings_of_a_producer_can_be_given() -> None:
    named = {
        name
        for name, parameter in signature(Producer.__init__).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    assert get_type_hints(ProducerOptions).keys() == named
