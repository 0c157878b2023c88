"""Checks: what is answered to a broker that asks, in which order, and what is not answered."""

import asyncio
import logging
import threading

import pytest
from tests.client.transactions import HALF_TOPIC, HalfBroker, half_record, nobody_asks, transactions

from cometmq.client import TransactionState
from cometmq.client.producer import check_back
from cometmq.message import Message, StoredMessage
from cometmq.wire.codes import RequestCode
from cometmq.wire.command import ONEWAY_FLAG
from cometmq.wire.frame import Command

COMMIT, ROLLBACK, UNKNOWN = TransactionState


@pytest.mark.parametrize(("state", "decision"), [(COMMIT, 8), (ROLLBACK, 12), (UNKNOWN, 0)])
@pytest.mark.parametrize("is_async", [True, False])
async def test_the_broker_is_told_what_the_check_gave(
    state: TransactionState, decision: int, is_async: bool
) -> None:
    broker = HalfBroker()
    threads: list[str] = []

    def check(_: StoredMessage) -> TransactionState:
        threads.append(threading.current_thread().name)
        return state

    async def check_async(message: StoredMessage) -> TransactionState:
        return check(message)

    async with transactions(broker, check_async if is_async else check):
        await broker.ask()
        header, remark = await broker.told()
    assert (header.decision, header.from_check, header.topic, remark) == (
        decision,
        True,
        HALF_TOPIC,
        None,
    )
    assert threads[0].startswith("cometmq-check") is not is_async


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_check_that_fails_leaves_it_open_and_the_next_one_is_answered(
    is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    broker = HalfBroker()

    def check(message: StoredMessage) -> TransactionState:
        if message.keys == ("bad",):
            raise SystemExit(3) if not is_async else ValueError("no")
        return COMMIT

    async def check_async(message: StoredMessage) -> TransactionState:
        return check(message)

    async with transactions(broker, check_async if is_async else check):
        await broker.ask(key="bad")
        await broker.ask(key="good")
        (first, remark), (second, _) = await broker.told(), await broker.told()
    assert (first.decision, second.decision) == (0, 8)
    assert remark is not None and ("ValueError('no')" if is_async else "sys.exit(3)") in remark
    assert "a check failed, the broker will ask again: ID" in caplog.text


async def test_a_check_that_gives_no_state_has_failed() -> None:
    broker = HalfBroker()
    async with transactions(broker, print):
        await broker.ask()
        header, remark = await broker.told()
    assert header.decision == 0
    assert remark is not None and "returned None" in remark


async def test_what_is_for_another_group_or_cannot_be_read_is_passed_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)

    async def check(message: StoredMessage) -> TransactionState:
        assert message.keys == ("42",)
        return COMMIT

    broker = HalfBroker()
    async with transactions(broker, check) as producer:
        await broker.ask(group="others", key="theirs")
        await broker.ask(half_record()[:-1])
        await broker.ask(b"")
        await broker.send(Command(RequestCode.CHECK_TRANSACTION_STATE, flag=ONEWAY_FLAG, body=half_record()))
        await broker.ask()
        assert (await broker.told())[0].decision == 8
        assert (await producer.send(Message("Orders", b"x"))).queue_offset == 5
    assert not broker.was_told
    assert "is for group 'others', this is 'shop'" in caplog.text
    assert caplog.text.count("refused a request of") == 3


async def test_one_is_checked_at_a_time_in_the_order_in_which_they_came() -> None:
    broker = HalfBroker()
    order: list[str] = []

    async def check(message: StoredMessage) -> TransactionState:
        order.append(f"{message.keys[0]} begins")
        await asyncio.sleep(0)
        order.append(f"{message.keys[0]} ends")
        return ROLLBACK

    async with transactions(broker, check):
        for key in "ab":
            await broker.ask(key=key)
        for _ in "ab":
            assert (await broker.told())[0].decision == 12
        await broker.ask(key="c")  # when there was nothing more to do
        await broker.told()
    assert order == [f"{key} {what}" for key in "abc" for what in ("begins", "ends")]


async def test_more_checks_than_can_wait_are_dropped(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(check_back, "WAITING_MAX", 3)

    broker, begun, go_on = HalfBroker(), asyncio.Event(), asyncio.Event()

    async def check(_: StoredMessage) -> TransactionState:
        begun.set()
        await go_on.wait()
        return COMMIT

    async with transactions(broker, check) as producer:
        await broker.ask()
        await begun.wait()
        await broker.ask(count=5)
        await producer.send(Message("Orders", b"x"))  # what was asked before it has come
        go_on.set()
        for _ in range(1 + 3):
            await broker.told()
        await producer.send(Message("Orders", b"x"))
    assert not broker.was_told
    assert caplog.text.count("is dropped, it will come again: 3 wait already") == 2


async def test_an_answer_that_cannot_be_told_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    broker = HalfBroker()
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def check(_: StoredMessage) -> TransactionState:
        begun.set()
        await go_on.wait()
        return COMMIT

    async with transactions(broker, check) as producer:
        await broker.ask()
        await begun.wait()
        await producer._connections.close()
        go_on.set()
    assert not broker.was_told
    assert "a check's response was not sent, the broker will ask again" in caplog.text


async def test_what_is_asked_while_the_producer_closes_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    broker = HalfBroker()
    async with transactions(broker, nobody_asks) as producer:
        await producer._checks.close(0)
        await broker.ask()
        await producer.send(Message("Orders", b"x"))
    assert not broker.was_told
    assert "the producer is being closed" in caplog.text


async def test_a_check_that_closes_its_producer_is_not_waited_for() -> None:
    broker, closed = HalfBroker(), asyncio.Event()

    async def check(_: StoredMessage) -> TransactionState:
        await producer.__aexit__(None, None, None)
        closed.set()
        return COMMIT

    async with transactions(broker, check, stop_timeout_ms=3_600_000) as producer:
        await broker.ask()
        await closed.wait()
