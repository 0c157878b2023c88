"""The simple consumer with a broker that answers by the wire's types."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace
from tests.client.members import settled
from tests.client.pops import GROUP, POP_TIME_MS, TOPIC, PopBroker, popping

from cometmq import errors
from cometmq.client.consumer import simple
from cometmq.client.consumer.simple import SimpleConsumer
from cometmq.client.handling.start import Start
from cometmq.format.compression import compress
from cometmq.format.pop.receipt import parse_receipt
from cometmq.format.properties import POP_CK
from cometmq.format.sys_flag import COMPRESSED, CompressionType, compressed_with
from cometmq.io.clock import ManualClock
from cometmq.message import Message, StoredMessage
from cometmq.wire.bodies.heartbeat import ConsumeType, MessageModel
from cometmq.wire.bodies.trace import AfterTrace, BeforeTrace, Outcome, Trace, decode
from cometmq.wire.codes import RequestCode, ResponseCode


class Desk(NamedTuple):
    """A consumer of one topic, its broker and its clock."""

    consumer: SimpleConsumer
    broker: PopBroker
    clock: ManualClock

    async def receive(self, *bodies: bytes, **options: Any) -> list[StoredMessage]:
        """Store messages and receive them."""
        self.broker.put(*bodies)
        return await self.consumer.receive(**{"wait_ms": 0} | options)


@asynccontextmanager
async def desk(*brokers: PopBroker, **arguments: Any) -> AsyncIterator[Desk]:
    own, clock = brokers or (PopBroker(),), ManualClock(POP_TIME_MS)
    async with (
        popping(*own) as here,
        SimpleConsumer(here.name_server, GROUP, clock=clock, **arguments) as consumer,
    ):
        await consumer.subscribe(TOPIC, tags="*")
        yield Desk(consumer, own[0], clock)


def bodies(messages: list[StoredMessage]) -> list[bytes]:
    return [message.body for message in messages]


async def test_messages_are_received_and_acknowledged_one_by_one() -> None:
    async with desk() as here:
        messages = await here.receive(b"0", b"1", b"2", max_count=2, invisible_ms=20_000)
        assert bodies(messages) == [b"0", b"1"]
        await here.consumer.ack(messages[1])
        assert bodies(await here.receive()) == [b"2"]
        assert await here.receive() == []
    assert here.broker.acknowledged() == {1}
    assert here.broker.acks[0].extra_info == messages[1].properties[POP_CK]
    assert (here.broker.pops[0].max_msg_nums, here.broker.pops[0].invisible_time) == (2, 20_000)


async def test_messages_are_acknowledged_together() -> None:
    async with desk() as here:
        messages = await here.receive(b"0", b"1", b"2")
        await here.consumer.ack_all(messages[1:])
        await here.consumer.ack_all([])
    assert (here.broker.acknowledged(), len(here.broker.batches)) == ({1, 2}, 1)


async def test_what_is_too_late_is_an_error_and_the_rest_is_acknowledged() -> None:
    async with desk() as here:
        (early,) = await here.receive(b"0", invisible_ms=10_000)
        here.clock.advance(9_000)
        here.broker.now_ms += 9_000
        (late,) = await here.receive(b"1", invisible_ms=10_000)
        here.clock.advance(1_000)
        for work in (here.consumer.ack(early), here.consumer.change_invisible(early, 1)):
            with pytest.raises(errors.ReceiptExpired, match=r"message ID0 .* 10000 ms passed 0 ms ago"):
                await work
        with pytest.raises(errors.ReceiptExpired, match="1 of 2 messages are too late: message ID0"):
            await here.consumer.ack_all([early, late])
    assert here.broker.acknowledged() == {1}
    assert here.broker.changes == []


async def test_a_message_is_acknowledged_by_its_new_handle_once_its_time_was_changed() -> None:
    async with desk() as here:
        (message,) = await here.receive(b"0", invisible_ms=10_000)
        here.clock.advance(5_000)
        here.broker.now_ms += 5_000
        await here.consumer.change_invisible(message, 30_000)
        here.clock.advance(20_000)
        await here.consumer.change_invisible(message, 40_000)
        here.clock.advance(10_000)
        await here.consumer.ack(message)
    first, second = here.broker.changes
    assert (first.extra_info, first.invisible_time) == (message.properties[POP_CK], 30_000)
    old, new = parse_receipt(first.extra_info), parse_receipt(second.extra_info)
    assert new == old._replace(begin_offset=0, pop_time_ms=POP_TIME_MS + 5_000, invisible_ms=30_000)
    assert parse_receipt(here.broker.acks[0].extra_info).invisible_ms == 40_000


async def test_a_message_from_elsewhere_is_refused() -> None:
    async with desk() as here:
        (message,) = await here.receive(b"0")
        pulled, broken = (replace(message, properties=named) for named in ({}, {POP_CK: "7"}))
        for method in (here.consumer.ack, lambda one: here.consumer.change_invisible(one, 1)):
            with pytest.raises(errors.IllegalArgument, match=r"^message .*POP_CK"):
                await method(pulled)
            with pytest.raises(errors.FormatError, match="'7' is not a receipt handle"):
                await method(broken)
        with pytest.raises(errors.IllegalArgument, match=r"^messages .*POP_CK"):
            await here.consumer.ack_all([message, pulled])
        here.broker.refusals[RequestCode.ACK_MESSAGE] = [ResponseCode.NO_MESSAGE]
        with pytest.raises(errors.RemoteError, match="the broker has no such message any more"):
            await here.consumer.ack(message)
    assert here.broker.acknowledged() == set()


async def test_a_member_says_that_it_pops_and_leaves_its_group() -> None:
    async with desk(start=Start.FIRST) as here:
        await here.consumer.subscribe("Bills", sql="a > 1")
        await here.receive()
        await settled(lambda: here.broker.topics() == {TOPIC, "Bills"})
        heartbeat = here.broker.heartbeats[-1]
        await here.consumer.unsubscribe("Bills")
        await here.receive()
        client_id = here.consumer.client_id
    (member,) = heartbeat.consumers
    assert heartbeat.client_id == client_id
    assert (member.group, member.consume_type) == (GROUP, ConsumeType.CONSUME_POP)
    assert member.message_model is MessageModel.CLUSTERING
    assert {one.topic: one.expression for one in member.subscriptions} == {TOPIC: "*", "Bills": "a > 1"}
    assert {pop.topic: pop.exp for pop in here.broker.pops} == {TOPIC: "*", "Bills": "a > 1"}
    assert [pop.init_mode for pop in here.broker.pops] == [0, 0, 0]
    assert here.broker.unregistered == 1


async def test_a_body_that_cannot_be_decompressed_is_an_error_and_the_others_are_received() -> None:
    async with desk() as here:
        here.broker.put(b"0")
        here.broker.put(b"no zlib stream", sys_flag=COMPRESSED)
        zlib = CompressionType.ZLIB
        here.broker.put(compress(b"2", zlib), sys_flag=compressed_with(0, zlib))
        assert bodies(await here.receive()) == [b"0"]
        with pytest.raises(errors.UndecodableBody, match="ID1") as caught:
            await here.receive(b"3")
        await here.consumer.ack(caught.value.message)
        assert bodies(await here.receive()) == [b"2"]
        assert bodies(await here.receive()) == [b"3"]
    assert here.broker.acknowledged() == {1}


async def test_messages_that_were_left_are_not_received_when_their_time_has_passed() -> None:
    async with desk() as here:
        here.broker.put(b"0")
        here.broker.put(b"no zlib stream", sys_flag=COMPRESSED)
        await here.receive(invisible_ms=1_000)
        here.clock.advance(1_000)
        assert await here.receive() == []


async def test_messages_that_nobody_received_are_handed_back() -> None:
    async with desk() as here:
        here.broker.put(b"0")
        here.broker.put(b"no zlib stream", sys_flag=COMPRESSED)
        here.broker.put(b"2")
        assert bodies(await here.receive()) == [b"0"]
        here.broker.refusals[RequestCode.CHANGE_MESSAGE_INVISIBLETIME] = [ResponseCode.SYSTEM_BUSY]
    (change,) = here.broker.changes
    assert (change.offset, change.invisible_time, change.suspend) == (2, 0, True)
    assert here.broker.unregistered == 1


async def test_a_cancelled_receive_loses_no_message() -> None:
    async with desk() as here:
        receiving = asyncio.create_task(here.consumer.receive(wait_ms=30_000))
        await here.broker.is_holding.wait()
        receiving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receiving
        here.broker.put(b"0", b"1")
        while not (messages := await here.receive(max_count=1)):
            pass
        assert bodies(messages + await here.receive()) == [b"0", b"1"]
    assert len(here.broker.pops) >= 1


async def test_a_cancelled_receive_does_not_delay_the_end() -> None:
    async with desk() as here:
        receiving = asyncio.create_task(here.consumer.receive(wait_ms=30_000))
        await here.broker.is_holding.wait()
        receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=True)
    assert here.broker.unregistered == 1


async def test_whoever_waits_when_the_consumer_is_closed_gets_an_error_and_it_can_be_opened_again() -> None:
    broker = PopBroker()
    async with popping(broker) as here:
        consumer = SimpleConsumer(here.name_server, GROUP)
        async with consumer:
            await consumer.subscribe(TOPIC)
            receiving = asyncio.create_task(consumer.receive(wait_ms=30_000))
            await broker.is_holding.wait()
        with pytest.raises(errors.NetworkError):
            await receiving
        broker.put(b"0")
        async with consumer:
            await consumer.subscribe(TOPIC)
            assert bodies(await consumer.receive()) == [b"0"]


async def test_without_a_subscription_nothing_can_be_done() -> None:
    consumer = SimpleConsumer("127.0.0.1:1", GROUP)
    with pytest.raises(errors.SettingsError, match="nothing is subscribed to"):
        await consumer.receive()
    with pytest.raises(errors.SettingsError, match="topic 'Orders' is not subscribed to"):
        await consumer.unsubscribe(TOPIC)
    async with desk() as here:
        (message,) = await here.receive(b"0")
        with pytest.raises(errors.SettingsError, match="topic 'Orders' is subscribed to already"):
            await here.consumer.subscribe(TOPIC)
        await here.consumer.unsubscribe(TOPIC)
        with pytest.raises(errors.SettingsError, match="nothing is subscribed to"):
            await here.receive()
        await here.consumer.ack(message)
    with pytest.raises(errors.SettingsError, match="nothing is subscribed to"):
        await here.consumer.ack(message)
    assert here.broker.acknowledged() == {0}


async def test_tags_beside_sql_are_refused() -> None:
    with pytest.raises(ValueError, match="tags 'paid' and sql"):
        await SimpleConsumer("127.0.0.1:1", GROUP).subscribe(TOPIC, "paid", sql="size > 3")


async def test_a_subscription_that_fails_is_none() -> None:
    async with SimpleConsumer("127.0.0.1:1", GROUP, start_timeout_ms=0) as consumer:
        for _ in range(2):
            with pytest.raises(errors.NetworkError):
                await consumer.subscribe(TOPIC)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"max_count": 0}, "max_count 0: give an int from 1 to 32"),
        ({"max_count": 33}, "max_count 33: give an int from 1 to 32"),
        ({"invisible_ms": 0}, "invisible_ms 0: give an int of at least 1"),
        ({"wait_ms": -1}, "wait_ms -1: give an int of at least 0"),
    ],
)
async def test_limits_are_named(options: dict[str, int], why: str) -> None:
    with pytest.raises(errors.IllegalArgument, match=why):
        await SimpleConsumer("127.0.0.1:1", GROUP).receive(**options)


def test_a_group_that_pops_cannot_begin_at_a_time() -> None:
    with pytest.raises(errors.SettingsError, match=r"Start\.FIRST or Start\.LAST"):
        SimpleConsumer("127.0.0.1:1", GROUP, start=Start.at(7))


async def test_traces_connect_the_receipt_and_the_acknowledgement(monkeypatch: pytest.MonkeyPatch) -> None:
    traces: list[Trace] = []

    async def send(message: Message) -> None:
        traces.extend(decode(message.body))

    monkeypatch.setattr(simple, "trace_sender", lambda *_: send)
    async with desk(trace=True) as here:
        first, second = await here.receive(b"0", b"1")
        here.clock.advance(250)
        await here.consumer.ack(second)
    before, _, after = traces
    assert isinstance(before, BeforeTrace) and isinstance(after, AfterTrace)
    assert (before.message_id, after.message_id) == (first.message_id, second.message_id)
    (began,) = (one for one in traces if one.message_id == second.message_id and isinstance(one, BeforeTrace))
    assert began.request_id == after.request_id != before.request_id
    assert (after.cost_ms, after.outcome) == (250, Outcome.SUCCESS)
