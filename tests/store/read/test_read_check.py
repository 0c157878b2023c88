import pytest
from tests.store.conftest import ROOT, OpenStore, new_message

from cometmq.errors import DamagedRecord
from cometmq.format import layout
from cometmq.format.record import PHYSICAL_OFFSET_AT, QUEUE_OFFSET_AT
from cometmq.store import GetStatus
from cometmq.testing.memory_disk import MemoryDisk


@pytest.mark.parametrize("at", [90, QUEUE_OFFSET_AT, PHYSICAL_OFFSET_AT])
def test_a_record_that_is_damaged_while_the_store_is_open_is_passed_over_and_named(
    open_store: OpenStore, disk: MemoryDisk, at: int, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store()
    appended = store.append([new_message(body=b"%d" % n * 10) for n in range(4)])
    path = layout.commitlog_path(ROOT, 0)
    disk.open(path, writable=True).write(appended[2].physical_offset + at, b"\x55")
    first = store.get("Orders", 0, 0)
    assert (len(first.records), first.next_offset, first.damaged) == (2, 2, None)
    behind = store.get("Orders", 0, 2)
    assert (behind.status, len(behind.records), behind.next_offset) == (GetStatus.FOUND, 1, 4)
    assert isinstance(behind.damaged, DamagedRecord)
    assert f"{path}, byte {appended[2].physical_offset}" in caplog.text and "cometmq store" in caplog.text
