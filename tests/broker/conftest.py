"""A broker's parts over a real store and real sockets, with a clock that tests turn."""

import asyncio
import errno
import os
import threading
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from cometmq.broker.assembly import Assembly
from cometmq.broker.settings import BrokerSettings, Settings
from cometmq.format import properties, record
from cometmq.io.clock import ManualClock
from cometmq.io.files import Disk, FileLayer
from cometmq.net.connection import Connection
from cometmq.net.min_timeouts import min_timeout
from cometmq.net.server import Server
from cometmq.store.settings import FlushDiskType, StoreSettings
from cometmq.store.store import MessageStore
from cometmq.testing.memory_disk import MemoryDisk
from cometmq.wire import headers
from cometmq.wire.bodies import (
    Body,
    ConsumeFromWhere,
    ConsumerData,
    Heartbeat,
    MessageModel,
    encode,
    tag_subscription,
)
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import Header, PullFlag, PullHeader, SendHeaderV2

BROKER = "broker-a"
SMALL: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 20,
    "mapped_file_size_consume_queue": 20 * 1000,
    "mapped_file_size_timer_log": 4096,
    "max_hash_slot_num": 100,
    "max_index_num": 1000,
}
SYNC: dict[str, Any] = {"flush_disk_type": FlushDiskType.SYNC_FLUSH}
WAIT_S = 60


class GatedDisk(MemoryDisk):
    """A disk that syncs only while its gate is open, or fails to; tables are saved while ``saves`` is set."""

    def __init__(self, space_bytes: int = 2**40) -> None:
        super().__init__(space_bytes)
        self.gate = threading.Event()
        self.gate.set()
        self.saves = threading.Event()
        self.saves.set()
        self.fails = False

    def sync(self, path: Path) -> None:
        assert self.gate.wait(WAIT_S)
        if self.fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        super().sync(path)

    def save(self, path: Path, data: bytes) -> None:
        assert self.saves.wait(WAIT_S)
        super().save(path, data)


class Client:
    """One client's connection to a broker, and what the broker told it of its own accord."""

    def __init__(self, connection: Connection, told: "asyncio.Queue[Command]") -> None:
        self.connection = connection
        self.told = told

    @classmethod
    async def open(cls, address: str) -> "Client":
        told: asyncio.Queue[Command] = asyncio.Queue()
        return cls(await Connection.open(address, lambda _, command: told.put_nowait(command)), told)

    async def ask(
        self, code: RequestCode, header: Header | None = None, body: bytes | Body = b"", **changes: Any
    ) -> Command:
        """Ask the broker; ``changes`` are of the command itself."""
        return await self.ask_later(code, header, body, **changes)

    def ask_later(
        self, code: RequestCode, header: Header | None = None, body: bytes | Body = b"", **changes: Any
    ) -> "asyncio.Future[Command]":
        """Ask the broker without waiting for the answer."""
        fields = headers.fields(header) if header is not None else {}
        data = body if isinstance(body, bytes) else encode(body)
        return self.connection.request(Command(code, ext_fields=fields, body=data, **changes))

    async def send(self, topic: str, body: bytes = b"body", queue_id: int = 0, **named: str) -> Command:
        """Send a message; ``named`` are its properties."""
        return await self.ask(RequestCode.SEND_MESSAGE_V2, send_header(topic, queue_id, **named), body)

    async def heartbeat(
        self,
        group: str,
        *topics: str,
        tags: str = "*",
        client_id: str = "c",
        model: MessageModel = MessageModel.CLUSTERING,
        start: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET,
    ) -> Command:
        """Be a consumer."""
        subscriptions = [tag_subscription(topic, tags, 1) for topic in topics]
        consumer = ConsumerData(
            group, message_model=model, consume_from_where=start, subscriptions=subscriptions
        )
        return await self.ask(RequestCode.HEART_BEAT, body=Heartbeat(client_id, consumers=[consumer]))


class Bench(Client):
    """A broker's parts, and the first client."""

    parts: Assembly
    store: MessageStore
    clock: ManualClock
    address: str


@asynccontextmanager
async def serving(
    root: Path,
    store: dict[str, Any] | None = None,
    *,
    files: FileLayer | None = None,
    bulk: bool = False,
    passed_ms: int = 0,
    **settings: Any,
) -> AsyncIterator[Bench]:
    """Serve a store under ``root``; the arguments are settings by their names in code.

    Args:
        bulk: whether usual requests become rows, as in a broker; else all come as commands.
        passed_ms: how much later than a first broker it starts.
    """
    files = files or Disk()
    clock = ManualClock()
    clock.advance(passed_ms)
    store_settings = StoreSettings(**SMALL | (store or {}))
    own = BrokerSettings.of(broker_name=BROKER, **settings)
    loop = asyncio.get_running_loop()
    run_soon = loop.call_soon_threadsafe
    with MessageStore.open(root, store_settings, files=files, clock=clock, run_soon=run_soon) as opened:
        server = Server(Nobody(), clock=clock, limits=own.flow.limits)
        port = await server.start("127.0.0.1", 0)
        parts = Assembly(Settings(own, store_settings), opened, files, clock, ("127.0.0.1", port))
        server.handler, server.bulk = parts.requests, parts.bulk if bulk else None
        address = f"127.0.0.1:{port}"
        with min_timeout(address, WAIT_S):
            client = await Client.open(address)
            bench = Bench(client.connection, client.told)
            bench.parts, bench.store, bench.clock, bench.address = parts, opened, clock, address
            try:
                yield bench
            finally:
                await bench.connection.close()
                await server.stop()
                await parts.lock_requests.stop()
                await parts.assignments.stop()
                await parts.stop_saving()
                parts.offsets.save()


class Nobody:
    """Answers nothing."""

    def handle(self, *_: object) -> None:
        pass

    def closed(self, *_: object) -> None:
        pass


def deliver(bench: Bench, after_ms: int = 0) -> None:
    """Advance the time, and deliver the delayed messages that are due then."""
    bench.clock.advance(after_ms)
    while bench.parts.schedule.deliver():
        pass


def send_header(topic: str, queue_id: int = 0, **named: str) -> SendHeaderV2:
    return SendHeaderV2(
        producer_group="pg",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_count=4,
        queue_id=queue_id,
        sys_flag=0,
        born_time=1_600_000_000_000,
        flag=0,
        properties=properties.encode(named).decode(),
    )


def pull_header(
    topic: str, offset: int = 0, *, tags: str = "*", wait_ms: int = 0, queue_id: int = 0, group: str = "cg"
) -> PullHeader:
    """Build a pull that brings its subscription along."""
    return PullHeader(
        consumer_group=group,
        topic=topic,
        queue_id=queue_id,
        queue_offset=offset,
        max_message_count=32,
        sys_flag=PullFlag.SUBSCRIPTION | (PullFlag.SUSPEND if wait_ms else 0),
        commit_offset=0,
        suspend_timeout_ms=wait_ms,
        subscription=tags,
    )


def bodies(answers: Command | Iterable[bytes]) -> list[bytes]:
    """Return the bodies of the messages that an answer's records hold."""
    data = answers.body if isinstance(answers, Command) else b"".join(answers)
    return [message.body for message in record.decode_many(data)]
