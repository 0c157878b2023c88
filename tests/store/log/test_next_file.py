"""The next file: made ahead, used as it is, removed if it was not, warmed if that is asked for."""

import logging
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.store.conftest import ROOT, SMALL, OpenStore, new_message

from cometmq.io.files import Disk
from cometmq.io.open_files import OpenFiles
from cometmq.store import MessageStore
from cometmq.store.files.file_chain import FileChain
from cometmq.store.log.next_file import NextFile
from cometmq.testing.memory_disk import MemoryDisk, MemoryWindow

FILE_SIZE = 1 << 20
LOG = ROOT / "commitlog"
LARGER = replace(SMALL, mapped_file_size_commit_log=FILE_SIZE)


def chain_on(disk: MemoryDisk, file_size: int = FILE_SIZE) -> FileChain:
    return FileChain(OpenFiles(disk, writable=True), LOG, file_size, "size")


def test_the_next_file_is_made_when_the_last_is_half_full_and_is_the_one_then_used(disk: MemoryDisk) -> None:
    chain = chain_on(disk)
    files = NextFile(chain, disk)
    files.add(0)
    assert files.prepare(FILE_SIZE // 2) == FILE_SIZE // 2
    assert files._files._next is None
    assert files.prepare(FILE_SIZE // 2 + 1) == FILE_SIZE, "which is when there is one more"
    assert files._files._next is not None
    files._files._next[1].result(60)
    assert disk.names(LOG) == ["0" * 20, f"{FILE_SIZE:020d}"]
    assert chain.starts == [0]
    disk.open(chain.path(FILE_SIZE), writable=True).write(0, b"opened ahead")
    files.add(FILE_SIZE)
    assert chain.starts == [0, FILE_SIZE]
    assert chain.read(FILE_SIZE, 12) == b"opened ahead"
    files.close()


def test_a_file_that_was_not_used_is_removed_at_the_end(disk: MemoryDisk) -> None:
    files = NextFile(chain_on(disk), disk)
    files.add(0)
    files.prepare(FILE_SIZE - 1)
    files.close()
    assert disk.names(LOG) == ["0" * 20]


def test_a_small_file_is_made_when_it_is_needed(disk: MemoryDisk) -> None:
    files = NextFile(chain_on(disk, 8_192), disk)
    files.add(0)
    files.prepare(8_191)
    assert files._files._next is None
    files.close()


def test_a_store_that_is_closed_has_no_empty_file_and_one_that_is_killed_may_have(
    open_store: OpenStore, disk: MemoryDisk
) -> None:
    store = open_store(LARGER)
    store.append([new_message(body=bytes(FILE_SIZE * 3 // 4))])
    made = store._log._next_file._files._next
    assert made is not None
    made[1].result(60)
    killed = disk.after_kill()
    assert len(killed.names(LOG)) == 2
    store.close()
    assert disk.names(LOG) == ["0" * 20]
    again = open_store(LARGER, killed)
    assert again.recovered.damages == [] and again.max_queue_offset("Orders", 0) == 1
    again.append([new_message(body=bytes(FILE_SIZE // 2))])
    assert again._log.chain.starts == [0, FILE_SIZE]


@pytest.mark.parametrize("ahead", [1, 2])
@pytest.mark.parametrize("clean", [True, False])
def test_empty_files_at_the_end_are_taken_as_they_are(
    open_store: OpenStore, disk: MemoryDisk, ahead: int, clean: bool
) -> None:
    store = open_store()
    store.append([new_message(body=bytes(3_000))] * 5)
    written, starts = store.written_offset, list(store._log.chain.starts)
    if clean:
        store.close()
    left = disk.after_kill()
    for number in range(ahead):
        left.create(LOG / f"{store._log.chain.end_offset + number * 8_192:020d}", 8_192)
    again = open_store(SMALL, left)
    assert again.recovered.clean == clean
    assert (again.written_offset, again.recovered.damages, again.recovered.set_aside) == (written, [], None)
    assert len(again._log.chain.starts) == len(starts) + ahead
    again.append([new_message(body=bytes(3_000))] * 9)
    assert again.max_queue_offset("Orders", 0) == 14
    again.close()
    assert open_store(SMALL, left).max_queue_offset("Orders", 0) == 14


def test_a_warmed_file_has_its_space_and_its_pages(tmp_path: Path) -> None:
    settings = replace(LARGER, warm_maped_file_enable=True, flush_least_pages_when_warm_maped_file=64)
    with MessageStore.open(tmp_path, settings) as store:
        store.append([new_message()])
        files = store._log._next_file
        assert files._files._next is not None
        files._files._next[1].result(60)
        path = tmp_path / "commitlog" / f"{FILE_SIZE:020d}"
        assert path.stat().st_blocks * 512 >= FILE_SIZE
        assert Disk().load(path) == bytes(FILE_SIZE)
        store.append([new_message(body=bytes(FILE_SIZE * 3 // 4))] * 2)
        assert store._log.chain.starts == [0, FILE_SIZE]
        assert store.max_queue_offset("Orders", 0) == 3


@pytest.mark.parametrize(("sync", "syncs"), [(True, 4), (False, 0)])
def test_warming_syncs_each_step_under_sync_flush(disk: MemoryDisk, sync: bool, syncs: int) -> None:
    files = NextFile(chain_on(disk), disk, warm_bytes=FILE_SIZE // 4, sync=sync)
    files.add(0)
    files.prepare(1)
    assert files._files._next is not None
    files._files._next[1].result(60)
    assert disk.sync_count == syncs
    files.close()


def test_a_full_disk_ends_warming_with_a_warning(
    open_store: OpenStore, disk: MemoryDisk, caplog: pytest.LogCaptureFixture
) -> None:
    settings = replace(LARGER, warm_maped_file_enable=True, flush_least_pages_when_warm_maped_file=64)
    store = open_store(settings)
    disk.space_bytes = FILE_SIZE // 2
    store.append([new_message()])
    made = store._log._next_file._files._next
    assert made is not None
    made[1].result(60)
    assert "is not warmed: No space left on device" in caplog.text
    disk.space_bytes = 2**40
    store.append([new_message(body=bytes(FILE_SIZE * 3 // 4))] * 2)


def test_pages_that_cannot_be_locked_are_said_once_and_used(
    disk: MemoryDisk, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryWindow, "lock", lambda _: False)
    files = NextFile(chain_on(disk), disk, warm_bytes=65_536)
    files.add(0)
    with caplog.at_level(logging.WARNING):
        files.prepare(1)
        assert files._files._next is not None
        files._files._next[1].result(60)
    assert caplog.text.count("the system locks no more memory") == 1
    files.close()
