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
