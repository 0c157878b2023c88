"""Removing what has expired from a store that is closed."""

from pathlib import Path

import pytest
from tests.store.conftest import ROOT, SMALL, OpenStore, new_message

from cometmq.errors import SettingsError, StoreDamaged, StoreLocked
from cometmq.format import layout
from cometmq.io.clock import ManualClock
from cometmq.store.offline.clean import Expired, clean
from cometmq.store.upkeep.retention import HOUR_MS
from cometmq.store.verify import State, verify
from cometmq.testing.memory_disk import MemoryDisk

LOG = layout.commitlog_dir(ROOT)
COUNT = 70


@pytest.fixture
def disk(clock: ManualClock) -> MemoryDisk:
    """A disk that knows the time."""
    disk = MemoryDisk()
    disk.now_ms = clock.now_ms
    return disk


def written(open_store: OpenStore, clock: ManualClock) -> None:
    """Write a store in which each message is a minute younger than the one before; close it."""
    store = open_store()
    for n in range(COUNT):
        store.append([new_message(queue_id=n % 2, body=b"%06d" % n + bytes(900), keys=f"k{n}")])
        clock.advance(60_000)
    store.close()


def everything(disk: MemoryDisk) -> dict[Path, bytes]:
    return {path: bytes(content.data) for path, content in disk._files.items()}


def test_what_is_older_goes_and_the_rest_is_sound(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    written(open_store, clock)
    before = everything(disk)
    told: list[Expired] = []
    planned = clean(ROOT, SMALL, older_than_ms=30 * 60_000, dry_run=True, layer=disk, clock=clock)
    assert everything(disk) == before
    cleaned = clean(ROOT, SMALL, older_than_ms=30 * 60_000, layer=disk, clock=clock, on_removed=told.append)
    assert cleaned == planned and told == cleaned.files
    assert before.keys() - everything(disk).keys() == {file.path for file in told}
    assert cleaned.bytes == sum(len(before[file.path]) for file in told)
    assert [file.path.name for file in cleaned.commit_log] == [
        layout.offset_name(8_192 * n) for n in range(len(cleaned.commit_log))
    ]
    assert cleaned.min_offset == 8_192 * len(cleaned.commit_log) == int(disk.names(LOG)[0])
    assert [len(kind) for kind in cleaned[:3]] == [5, 2, 0]
    assert verify(ROOT, SMALL, layer=disk).state is State.SOUND
    with open_store() as store:
        kept = store.max_queue_offset("Orders", 0) - store.min_queue_offset("Orders", 0)
        assert 15 <= kept <= 20  # 40 minutes old ones are gone, 30 minutes old ones are not
        assert store.get("Orders", 0, store.min_queue_offset("Orders", 0)).records


def test_files_of_queues_go_too_and_the_newest_of_each_kind_stays(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    written(open_store, clock)
    cleaned = clean(ROOT, SMALL, older_than_ms=0, layer=disk, clock=clock)
    assert len(disk.names(LOG)) == 1
    assert len(cleaned.index_files) == 1
    assert [file.path.name for file in cleaned.queue_files] == [layout.offset_name(0)] * 2
    assert clean(ROOT, SMALL, older_than_ms=0, layer=disk, clock=clock).files == []
    with open_store() as store:
        assert store.max_queue_offset("Orders", 1) == COUNT // 2


def test_the_settings_say_what_is_old(open_store: OpenStore, disk: MemoryDisk, clock: ManualClock) -> None:
    written(open_store, clock)
    assert clean(ROOT, SMALL, layer=disk, clock=clock).files == []
    clock.advance(71 * HOUR_MS)
    assert len(clean(ROOT, SMALL, layer=disk, clock=clock).commit_log) == 1
    clock.advance(HOUR_MS)
    assert len(disk.names(LOG)) - len(clean(ROOT, SMALL, layer=disk, clock=clock).commit_log) == 1


def test_a_killed_store_is_recovered_before_anything_goes(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    store = open_store()
    for n in range(COUNT):
        store.append([new_message(body=b"%06d" % n + bytes(900))])
    store.append([new_message(queue_id=1)])
    for n in range(COUNT):
        store.append([new_message(body=b"%06d" % n + bytes(900))])
    killed = disk.after_kill()
    assert killed.names(layout.consume_queue_dir(ROOT, "Orders", 1)) == []  # it is in memory only
    clean(ROOT, SMALL, older_than_ms=0, layer=killed, clock=clock)
    assert len(killed.names(LOG)) == 1
    with open_store(files=killed) as store:
        assert (store.min_queue_offset("Orders", 1), store.max_queue_offset("Orders", 1)) == (1, 1)
        assert store.max_queue_offset("Orders", 0) == 2 * COUNT


def test_an_open_store_is_refused(open_store: OpenStore, disk: MemoryDisk, clock: ManualClock) -> None:
    open_store()
    for dry_run in (False, True):
        with pytest.raises(StoreLocked, match="stop it first"):
            clean(ROOT, SMALL, dry_run=dry_run, layer=disk, clock=clock)


def test_of_a_damaged_store_nothing_goes(open_store: OpenStore, disk: MemoryDisk, clock: ManualClock) -> None:
    written(open_store, clock)
    disk.put(layout.consume_queue_dir(ROOT, "Orders", 1) / layout.offset_name(400), b"cut")
    before = everything(disk)
    with pytest.raises(StoreDamaged, match="has 3 bytes"):
        clean(ROOT, SMALL, older_than_ms=0, layer=disk, clock=clock)
    disk.remove(LOG / layout.offset_name(8_192))
    with pytest.raises(StoreDamaged, match="the file before it ends at 8192"):
        clean(ROOT, SMALL, older_than_ms=0, layer=disk, clock=clock)
    assert len(before) - len(everything(disk)) == 1


def test_what_is_no_store_is_refused(disk: MemoryDisk) -> None:
    with pytest.raises(SettingsError, match="no such directory"):
        clean(ROOT, layer=disk)
