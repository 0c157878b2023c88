from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cometmq.format import properties
from cometmq.format.host import pack_host
from cometmq.io.clock import ManualClock
from cometmq.store import MessageStore, NewMessage, StoreSettings
from cometmq.testing.memory_disk import MemoryDisk

ROOT = Path("/store")
HOST = pack_host("127.0.0.1", 10911)
SMALL = StoreSettings(
    mapped_file_size_commit_log=8_192,
    mapped_file_size_consume_queue=400,
    max_hash_slot_num=10,
    max_index_num=50,
)
"""Files so small that a few messages roll them all."""

OpenStore = Callable[..., MessageStore]


def new_message(
    topic: str = "Orders",
    queue_id: int = 0,
    body: bytes = b"body",
    *,
    tags: str | None = None,
    keys: str | None = None,
    **fields: Any,
) -> NewMessage:
    """A message as the broker gives it to the store."""
    by_name = {name: value for name, value in (("KEYS", keys), ("TAGS", tags)) if value}
    return NewMessage(
        topic,
        queue_id,
        body,
        properties.encode(by_name),
        born_time=1_000,
        born_host=HOST,
        store_host=HOST,
        tags=tags,
        **fields,
    )


@pytest.fixture
def disk() -> MemoryDisk:
    """An empty disk."""
    return MemoryDisk()


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still."""
    return ManualClock()


@pytest.fixture
def open_store(disk: MemoryDisk, clock: ManualClock) -> Iterator[OpenStore]:
    """Opens stores, and closes at the end what the test left open."""
    stores: list[MessageStore] = []

    def open_(settings: StoreSettings = SMALL, files: MemoryDisk = disk, **options: Any) -> MessageStore:
        store = MessageStore.open(ROOT, settings, files=files, clock=clock, **options)
        stores.append(store)
        return store

    yield open_
    for store in stores:
        store.close()


def settle(store: MessageStore, clock: ManualClock) -> None:
    """Run a thorough round, so that all that is derived is on the disk."""
    store.wait_flushed().result()
    clock.advance(SMALL.flush_consume_queue_thorough_interval)
    paths, dispatched_time = store.tick(), store.dispatched_time
    store.sync_files(paths)
    store.vouch(dispatched_time)


def damaged(disk: MemoryDisk, path: Path, position: int, data: bytes) -> MemoryDisk:
    """The disk with some bytes of a file overwritten."""
    disk.open(path, writable=True).write(position, data)
    return disk


class Interrupted(MemoryDisk):
    """A disk whose process is killed before its n-th save, which raises an error."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.saves_left = 1_000
        self._error = error

    def save(self, path: Path, data: bytes) -> None:
        if not self.saves_left:
            raise self._error
        self.saves_left -= 1
        super().save(path, data)
