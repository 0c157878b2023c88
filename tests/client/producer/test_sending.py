"""Sends that fail: what is tried again, where, and what is raised in the end."""

import pytest
from tests.client.brokers import Broker, cluster

from cometmq.client import Producer, SendStatus
from cometmq.errors import MessageIllegal, NetworkError, RemoteError
from cometmq.io.clock import ManualClock
from cometmq.message import Message, MessageQueue
from cometmq.net.address import free_port
from cometmq.wire.codes import ResponseCode

RETRIED = [
    ResponseCode.SYSTEM_ERROR,
    ResponseCode.SYSTEM_BUSY,
    ResponseCode.SERVICE_NOT_AVAILABLE,
    ResponseCode.TOPIC_NOT_EXIST,
    ResponseCode.NO_PERMISSION,
]


@pytest.mark.parametrize("code", RETRIED)
async def test_what_another_broker_may_take_is_sent_there(code: ResponseCode) -> None:
    first, second = Broker("a", *[code] * 9), Broker("b", *[code] * 0)
    async with cluster(first, second) as name_server, Producer(name_server) as producer:
        for _ in range(4):
            result = await producer.send(Message("Orders", b"x"))
            assert result.queue.broker_name == "b"
    assert len(second.sent) == 4


async def test_a_broker_that_is_gone_is_passed_over() -> None:
    second = Broker("b")
    nobody = f"127.0.0.1:{free_port()}"
    async with cluster(second, a=nobody) as name_server, Producer(name_server) as producer:
        results = [await producer.send(Message("Orders", b"x")) for _ in range(4)]
    assert {result.queue.broker_name for result in results} == {"b"}


async def test_after_the_last_try_the_error_is_the_brokers() -> None:
    only = Broker("a", *[ResponseCode.SYSTEM_BUSY] * 9)
    async with cluster(only) as name_server, Producer(name_server, tries=3) as producer:
        with pytest.raises(RemoteError, match="code 2: as told"):
            await producer.send(Message("Orders", b"x"))
    assert len(only.sent) == 3
    assert len({header.properties for header in only.sent}) == 1, "the same message each time"


async def test_what_no_broker_will_take_is_not_tried_again() -> None:
    only = Broker("a", ResponseCode.MESSAGE_ILLEGAL)
    async with cluster(only) as name_server, Producer(name_server) as producer:
        with pytest.raises(RemoteError, match="code 13"):
            await producer.send(Message("Orders", b"x"))
    assert len(only.sent) == 1


async def test_a_named_queue_is_tried_once() -> None:
    brokers = Broker("a", *[ResponseCode.SYSTEM_BUSY] * 9), Broker("b")
    async with cluster(*brokers) as name_server, Producer(name_server) as producer:
        with pytest.raises(RemoteError):
            await producer.send(Message("Orders", b"x"), MessageQueue("Orders", "a", 0))
    assert [len(broker.sent) for broker in brokers] == [1, 0]


@pytest.mark.parametrize("code", [ResponseCode.SYSTEM_BUSY, None])
async def test_after_a_named_queue_has_failed_its_master_is_looked_for_again(code: int | None) -> None:
    old, new = Broker("a", code), Broker("a")
    queue = MessageQueue("Orders", "a", 0)
    async with (
        cluster(old) as name_server,
        cluster(new) as later,
        Producer(f"{name_server};{later}", timeout_ms=1_500) as producer,
    ):
        with pytest.raises((RemoteError, NetworkError)):
            await producer.send(Message("Orders", b"x"), queue)
        producer._routes._name_servers.reverse()  # as if the first one knew it by now
        await producer.send(Message("Orders", b"x"), queue)
    assert [len(broker.sent) for broker in (old, new)] == [1, 1]


async def test_a_broker_that_does_not_answer_is_given_up_in_time() -> None:
    silent, second = Broker("a", None, None, None), Broker("b")
    async with cluster(silent, second) as name_server, Producer(name_server, timeout_ms=1_500) as producer:
        for _ in range(2):
            assert (await producer.send(Message("Orders", b"x"))).queue.broker_name == "b"


@pytest.mark.parametrize(
    "code",
    [ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE],
)
async def test_a_message_that_is_stored_less_safely_is_stored(code: ResponseCode) -> None:
    async with cluster(Broker("a", code)) as name_server, Producer(name_server) as producer:
        result = await producer.send(Message("Orders", b"x"))
    assert result.status == SendStatus(code)


async def test_a_broker_that_failed_is_left_alone_for_a_while_if_that_is_wanted() -> None:
    clock = ManualClock()
    first, second = Broker("a", ResponseCode.SYSTEM_BUSY), Broker("b")
    async with (
        cluster(first, second) as name_server,
        Producer(name_server, latency_fault_tolerance=True, clock=clock) as producer,
    ):
        for _ in range(10):
            assert (await producer.send(Message("Orders", b"x"))).queue.broker_name == "b"
        assert len(first.sent) <= 1
        clock.advance(10_000)
        names = {(await producer.send(Message("Orders", b"x"))).queue.broker_name for _ in range(4)}
        assert names == {"a", "b"}


async def test_a_queue_of_another_topic_is_refused() -> None:
    only = Broker("a")
    other = MessageQueue("Others", "a", 0)
    async with cluster(only) as name_server, Producer(name_server) as producer:
        message = Message("Orders", b"x")
        for send in (producer.send, producer.send_oneway):
            for where in (other, lambda _: other):
                with pytest.raises(MessageIllegal, match="topic 'Orders' for a queue of topic 'Others'"):
                    await send(message, where)
        with pytest.raises(MessageIllegal, match="queue of topic 'Others'"):
            await producer.send_batch([message], other)
    assert only.sent == []
