"""Producers whose repeated sends a CometMQ broker recognises."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.campaigns.kit.processes import BrokerProcess
from tests.client.brokers import Broker, cluster

from cometmq.client import Producer, SendResult
from cometmq.errors import NetworkError, RemoteError, SettingsError
from cometmq.message import Message
from cometmq.testing import EmbeddedBroker, Fault
from cometmq.wire.codes import ResponseCode

KEY = "IDEMPOTENCE_KEY"


def stored(rocketmq: EmbeddedBroker) -> list[bytes]:
    return sorted(message.body for message in rocketmq.messages("orders"))


def lose_answers(rocketmq: EmbeddedBroker, times: int = 1) -> None:
    rocketmq.create_topic("orders")
    rocketmq.fail_next(times, topic="orders", fault=Fault.LOSE_ANSWER)


@pytest.mark.parametrize("linger_ms", [None, 1])
@pytest.mark.parametrize("by", ["message_id", "keys", lambda message: message.body.decode()])
async def test_a_send_whose_answer_is_lost_leaves_one_message(
    rocketmq: EmbeddedBroker, by: str | Callable[[Message], str], linger_ms: int | None
) -> None:
    async def main() -> None:
        async with Producer(rocketmq.name_server, idempotent_by=by, linger_ms=linger_ms) as producer:
            result = await producer.send(Message("orders", b"1", keys=("k",)))
        (message,) = rocketmq.messages("orders")
        assert (result.queue.queue_id, result.queue_offset) == (message.queue_id, message.queue_offset)
        assert result.offset_id == message.offset_id
        assert rocketmq.failures_pending == 0

    lose_answers(rocketmq, 2)
    await main()


async def test_without_it_the_message_is_there_twice(rocketmq: EmbeddedBroker) -> None:
    lose_answers(rocketmq)
    async with Producer(rocketmq.name_server) as producer:
        await producer.send(Message("orders", b"1"))
    assert stored(rocketmq) == [b"1", b"1"]


async def test_batches_whose_answers_are_lost_leave_each_message_once(rocketmq: EmbeddedBroker) -> None:
    async def main() -> list[SendResult]:
        async with Producer(rocketmq.name_server, idempotent_by="message_id", batch_bytes=500) as producer:
            await producer.send_batch([Message("orders", b"%d" % n) for n in range(100, 110)])
            return await producer.send_many(Message("orders", b"%d" % n) for n in range(100))

    lose_answers(rocketmq, 2)
    results = await main()
    assert stored(rocketmq) == sorted(b"%d" % n for n in range(110))
    by_place = {(one.queue_id, one.queue_offset): one.body for one in rocketmq.messages("orders")}
    found = [by_place[result.queue.queue_id, result.queue_offset] for result in results]
    assert found == [b"%d" % n for n in range(100)]


async def test_a_program_may_send_again_what_it_is_not_sure_of(rocketmq: EmbeddedBroker) -> None:
    async def send(body: bytes, **given: Any) -> SendResult:
        async with Producer(rocketmq.name_server, idempotent_by="keys", tries=1) as producer:
            return await producer.send(Message("orders", body, **given))

    lose_answers(rocketmq)
    with pytest.raises(NetworkError):
        await send(b"1", keys=("a", "b"))
    first = await send(b"2", keys=("a", "b"))
    await asyncio.to_thread(rocketmq.restart)
    again = await send(b"3", keys=("a", "b"))
    assert (again.queue, again.offset_id) == (first.queue, first.offset_id)
    await send(b"without keys")
    await send(b"without keys")
    assert stored(rocketmq) == [b"1", b"without keys", b"without keys"]


async def test_a_property_of_the_application_is_the_key(rocketmq: EmbeddedBroker) -> None:
    async with Producer(rocketmq.name_server) as producer:
        for body in (b"1", b"2"):
            await producer.send(Message("orders", body, properties={KEY: "k"}))
    assert stored(rocketmq) == [b"1"]


async def test_a_message_with_a_key_is_tried_again_in_its_queue_and_nowhere_else() -> None:
    brokers = [Broker(name, *[ResponseCode.SYSTEM_BUSY] * 9) for name in "ab"]
    async with (
        cluster(*brokers) as name_server,
        Producer(name_server, idempotent_by="message_id") as producer,
    ):
        for message in (Message("Orders", b"x"), Message("Orders", b"x", sharding_key="ann")):
            with pytest.raises(RemoteError):
                await producer.send(message)
            (sent,) = (broker.sent for broker in brokers if broker.sent)
            assert len(sent) == 3 and len({header.queue_id for header in sent}) == 1
            sent.clear()


def test_what_means_nothing_is_refused() -> None:
    with pytest.raises(SettingsError, match="idempotent_by 'key': give message_id, keys"):
        Producer("127.0.0.1:1", idempotent_by="key")


@pytest.mark.timeout(600)
async def test_keys_outlive_a_kill_of_the_broker(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    await broker.start()
    try:
        message = Message("orders", b"1", keys=("k",))
        async with Producer(broker.name_server, idempotent_by="keys") as producer:
            first = await producer.send(message)
            await broker.end(signal.SIGKILL)
            await broker.start()
        async with Producer(broker.name_server, idempotent_by="keys") as producer:
            again = await producer.send(message)
        assert (again.queue, again.offset_id) == (first.queue, first.offset_id)
    finally:
        await broker.end(signal.SIGKILL)
