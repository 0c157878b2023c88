"""A group that begins at the end, and a broker that is away then: what that stores later is not skipped."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.client.pops import GROUP
from tests.consuming import Basket
from tests.live import SMALL, serving

from cometmq.admin.topics import TopicAdmin
from cometmq.broker.broker import Broker
from cometmq.broker.settings import BrokerSettings
from cometmq.client import Consumer, LitePullConsumer, Producer, SimpleConsumer, Start, routes
from cometmq.client.consumer.pop import assignments
from cometmq.client.group import membership, rebalancing
from cometmq.message import Message, MessageQueue, StoredMessage
from cometmq.store.read.readings import Readings
from cometmq.store.settings import StoreSettings

AWAY = MessageQueue("Orders", "broker-b", 0)


class Absentee:
    """A name server with two brokers, of which ``broker-b`` is away, and what it does when it returns."""

    def __init__(self, name_server: str, root: Path) -> None:
        self.name_server = name_server
        self._root = root

    @asynccontextmanager
    async def back(self) -> AsyncIterator[None]:
        settings = BrokerSettings.of(
            broker_name=AWAY.broker_name,
            listen_port=0,
            namesrv_addr=self.name_server,
            store_path_root_dir=str(self._root),
        )
        broker = Broker(settings, StoreSettings(**SMALL), load_kernels=False)
        await broker.start()
        try:
            yield
        finally:
            await broker.stop()

    async def store(self, *bodies: bytes) -> None:
        """Store messages at the broker, which is back."""
        async with Producer(self.name_server) as producer:
            for body in bodies:
                await producer.send(Message(AWAY.topic, body), AWAY)


@asynccontextmanager
async def absentee(root: Path) -> AsyncIterator[Absentee]:
    async with asyncio.timeout(60), serving(root / "a") as live, TopicAdmin(live.name_server) as admin:
        here = Absentee(live.name_server, root / "b")
        async with here.back():
            for topic in (AWAY.topic, "Others"):
                await admin.create(topic, queues=1)
            await here.store(b"old", b"old")
        yield here


@pytest.fixture
def prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for brokers often, and have queues whose first messages are long out of memory."""
    monkeypatch.setattr(Readings, "is_young", never_young)
    for module, name in ((routes, "REFRESH_S"), (assignments, "ASSIGNMENT_S"), (rebalancing, "REBALANCE_S")):
        monkeypatch.setattr(module, name, 0.05)
    monkeypatch.setattr(membership, "BEGIN_S_MAX", 0.1)


def never_young(*_: object) -> Generator[Any, Any, bool]:
    yield from ()
    return False


async def first_of(receive: Callable[[], Awaitable[list[StoredMessage]]]) -> bytes:
    while not (messages := await receive()):
        pass
    return messages[0].body


@pytest.mark.usefixtures("prompt")
async def test_a_simple_consumer_receives_what_was_stored_since_it_subscribed(tmp_path: Path) -> None:
    async with absentee(tmp_path) as here, SimpleConsumer(here.name_server, GROUP) as consumer:
        await consumer.subscribe(AWAY.topic)
        assert await consumer.receive(wait_ms=0) == []
        async with here.back():
            await here.store(b"new", b"newer")
            assert await first_of(partial(consumer.receive, wait_ms=50)) == b"new"


@pytest.mark.usefixtures("prompt")
@pytest.mark.parametrize("pop", [True, False])
async def test_a_push_consumer_handles_what_was_stored_since_its_start(tmp_path: Path, pop: bool) -> None:
    async with absentee(tmp_path) as here:
        basket = Basket()
        consumer = Consumer(here.name_server, GROUP, start=Start.LAST, pop=pop)
        consumer.subscribe(AWAY.topic, basket.put)
        async with consumer, here.back():
            await here.store(b"new", b"newer")
            assert sorted(await basket.has(2)) == [b"new", b"newer"]


@pytest.mark.usefixtures("prompt")
@pytest.mark.parametrize("kind", ["subscribed", "subscribed to one topic more", "assigned"])
async def test_a_lite_pull_consumer_polls_what_was_stored_since_it_subscribed(
    tmp_path: Path, kind: str
) -> None:
    async with absentee(tmp_path) as here, LitePullConsumer(here.name_server, GROUP) as consumer:
        await (consumer.assign([AWAY]) if kind == "assigned" else consumer.subscribe(AWAY.topic))
        async with here.back():
            await here.store(b"new", b"newer")
            if kind == "subscribed to one topic more":
                await consumer.subscribe("Others")
            assert await first_of(consumer.poll) == b"new"
