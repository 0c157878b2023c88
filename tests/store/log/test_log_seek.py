import pytest
from tests.store.conftest import ROOT, SMALL, OpenStore, new_message

from cometmq.io.clock import ManualClock
from cometmq.store.directory import StoreDirectory
from cometmq.store.log.log_seek import log_offset_by_time
from cometmq.testing.memory_disk import MemoryDisk


@pytest.mark.parametrize("size", [10, 1_000])
def test_a_time_leads_to_the_first_record_stored_then_or_later(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock, size: int
) -> None:
    store = open_store()
    placed = []
    for _ in range(60):
        clock.advance(10)
        placed += store.append([new_message(body=bytes(size)), new_message(body=bytes(size))])
    store.close()
    with StoreDirectory(ROOT, SMALL, disk) as directory:
        log = directory.log
        behind = 0
        for first, second in zip(placed[::2], placed[1::2], strict=True):
            assert first.store_time == second.store_time
            for time in (first.store_time, first.store_time - 9):
                found = log_offset_by_time(log, time)
                assert found == first.physical_offset or (found == behind and log.read_record(found) is None)
            behind = second.physical_offset + second.size
        assert log_offset_by_time(log, 0) == 0
        last = placed[-1]
        assert log_offset_by_time(log, last.store_time + 1) == last.physical_offset + last.size


def test_an_empty_log_begins_and_ends_at_0(disk: MemoryDisk, open_store: OpenStore) -> None:
    open_store().close()
    with StoreDirectory(ROOT, SMALL, disk) as directory:
        assert log_offset_by_time(directory.log, 5_000) == 0
