"""Answers that wait for the disk: who is answered when, and with what."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.broker.conftest import SMALL, SYNC, WAIT_S, GatedDisk
from tests.store.conftest import new_message

from cometmq.broker.disk_wait import DiskWaits
from cometmq.io.clock import ManualClock
from cometmq.store.settings import StoreSettings
from cometmq.store.store import MessageStore

ROOT = Path("/disk/store")


class Desk:
    """A store under SYNC_FLUSH, those who wait for it, and what they were told."""

    def __init__(self, store: MessageStore, disk: GatedDisk) -> None:
        self.store, self.disk = store, disk
        self.waits = DiskWaits(store)
        self.told: asyncio.Queue[tuple[int, str | None]] = asyncio.Queue()

    def append(self) -> int:
        """Append a message and wait for it; gives the offset behind it."""
        self.store.append([new_message()])
        offset = self.store.written_offset
        self.waits.add(lambda unsafe: self.told.put_nowait((offset, unsafe)))
        return offset

    async def next(self) -> tuple[int, str | None]:
        return await asyncio.wait_for(self.told.get(), WAIT_S)


@asynccontextmanager
async def desk(timeout_ms: int = 60_000) -> AsyncIterator[Desk]:
    disk = GatedDisk()
    settings = StoreSettings(**SMALL | SYNC, sync_flush_timeout=timeout_ms)
    run_soon = asyncio.get_running_loop().call_soon_threadsafe
    with MessageStore.open(ROOT, settings, files=disk, clock=ManualClock(), run_soon=run_soon) as store:
        try:
            yield Desk(store, disk)
        finally:
            disk.gate.set()


async def test_one_sync_answers_all_who_wait_in_their_order() -> None:
    async with desk() as made:
        made.disk.gate.clear()
        offsets = [made.append() for _ in range(5)]
        assert made.told.empty()
        made.disk.gate.set()
        assert [await made.next() for _ in offsets] == [(offset, None) for offset in offsets]
        assert made.store.flushed_offset == offsets[-1]


async def test_what_is_on_the_disk_already_is_answered_at_once() -> None:
    async with desk() as made:
        made.append()
        await made.next()
        said: list[str | None] = []
        made.waits.add(said.append)
        assert said == [None]


async def test_a_sync_that_fails_answers_all_and_says_why() -> None:
    async with desk() as made:
        made.disk.gate.clear()
        for _ in range(3):
            made.append()
        made.disk.fails = True
        made.disk.gate.set()
        for _ in range(3):
            _, unsafe = await made.next()
            assert unsafe is not None and "sync failed" in unsafe


async def test_a_sync_that_takes_too_long_is_said_so_once() -> None:
    async with desk(timeout_ms=1) as made:
        made.disk.gate.clear()
        offset = made.append()
        said, unsafe = await made.next()
        assert said == offset and unsafe is not None and "after 1 ms (syncFlushTimeout)" in unsafe
        made.disk.gate.set()
        made.append()
        assert (await made.next())[0] > offset, "said twice"
