"""The pops of one assignment: failures, limits, and the end."""

import asyncio

import pytest
from tests.client.members import settled
from tests.client.pops import OPTIONS, TOPIC, Client, PopBroker, popping

from cometmq.client.consumer.pop import loop as loop_module
from cometmq.client.consumer.pop.loop import PopLoop, PopSource
from cometmq.client.consumer.pop.receipts import PopReceipts
from cometmq.cluster.process_queue import Limits
from cometmq.io.clock import SystemClock
from cometmq.message import MessageQueue, StoredMessage
from cometmq.wire.bodies.heartbeat import tag_subscription
from cometmq.wire.codes import RequestCode, ResponseCode

QUEUE = MessageQueue(TOPIC, "a", -1)


def loop_of(here: Client, found: list[StoredMessage], size_max: int = 1_000, tags: str = "*") -> PopLoop:
    options, limits = OPTIONS._replace(wait_ms=30_000), Limits(size=size_max)
    source = PopSource(here.requests, PopReceipts(SystemClock()), options, limits)
    wanted = tag_subscription(TOPIC, tags, 0)
    loop = PopLoop(QUEUE, wanted, source, lambda _, messages: found.extend(messages))
    loop.begin()
    return loop


async def test_a_failure_is_logged_and_the_loop_goes_on(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_module, "PAUSE_S", 0.0)
    broker, found = PopBroker(), list[StoredMessage]()
    broker.refusals[RequestCode.POP_MESSAGE] = [ResponseCode.SYSTEM_BUSY, ResponseCode.POLLING_FULL]
    broker.put(b"0")
    async with popping(broker) as here:
        loop = loop_of(here, found)
        await settled(lambda: len(found) == 1)
        await loop.stop()
    assert "Orders of a: a pop failed: code 2: as told" in caplog.text
    assert loop.has_ended


async def test_the_size_of_what_waits_is_limited() -> None:
    broker, found = PopBroker(), list[StoredMessage]()
    broker.put(*[b"xxxx"] * 40)
    async with popping(broker) as here:
        loop = loop_of(here, found, size_max=100)
        await settled(lambda: len(found) == 32)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(broker.pops) == 1
        loop.done(found[:8])
        await settled(lambda: len(found) == 40)
        await loop.stop()


async def test_messages_with_unwanted_tags_are_acknowledged() -> None:
    broker, found = PopBroker(), list[StoredMessage]()
    broker.put(b"0", tags="lost")
    broker.put(b"1", tags="paid")
    async with popping(broker) as here:
        loop = loop_of(here, found, tags="paid")
        await settled(lambda: broker.acknowledged() == {0})
        await loop.stop()
    assert [message.body for message in found] == [b"1"]


async def test_a_pop_under_way_may_end_after_the_request_to_stop() -> None:
    broker, found = PopBroker(), list[StoredMessage]()
    async with popping(broker) as here:
        loop = loop_of(here, found)
        await broker.is_holding.wait()
        loop.request_stop()
        broker.put(b"0")
        await settled(lambda: loop.has_ended)
        await loop.stop()
    assert ([message.body for message in found], len(broker.pops)) == ([b"0"], 1)
