"""Rebuilding queues and index from the CommitLog alone."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.kit.stores import GOLDEN, contents
from tests.store.conftest import ROOT, SMALL, OpenStore, new_message

from cometmq.errors import SettingsError, StoreDamaged, StoreLocked
from cometmq.format import layout, properties
from cometmq.format.delay_level import SCHEDULE_TOPIC
from cometmq.format.queue_entry import unpack
from cometmq.io.clock import ManualClock
from cometmq.io.files import Disk
from cometmq.store import StoreSettings
from cometmq.store.recovery.rebuild import BUILD_DIRECTORY, rebuild
from cometmq.testing.memory_disk import MemoryDisk

FIRST = layout.commitlog_path(ROOT, 0)


def derived(disk: MemoryDisk) -> dict[Path, bytes]:
    """The files of queues and index."""
    return {
        path: disk.load(path)
        for path in disk._files
        if {"consumequeue", "index"} & set(path.parts) and BUILD_DIRECTORY not in path.parts
    }


def closed_store(open_store: OpenStore, disk: MemoryDisk) -> MemoryDisk:
    """A disk with a store of 90 messages in three queues, closed."""
    store = open_store(files=disk)
    for n in range(90):
        store.append([new_message(queue_id=n % 3, body=b"%03d" % n * 30, tags="a", keys=f"k{n}")])
    store.close()
    return disk


@pytest.mark.parametrize("name", ["store-clean", "store-killed"])
@pytest.mark.parametrize("is_there", [True, False])
def test_equals_what_a_real_broker_wrote_byte_for_byte(
    golden: Mapping[str, Path], tmp_path: Path, name: str, is_there: bool
) -> None:
    """All but the names of the index files: the broker names them by the time of their making."""
    root = tmp_path / "store"
    shutil.copytree(golden[name], root, ignore=shutil.ignore_patterns("timerwheel"))
    if not is_there:
        shutil.rmtree(root / "consumequeue")
        shutil.rmtree(root / "index")
    rest = {
        path: data for path, data in contents(root).items() if not path.startswith(("consumequeue", "index"))
    }
    rebuilt = rebuild(root, None if is_there else GOLDEN)
    assert contents(root / "consumequeue") == contents(golden[name] / "consumequeue")
    expected, made = contents(golden[name] / "index"), contents(root / "index")
    assert [made[path] for path in sorted(made)] == [expected[path] for path in sorted(expected)]
    assert (rebuilt.damages, rebuilt.gaps, rebuilt.index_files) == ([], [], 3)
    assert {path: data for path, data in contents(root).items() if path in rest} == rest
    assert not (root / BUILD_DIRECTORY).exists()


def test_equals_what_the_store_itself_wrote(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    before = derived(closed_store(open_store, disk))
    steps: list[tuple[int, int]] = []
    rebuilt = rebuild(ROOT, SMALL, layer=disk, clock=clock, progress=lambda *step: steps.append(step))
    assert derived(disk) == before
    assert (rebuilt.messages, rebuilt.queues) == (90, 3)
    assert steps[-1][0] == rebuilt.bytes <= steps[-1][1]


def test_a_rebuilt_store_opens_and_goes_on(open_store: OpenStore, disk: MemoryDisk) -> None:
    closed_store(open_store, disk)
    rebuild(ROOT, SMALL, layer=disk)
    store = open_store()
    assert store.append([new_message(queue_id=1)])[0].queue_offset == 30
    assert len(store.query("Orders", "k77").records) == 1


@pytest.mark.parametrize("crash_at", range(4))
@pytest.mark.parametrize("was_killed", [True, False])
def test_a_crash_between_the_renames_leaves_a_store_that_opens_whole(
    open_store: OpenStore, crash_at: int, was_killed: bool
) -> None:
    states: list[MemoryDisk] = []

    class Watched(MemoryDisk):
        def rename(self, old: Path, new: Path, *, durable: bool = True) -> None:
            states.append(self.after_kill())
            super().rename(old, new, durable=durable)

    disk = Watched()
    closed_store(open_store, disk)
    if was_killed:
        disk.put(layout.abort_path(ROOT), b"1")
    rebuild(ROOT, SMALL, layer=disk)
    assert len(states) == 4
    state = states[crash_at]
    store = open_store(files=state)
    assert sorted(store.queues()) == [("Orders", 0), ("Orders", 1), ("Orders", 2)]
    assert [store.max_queue_offset("Orders", n) for n in range(3)] == [30, 30, 30]
    assert len(store.query("Orders", "k5").records) == 1
    store.close()
    rebuild(ROOT, SMALL, layer=state)
    assert not state.exists(ROOT / BUILD_DIRECTORY)


def test_a_disk_that_is_full_leaves_the_old_files(open_store: OpenStore, disk: MemoryDisk) -> None:
    before = derived(closed_store(open_store, disk))
    disk.space_bytes = 0
    with pytest.raises(OSError, match="No space left"):
        rebuild(ROOT, SMALL, layer=disk)
    assert derived(disk) == before
    assert not disk.exists(ROOT / BUILD_DIRECTORY)


def test_a_rename_that_fails_puts_the_old_files_back(open_store: OpenStore) -> None:
    class Refusing(MemoryDisk):
        def rename(self, old: Path, new: Path, *, durable: bool = True) -> None:
            if new == layout.consume_queues_dir(ROOT) and old.name == new.name:
                raise OSError("refused")
            super().rename(old, new, durable=durable)

    disk = Refusing()
    before = derived(closed_store(open_store, disk))
    with pytest.raises(OSError, match="refused"):
        rebuild(ROOT, SMALL, layer=disk)
    assert derived(disk) == before


def test_damage_is_passed_over_and_told(open_store: OpenStore, disk: MemoryDisk) -> None:
    closed_store(open_store, disk)
    disk.open(FIRST, writable=True).write(100, b"\xff")
    rebuilt = rebuild(ROOT, SMALL, layer=disk)
    assert (rebuilt.messages, len(rebuilt.damages), rebuilt.damages[0].position) == (89, 1, 0)
    assert open_store().max_queue_offset("Orders", 0) == 30


def test_a_deleted_topic_stays_deleted(open_store: OpenStore, disk: MemoryDisk) -> None:
    store = open_store()
    store.append([new_message("Deleted"), new_message("Kept")])
    store.delete_topic("Deleted")
    store.close()
    rebuild(ROOT, SMALL, layer=disk)
    assert open_store().queues() == [("Kept", 0)]


def test_without_an_index_only_queues_are_made(open_store: OpenStore, disk: MemoryDisk) -> None:
    closed_store(open_store, disk)
    settings = StoreSettings(
        mapped_file_size_commit_log=8_192, mapped_file_size_consume_queue=400, message_index_enable=False
    )
    assert rebuild(ROOT, settings, layer=disk).index_files == 0
    assert disk.names(layout.index_dir(ROOT))  # as they were


def test_a_store_that_is_open_is_refused(open_store: OpenStore, disk: MemoryDisk) -> None:
    store = open_store()
    store.append([new_message()])
    with pytest.raises(StoreLocked, match="stop it first"):
        rebuild(ROOT, SMALL, layer=disk)


def test_a_commit_log_with_a_file_missing_is_refused(open_store: OpenStore, disk: MemoryDisk) -> None:
    closed_store(open_store, disk)
    disk.remove(layout.commitlog_path(ROOT, 8_192))
    before = derived(disk)
    with pytest.raises(StoreDamaged, match="the file before it ends at 8192"):
        rebuild(ROOT, SMALL, layer=disk)
    assert derived(disk) == before


def test_a_directory_that_is_no_store_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="holds no commitlog/"):
        rebuild(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(SettingsError, match="no such directory"):
        rebuild(tmp_path / "nowhere", layer=Disk())


def test_when_delayed_messages_are_due_is_computed_by_the_levels_that_are_given_and_those_are_told(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    own = replace(SMALL, message_delay_level="3s 40s")
    store, stored = open_store(own), clock.now_ms()
    store.append([new_message(SCHEDULE_TOPIC)._replace(properties=properties.encode({"DELAY": "1"}))])
    store.append([new_message()])
    store.close()
    path = layout.consume_queue_path(ROOT, SCHEDULE_TOPIC, 0, 0)
    assert unpack(disk.load(path)).tags_code == stored + 3_000
    for settings, delay_ms in ((SMALL, 1_000), (own, 3_000)):
        rebuilt = rebuild(ROOT, settings, layer=disk)
        assert (rebuilt.delayed, rebuilt.delay_levels) == (1, settings.message_delay_level)
        assert unpack(disk.load(path)).tags_code == stored + delay_ms
