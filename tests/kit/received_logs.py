"""Stores that receive a log in pieces, as a slave's does."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.broker.conftest import SMALL

from cometmq.io.clock import ManualClock
from cometmq.store.reading import run
from cometmq.store.settings import StoreSettings
from cometmq.store.store import MessageStore
from cometmq.testing.memory_disk import MemoryDisk

ROOT = Path("/disk/store")
FILE = 16 * 1024


@contextmanager
def store_on(disk: MemoryDisk, **changes: Any) -> Iterator[MessageStore]:
    own = StoreSettings(**SMALL | {"mapped_file_size_commit_log": FILE} | changes)
    with MessageStore.open(ROOT, own, files=disk, clock=ManualClock()) as store:
        yield store


def log_of(store: MessageStore, begin: int = 0) -> list[tuple[int, bytes]]:
    """Return the log in stretches, one for each file."""
    found, offset = [], begin
    while (data := run(store.readings.log_bytes(offset, FILE))) is not None:
        found.append((offset, bytes(data)))
        offset += len(data)
    return found
