"""What stores hold: golden ones, rebuilt and recovered ones, and a disk whose writes wait."""

import errno
import os
import threading
from pathlib import Path

import pyarrow as pa
from tests.broker.conftest import WAIT_S
from tests.log_rows import Row
from tests.store.conftest import ROOT

from cometmq.format import layout
from cometmq.format.record import decode
from cometmq.store import MessageStore, StoreSettings
from cometmq.testing.memory_disk import MemoryDisk

GOLDEN = StoreSettings(
    mapped_file_size_commit_log=1_048_576,
    mapped_file_size_consume_queue=6_000,
    max_hash_slot_num=1_000,
    max_index_num=4_000,
)


def contents(root: Path) -> dict[str, bytes]:
    """All files under a directory."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


FIRST = layout.commitlog_path(ROOT, 0)


def numbers(store: MessageStore) -> list[int]:
    """The numbers of the messages that can be read."""
    found: list[int] = []
    offset = store.min_queue_offset("Orders", 0)
    while offset < store.max_queue_offset("Orders", 0):
        result = store.get("Orders", 0, offset)
        found += [int(decode(record).body[:3]) for record in result.records]
        offset = result.next_offset
    return found


class HeldDisk(MemoryDisk):
    """A disk whose saves wait for a gate, and can be refused."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()
        self.saved: list[Path] = []
        self.threads: set[threading.Thread] = set()
        self.refuses = False

    def save(self, path: Path, data: bytes) -> None:
        assert self.gate.wait(WAIT_S)
        self.threads.add(threading.current_thread())
        if self.refuses:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        self.saved.append(path)
        super().save(path, data)


def as_rows(batches: list[pa.RecordBatch]) -> list[Row]:
    """Return Arrow's rows in the form of ``plain_rows``."""
    table = pa.Table.from_batches(batches)
    for index, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            ms = table.column(index).cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())
            table = table.set_column(index, field.name, ms)
    return [
        row | ({"properties": dict(row["properties"])} if "properties" in row else {})
        for row in table.to_pylist()
    ]
