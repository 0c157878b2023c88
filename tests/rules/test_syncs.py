"""What is acknowledged is on the disk, with the name under which it is found there."""

import os
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.store.conftest import SMALL, OpenStore

from cometmq.errors import StoreNotWritable
from cometmq.io.files import Disk
from cometmq.store import FlushDiskType, Message, MessageStore
from cometmq.store.tables import JsonTable
from cometmq.testing.memory_disk import MemoryDisk

SYNC = replace(SMALL, flush_disk_type=FlushDiskType.SYNC_FLUSH)
ORDER = Message("Orders", b"body" * 20, keys=("k",))


def test_under_sync_flush_an_acknowledgement_never_comes_before_the_disk(
    open_store: OpenStore, disk: MemoryDisk
) -> None:
    """NATS JetStream (Jepsen, 2.12.1), nats-server #7564.

    Acknowledged was said to mean stored; the disk was synced every two minutes. A loss of power on all nodes
    took one acknowledged message of seven.
    """
    store = open_store(SYNC)
    for count in range(1, 40):  # rolls files of every kind
        store.append_message(ORDER)
        again = open_store(SYNC, files=disk.after_power_loss())
        assert len(list(again.messages("Orders"))) == count
        again.close()


def test_a_sync_that_failed_is_never_tried_again_and_never_acknowledged_over(
    open_store: OpenStore, disk: MemoryDisk
) -> None:
    """PostgreSQL's "fsyncgate" of 2018.

    After a failed fsync the kernel forgets the pages; the next one succeeds and has written nothing. The
    checkpoint that was tried again reported success over lost data.
    """
    store = open_store(SYNC)
    store.append_message(ORDER)
    disk.fail_sync = True
    with pytest.raises(StoreNotWritable, match="sync failed"):
        store.append_message(ORDER)
    disk.fail_sync = False
    syncs = disk.sync_count
    for _ in range(3):
        with pytest.raises(StoreNotWritable, match="sync failed"):
            store.append_message(ORDER)
        with pytest.raises(StoreNotWritable, match="sync failed"):
            store.wait_flushed().result()
    assert disk.sync_count == syncs
    assert len(list(store.messages("Orders"))) == 1
    store.close()
    assert not open_store(SYNC, files=disk.after_power_loss()).recovered.clean


class Names:
    """Watches which directories have got or lost a name that a loss of power could still undo."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.unsynced: set[Path] = set()
        replace_, mkdir, unlink, fsync, fdatasync = os.replace, os.mkdir, os.unlink, os.fsync, os.fdatasync

        def noting_replace(old: Path, new: Path) -> None:
            replace_(old, new)
            self.unsynced.add(Path(new).parent)

        def noting_mkdir(path: Path, mode: int = 0o777) -> None:
            mkdir(path, mode)
            self.unsynced.add(Path(path).parent)

        def noting_unlink(path: Path) -> None:
            unlink(path)
            self.unsynced.add(Path(path).parent)

        def noting_fsync(fd: int) -> None:
            fsync(fd)
            self.unsynced.discard(Path(os.readlink(f"/proc/self/fd/{fd}")))

        def noting_fdatasync(fd: int) -> None:
            fdatasync(fd)
            self.unsynced.discard(Path(os.readlink(f"/proc/self/fd/{fd}")))

        for name, noting in (
            ("replace", noting_replace),
            ("mkdir", noting_mkdir),
            ("unlink", noting_unlink),
            ("fsync", noting_fsync),
            ("fdatasync", noting_fdatasync),
        ):
            monkeypatch.setattr(os, name, noting)


def test_the_directory_of_every_new_name_is_synced_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """etcd on Pebble, found by killing it a thousand times.

    A file was written, synced and renamed; the directory was not synced. After a crash the old name was back.
    """
    names = Names(monkeypatch)
    root = tmp_path / "new" / "store"
    table = JsonTable(Disk(), root / "config" / "topics.json")
    for version in range(3):
        table.save({"version": version})
        assert names.unsynced == set()
    with MessageStore.open(root, SYNC) as store:
        for _ in range(100):
            store.append_message(ORDER)
            assert root / "commitlog" not in names.unsynced
        assert len(store._log.chain.starts) > 1
    assert names.unsynced == set()
