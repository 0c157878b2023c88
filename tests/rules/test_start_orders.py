"""Name server, broker, consumer, producer and topic may start in any order.

A Java client starts while no server is there, and goes on once they are. So do ours: a consumer waits for a
name server, and the first send as long as its timeout.
"""

import asyncio
import logging
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import permutations
from pathlib import Path
from typing import Final

import pytest
from tests.live import SMALL, in_thread

from cometmq import blocking
from cometmq.admin.topics import TopicAdmin
from cometmq.broker.broker import Broker
from cometmq.broker.settings import BrokerSettings
from cometmq.client import Consumer, LitePullConsumer, Producer, Start
from cometmq.errors import NetworkError, NoRoute, WrongProtocol, WrongServer
from cometmq.message import Message, StoredMessage
from cometmq.namesrv.name_server import NameServer
from cometmq.net.address import free_port
from cometmq.store.settings import StoreSettings
from cometmq.testing.memory_disk import MemoryDisk

PATIENCE_S: Final = 60
LONG_MS: Final = 60_000
TOPIC: Final = "Orders"


class Stage:
    """The parts of a cluster, each of which is started when the test says so."""

    def __init__(self, stack: AsyncExitStack, *, creates_topics: bool) -> None:
        self._kept = socket.socket()  # nobody else gets the name server's port before it starts
        self._kept.bind(("127.0.0.1", 0))
        stack.callback(self._kept.close)
        self.port: int = self._kept.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.broker = ""
        self._stack = stack
        self._creates_topics = creates_topics
        self._tasks: list[asyncio.Task[None]] = []
        self._arrived = asyncio.Event()

    async def start(self, part: str) -> None:
        """Start a part; a client goes on by itself."""
        starts: dict[str, Callable[[], Awaitable[None]]] = {
            "name server": self._start_name_server,
            "broker": self._start_broker,
            "topic": self._create_topic,
        }
        if part in starts:
            await starts[part]()
        else:
            work = self._consume() if part == "consumer" else self._produce()
            self._tasks.append(asyncio.create_task(work, name=part))
        await asyncio.sleep(0)

    async def until_handled(self) -> None:
        """Wait until the consumer has what the producer sent. Raises what a client raised."""
        await asyncio.gather(*self._tasks)

    async def _start_name_server(self) -> None:
        self._kept.close()
        name_server = NameServer(port=self.port)
        await name_server.start()
        self._stack.push_async_callback(name_server.stop)

    async def _start_broker(self) -> None:
        settings = BrokerSettings.of(
            listen_port=0,
            namesrv_addr=self.address,
            store_path_root_dir="/store",
            auto_create_topic_enable=self._creates_topics,
        )
        broker = Broker(settings, StoreSettings(**SMALL), files=MemoryDisk(), load_kernels=False)
        await broker.start()
        self.broker = broker.address
        self._stack.push_async_callback(broker.stop)

    async def _create_topic(self) -> None:
        async with TopicAdmin(self.address) as admin, asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    await admin.create(TOPIC)
                except NoRoute:  # the broker tries to register each second
                    await asyncio.sleep(0.05)
                else:
                    return

    async def _consume(self) -> None:
        consumer = Consumer(self.address, "g", start=Start.FIRST)

        @consumer.on(TOPIC)
        async def handle(_: StoredMessage) -> None:
            self._arrived.set()

        async with consumer:
            await self._arrived.wait()

    async def _produce(self) -> None:
        async with Producer(self.address, timeout_ms=LONG_MS) as producer, asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    await producer.send(Message(TOPIC, b"x"))
                except NoRoute:  # brokers are there, and the topic is not: the application decides
                    await asyncio.sleep(0.05)
                else:
                    return


@asynccontextmanager
async def stage(*, creates_topics: bool) -> AsyncIterator[Stage]:
    async with AsyncExitStack() as stack:
        yield Stage(stack, creates_topics=creates_topics)


async def comes_together(order: tuple[str, ...]) -> None:
    async with stage(creates_topics="topic" not in order) as here:
        for part in order:
            await here.start(part)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await here.until_handled()
        except TimeoutError:
            pytest.fail(f"nothing was handled after the order {order}")


PARTS: Final = ("name server", "broker", "consumer", "producer")
AUTOMATIC: Final = list(permutations(PARTS))
CREATED: Final = [
    order
    for order in permutations((*PARTS, "topic"))
    if order.index("topic") > max(order.index("name server"), order.index("broker"))
]


@pytest.mark.parametrize("orders", [AUTOMATIC, CREATED[:20], CREATED[20:]], ids=["automatic", "a", "b"])
async def test_parts_may_start_in_any_order(orders: list[tuple[str, ...]]) -> None:
    await asyncio.gather(*map(comes_together, orders))


