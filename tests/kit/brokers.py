"""Brokers: with a log that is not in memory, with expired files, registered, and gone."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event, current_thread, main_thread
from typing import Any

from tests.broker.conftest import Bench, serving
from tests.fuzzed_broker import register

from cometmq.admin.cluster import ClusterAdmin
from cometmq.broker.admin.statistics import SAMPLE_MS
from cometmq.broker.name_servers.registration import NameServers
from cometmq.broker.settings import BrokerSettings
from cometmq.broker.state.topics import Topics, boot_topics
from cometmq.format import layout
from cometmq.io.clock import ManualClock
from cometmq.io.disk_file import DiskFile, MappedFile
from cometmq.io.files import Disk, File
from cometmq.message import Buffer
from cometmq.namesrv.name_server import NameServer
from cometmq.net.address import free_port
from cometmq.store.settings import StoreSettings
from cometmq.store.tables import JsonTable
from cometmq.wire.codes import RequestCode, ResponseCode


class ColdFile(DiskFile):
    """A file of which nothing is in memory."""

    disk: "ColdDisk"

    def read_ready(self, position: int, size: int) -> Buffer | None:
        return None if self.disk.cold else super().read_ready(position, size)

    def mapped(self) -> MappedFile | None:
        return None if self.disk.cold else super().mapped()

    def read(self, position: int, size: int) -> bytes:
        if self.disk.cold:
            assert current_thread() is not main_thread(), "the loop waits for the disk"
            self.disk.asked.set()
            assert self.disk.turns.wait(60)
            if self.disk.broken:
                raise OSError(errno.EIO, os.strerror(errno.EIO), str(self.path))
        return super().read(position, size)


class ColdDisk(Disk):
    """A disk that turns, or stands still: then who reads from it waits."""

    def __init__(self) -> None:
        super().__init__()
        self.cold = self.broken = False
        self.turns, self.asked = Event(), Event()

    def create(self, path: Path, size: int, *, durable: bool = True) -> File:
        return self._cold(super().create(path, size, durable=durable))

    def open(self, path: Path, *, writable: bool) -> File:
        return self._cold(super().open(path, writable=writable))

    def _cold(self, file: File) -> File:
        assert isinstance(file, DiskFile)
        cold = ColdFile(file.path, file._fd, self._pages)
        cold.disk = self
        return cold


@asynccontextmanager
async def cold_broker(root: Path, messages: int = 40) -> AsyncIterator[tuple[Bench, ColdDisk]]:
    """A broker with messages in queue 0 of topic T, on a disk that stands still."""
    disk = ColdDisk()
    async with serving(root, files=disk) as bench:
        for n in range(messages):
            await bench.send("T", b"%d" % n, KEYS=f"k{n}")
            bench.clock.advance(1_000)
        disk.cold = True
        yield bench, disk
        disk.turns.set()


async def until(bench: Bench, condition: Callable[[], bool]) -> None:
    """Come back when it is so; each answer of the broker is a turn of its loop."""
    while not condition():
        await bench.ask(RequestCode.GET_ALL_TOPIC_CONFIG)


QUICK: dict[str, Any] = {"mapped_file_size_commit_log": 8_192, "file_reserved_time": 0}
ROUND_MS = StoreSettings().flush_consume_queue_thorough_interval


async def remove_expired(bench: Bench) -> None:
    """Vouch for all that the store has, then ask for what has expired to be removed."""
    store = bench.store
    store.wait_flushed().result()
    bench.clock.advance(ROUND_MS)
    paths, time = store.tick(), store.dispatched_time
    store.sync_files(paths)
    store.vouch(time)
    for path in layout.commitlog_dir(store.root).iterdir():
        os.utime(path, (0, 0))
    answer = await bench.ask(RequestCode.DELETE_EXPIRED_COMMITLOG)
    assert answer.code == ResponseCode.SUCCESS
    store.retention.run()


async def sample(bench: Bench, count: int = 1) -> None:
    for _ in range(count):
        bench.clock.advance(SAMPLE_MS)
        await bench.parts.statistics.sample()


async def register_a_broker_that_is_gone(admin: ClusterAdmin, *topics: str) -> str:
    """Register a broker that nobody reaches, with a queue of some topics; return its address."""
    gone = f"127.0.0.1:{free_port()}"
    await register(admin, "broker-gone", gone, *topics)
    return gone


ADDRESS = "127.0.0.1:10911"


@asynccontextmanager
async def name_server(port: int = 0) -> AsyncIterator[NameServer]:
    server = NameServer(port=port)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def registered(
    directory: Path, *addresses: str, permission: int = 6
) -> AsyncIterator[tuple[Topics, NameServers]]:
    settings = BrokerSettings.of(
        broker_name="broker-a", namesrv_addr=";".join(addresses), broker_permission=permission
    )
    topics = Topics(
        JsonTable(Disk(), directory / "topics.json"), ManualClock(), boot_topics(settings), auto_create=True
    )
    name_servers = NameServers(topics, settings, ADDRESS)
    name_servers.begin()
    await name_servers.wait_known()
    try:
        yield topics, name_servers
    finally:
        await name_servers.stop()


async def publish(topics: Topics, *names: str) -> None:
    published = asyncio.Event()
    topics.when_published(names, lambda _: published.set())
    assert not published.is_set()
    await published.wait()
