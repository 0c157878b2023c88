"""Before a broker serves: its store is opened in a thread; pops: ``requests/pop/test_handed_out.py``."""

import asyncio
import threading
from pathlib import Path

from tests.broker.conftest import SMALL, serving
from tests.store.conftest import new_message

from cometmq.broker.broker import open_store, restore_pop_offsets, slave_tables
from cometmq.io.clock import SystemClock
from cometmq.io.files import Disk
from cometmq.store.settings import FlushDiskType, StoreSettings
from cometmq.wire.bodies import TopicTable


class WatchedDisk(Disk):
    """A disk that remembers the thread in which the store is locked."""

    thread: threading.Thread | None = None

    def lock(self, path: Path) -> int | None:
        self.thread = threading.current_thread()
        return super().lock(path)


async def test_a_store_is_opened_in_a_thread_and_dispatches_in_the_loop(tmp_path: Path) -> None:
    disk, settings = WatchedDisk(), StoreSettings(**SMALL, flush_disk_type=FlushDiskType.SYNC_FLUSH)
    with await open_store(tmp_path, settings, disk, SystemClock()) as store:
        assert disk.thread is not threading.current_thread()
        arrived = asyncio.Event()
        store.on_arrival(lambda _: arrived.set())
        store.append([new_message()])
        async with asyncio.timeout(60):
            await arrived.wait()


async def test_a_slave_takes_its_masters_tables(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        tables = slave_tables(bench.parts)
        tables.topics(TopicTable(bench.parts.topics.data_version.next(1)))
        assert bench.parts.topics.data_version.counter == 1
        await restore_pop_offsets(bench.store, bench.parts, Disk(), 8)