async def test_a_consumer_that_waits_says_so_and_gives_up_after_its_timeout(
    caplog: pytest.LogCaptureFixture,
) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    consumer = Consumer(nobody, "g", start_timeout_ms=700)
    consumer.subscribe(TOPIC, print)
    with caplog.at_level(logging.WARNING), pytest.raises(NetworkError, match=f"no name server.*{nobody}"):
        await consumer.start()
    (line,) = [one.getMessage() for one in caplog.records if "waits for a name server" in one.getMessage()]
    assert "group g" in line and nobody in line
    async with LitePullConsumer(nobody, "g", start_timeout_ms=0) as polling:
        with pytest.raises(NetworkError, match="no name server answers"):
            await polling.subscribe(TOPIC)


@pytest.mark.parametrize("how", ["stop", "cancel"])
async def test_a_consumer_that_waits_can_be_stopped(how: str) -> None:
    consumer = Consumer(f"127.0.0.1:{free_port()}", "g")
    consumer.subscribe(TOPIC, print)
    starting = asyncio.create_task(consumer.start())
    for _ in range(5):
        await asyncio.sleep(0)
    if how == "stop":
        await consumer.stop()
    else:
        starting.cancel()
    with pytest.raises((NetworkError, asyncio.CancelledError)):
        async with asyncio.timeout(PATIENCE_S):
            await starting
    assert consumer.queues == []


async def test_a_first_send_waits_for_a_name_server_and_for_a_broker_as_long_as_its_timeout() -> None:
    loop = asyncio.get_running_loop()
    async with stage(creates_topics=True) as here, Producer(here.address, timeout_ms=1_500) as producer:
        began = loop.time()
        with pytest.raises(NetworkError, match=f"no name server answers.*{here.address}"):
            await producer.send(Message(TOPIC, b"x"))
        assert 1.5 <= loop.time() - began < PATIENCE_S
        await here.start("name server")
        with pytest.raises(NoRoute, match=here.address):
            await producer.send(Message(TOPIC, b"x"))


async def test_a_topic_that_is_not_there_is_not_waited_for() -> None:
    async with stage(creates_topics=False) as here, Producer(here.address, timeout_ms=LONG_MS) as producer:
        await here.start("name server")
        await here.start("broker")
        await here.start("topic")
        await producer.send(Message(TOPIC, b"x"))
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(NoRoute, match="'Odrers'"):
                await producer.send(Message("Odrers", b"x"))


async def test_an_address_that_is_no_name_servers_is_not_waited_for() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server, stage(creates_topics=True) as here, asyncio.timeout(PATIENCE_S):
        port = server.sockets[0].getsockname()[1]
        consumer = Consumer(f"127.0.0.1:{port}", "g")
        consumer.subscribe(TOPIC, print)
        with pytest.raises(WrongProtocol, match="this is HTTP"):
            await consumer.start()
        async with Producer(f"127.0.0.1:{port}", timeout_ms=LONG_MS) as producer:
            with pytest.raises(WrongProtocol, match="this is HTTP"):
                await producer.send(Message(TOPIC, b"x"))
        await here.start("broker")
        consumer = Consumer(here.broker, "g")
        consumer.subscribe(TOPIC, print)
        with pytest.raises(WrongServer, match=f"{here.broker} is a broker, not a name server"):
            await consumer.start()


@pytest.mark.parametrize("first", ["consumer", "producer"])
def test_blocking_clients_may_start_before_all_servers(tmp_path: Path, first: str) -> None:
    port = free_port()
    address = f"127.0.0.1:{port}"
    arrived, ready = threading.Event(), threading.Barrier(2)

    def consume() -> None:
        consumer = blocking.Consumer(address, "g", start=Start.FIRST)
        consumer.subscribe(TOPIC, lambda _: arrived.set())
        ready.wait(PATIENCE_S)
        with consumer:
            assert arrived.wait(PATIENCE_S)

    def produce() -> None:
        with blocking.Producer(address, timeout_ms=LONG_MS) as producer:
            ready.wait(PATIENCE_S)
            producer.send(Message(TOPIC, b"x"))

    early, late = (consume, produce) if first == "consumer" else (produce, consume)
    with ThreadPoolExecutor(2) as threads:
        clients = [threads.submit(early)]
        ready.wait(PATIENCE_S)
        with in_thread(tmp_path, namesrv_port=port):
            clients.append(threads.submit(late))
            ready.wait(PATIENCE_S)
            for client in clients:
                client.result(PATIENCE_S)
