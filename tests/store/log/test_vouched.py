from pathlib import Path

import pytest
from tests.store.conftest import ROOT, OpenStore, new_message

from cometmq.format import layout
from cometmq.format.checkpoint import Checkpoint
from cometmq.io.clock import ManualClock
from cometmq.io.files import Disk
from cometmq.store.directory import StoreDirectory
from cometmq.store.log.vouched import ALL, mark_open, vouched_start, vouched_time, was_closed
from cometmq.testing.memory_disk import MemoryDisk

OLD = Checkpoint(physic_msg_timestamp=77)


@pytest.fixture
def opened(disk: MemoryDisk) -> MemoryDisk:
    disk.make_directory(ROOT)
    mark_open(disk, ROOT)
    return disk


def test_after_a_kill_all_that_was_written_is_there(opened: MemoryDisk) -> None:
    assert not was_closed(opened, ROOT)
    assert vouched_time(opened.after_kill(), ROOT, OLD) == ALL


def test_after_a_loss_of_power_only_what_the_checkpoint_says(opened: MemoryDisk) -> None:
    assert vouched_time(opened.after_power_loss(), ROOT, OLD) == 77
    assert vouched_time(opened.after_power_loss(), ROOT, None) == ALL  # it was lost: the benefit of the doubt


def test_a_closed_store_is_there_as_a_whole(opened: MemoryDisk) -> None:
    opened.remove(layout.abort_path(ROOT))
    assert was_closed(opened, ROOT) and vouched_time(opened.after_power_loss(), ROOT, OLD) == ALL


def test_what_a_java_broker_wrote_tells_nothing_of_the_machine(opened: MemoryDisk) -> None:
    opened.put(layout.abort_path(ROOT), b"4711")
    assert vouched_time(opened, ROOT, OLD) == 77


def test_a_real_machine_has_one_life_between_two_starts(tmp_path: Path) -> None:
    mark_open(Disk(), tmp_path)
    assert vouched_time(Disk(), tmp_path, OLD) == ALL


def test_one_damaged_store_time_vouches_for_no_file(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    store = open_store()
    for _ in range(60):
        clock.advance(1_000)
        store.append([new_message(body=bytes(300))])
    store.close()
    with StoreDirectory(ROOT, store.settings, disk) as closed:
        times = Checkpoint(*[clock.now_ms() - 25_000] * 3)
        start = vouched_start(closed.log, times)
        later = closed.log.chain.starts[-1]
        assert 0 < start < later
        disk.open(layout.commitlog_path(ROOT, later), writable=True).write(56, (1).to_bytes(8, "big"))
        assert vouched_start(closed.log, times) == start
