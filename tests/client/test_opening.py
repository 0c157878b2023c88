"""Clients that are not open say so, with the remedy; start and stop open and close them."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from cometmq import blocking, client
from cometmq.errors import NetworkError, SettingsError
from cometmq.message import Message, MessageQueue
from cometmq.testing import AsyncEmbeddedBroker

NOBODY = "127.0.0.1:1"
ORDER = Message("Orders", b"paid")
SENDS: list[Callable[[client.Producer], Awaitable[Any]]] = [
    lambda producer: producer.send(ORDER),
    lambda producer: producer.send_many([ORDER]),
    lambda producer: producer.send_batch([ORDER]),
    lambda producer: producer.send_oneway(ORDER),
    lambda producer: producer.request(ORDER),
    lambda producer: producer.queues("Orders"),
]


async def nobody_asks(_: object) -> client.TransactionState:
    return client.TransactionState.UNKNOWN


def producers() -> list[client.Producer]:
    return [client.Producer(NOBODY), client.TransactionProducer(NOBODY, "g", check=nobody_asks)]


@pytest.mark.parametrize("send", SENDS)
@pytest.mark.parametrize("producer", producers(), ids=lambda one: type(one).__name__)
async def test_a_producer_that_is_not_open_says_how_to_open_it(
    send: Callable[[client.Producer], Awaitable[Any]], producer: client.Producer
) -> None:
    with pytest.raises(NetworkError, match=r"not open: use it within 'async with .* or await its start\(\)"):
        await send(producer)


async def test_other_clients_that_are_not_open_say_so_too() -> None:
    with pytest.raises(NetworkError, match="this Lookup is not open"):
        await client.Lookup(NOBODY).by_key("Orders", "k")
    with pytest.raises(SettingsError, match="use subscribe"):
        await client.SimpleConsumer(NOBODY, "g").receive()
    with pytest.raises(SettingsError, match="use subscribe"):
        await client.LitePullConsumer(NOBODY, "g").poll(0)
    with pytest.raises(NetworkError, match="not open"):
        blocking.Producer(NOBODY).send(ORDER)


async def test_clients_that_were_closed_say_so() -> None:
    queue = MessageQueue("Orders", "a", 0)
    reader = client.PullConsumer(NOBODY, "g")
    async with reader, client.Producer(NOBODY) as producer, client.Lookup(NOBODY) as lookup:
        pass
    for use in (reader.pull(queue, 0), producer.send(ORDER), lookup.by_key("Orders", "k")):
        with pytest.raises(NetworkError, match="closed"):
            await use


async def test_start_and_stop_open_and_close_a_producer(rocketmq_async: AsyncEmbeddedBroker) -> None:
    producer = client.Producer(rocketmq_async.name_server)
    await producer.stop()  # it is not open: nothing happens
    for _ in range(2):
        await producer.start()
        with pytest.raises(SettingsError, match="is open already"):
            await producer.start()
        assert (await producer.send(ORDER)).queue.topic == "Orders"
        await producer.stop()


def test_a_missing_attribute_is_an_attribute_error() -> None:
    producer: Any = client.Producer(NOBODY)
    assert not hasattr(producer, "sent")
    with pytest.raises(AttributeError, match="'Producer' object has no attribute 'sent'"):
        _ = producer.sent
