"""Entries of a master's records: in their queues as a recovery puts them, whichever way they came there."""

from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.received_logs import FILE, ROOT, log_of, store_on
from tests.store.conftest import new_message

from cometmq import kernels
from cometmq.format import layout
from cometmq.format.checksum import Crc
from cometmq.format.delay_level import SCHEDULE_TOPIC, DelayLevels
from cometmq.format.sys_flag import TRANSACTION_PREPARED
from cometmq.io.open_files import OpenFiles
from cometmq.store.log.log_scan import Chunk
from cometmq.store.queue.ledger import Ledger
from cometmq.store.queue.queues import Queues
from cometmq.store.recovery.replay import Replay
from cometmq.store.upkeep.received_entries import ReceivedEntries
from cometmq.testing.memory_disk import MemoryDisk

DELAYS = DelayLevels.parse("1s 5s 10s")
TOPICS = ("Orders", "Bills", SCHEDULE_TOPIC)


def queues_on(disk: MemoryDisk) -> Queues:
    return Queues(OpenFiles(disk, writable=True), ROOT, FILE)


def records(count: int) -> tuple[bytes, list[int]]:
    """Return the bytes of records of several queues, and where they begin."""
    with store_on(MemoryDisk()) as store:
        for number in range(count):
            tags = None if number % 4 else f"tag{number}"
            store.append([new_message(TOPICS[number % 5 % 3], number % 2, b"x" * number, tags=tags)])
            if number % 9 == 0:
                store.append([new_message("Prepared", 0, sys_flag=TRANSACTION_PREPARED)])
        ((_, data),) = log_of(store)
    found = kernels.loading.ops.scan(data, base_offset=0, crc=Crc.NONE)
    return data[: found.stop_position], [*found.position.tolist(), found.stop_position]


def chunk_of(data: bytes, begin: int, end: int) -> Chunk:
    scan = kernels.loading.ops.scan(data[begin:end], base_offset=begin, crc=Crc.NONE)
    return Chunk(np.frombuffer(data[begin:end], np.uint8), begin, scan)


def contents(queues: Queues) -> dict[tuple[str, int], tuple[int, int, bytes]]:
    return {
        (queue.topic, queue.queue_id): (
            queue.next_offset,
            queue.physical_end,
            bytes(queue.read(queue.min_offset, queue.max_offset - queue.min_offset)),
        )
        for queue in queues
    }


RECORDS = records(60)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 20), st.booleans()), min_size=1, max_size=12), st.integers(0, 9000))
def test_entries_are_those_that_a_recovery_makes_even_where_records_are_missing(
    pieces: list[tuple[int, bool]], deleted_before: int
) -> None:
    data, places = RECORDS
    disk, other = MemoryDisk(), MemoryDisk()
    queues, expected = queues_on(disk), queues_on(other)
    ledger = Ledger(disk, ROOT)
    ledger.deleted = {"Bills": deleted_before}
    entries = ReceivedEntries(queues, DELAYS, ledger)
    at = 0
    for size, is_missing in pieces:
        begin, at = at, min(at + size, len(places) - 1)
        if is_missing or begin == at:
            continue
        chunk = chunk_of(data, places[begin], places[at])
        entries.add(chunk)
        Replay(expected, None, DELAYS, deleted=ledger.deleted).dispatch(chunk)
        for queue in expected:
            queue.next_offset = queue.max_offset
    assert contents(queues) == contents(expected)


def test_records_that_continue_their_queues_are_staged_and_put_when_a_queue_is_looked_up() -> None:
    disk = MemoryDisk()
    queues = queues_on(disk)
    with store_on(MemoryDisk()) as store:
        for number in range(40):
            store.append([new_message(f"T{number}", 0, b"one")])
        ((_, data),) = log_of(store)
    chunk = chunk_of(data, 0, len(data))
    ReceivedEntries(queues, DELAYS, Ledger(disk, ROOT)).add(chunk)
    assert queues.staged.count == 40
    queue = queues.find("T7", 0)
    assert queue is not None and queue.max_offset == queue.next_offset == 1
    assert disk.names(layout.consume_queues_dir(Path(ROOT))) == []
