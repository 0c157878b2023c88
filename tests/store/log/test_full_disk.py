"""A store that is opened on a disk that is full: the error names the remedy, and a later start finds all."""

import errno
import os
from pathlib import Path

import pytest
from tests.store.conftest import ROOT, SMALL, OpenStore, new_message

from cometmq.errors import StoreNotWritable
from cometmq.format import layout
from cometmq.store.log.commit_log import describe
from cometmq.store.log.full_disk import explain_full_disk
from cometmq.store.recovery import recover
from cometmq.testing.memory_disk import BLOCK_SIZE, MemoryDisk

MESSAGES = 150
ROOMY = 1 << 30


def leave_free(disk: MemoryDisk, blocks: int) -> None:
    disk.space_bytes = disk.usage(ROOT).used + blocks * BLOCK_SIZE


@pytest.fixture
def killed(open_store: OpenStore, disk: MemoryDisk) -> MemoryDisk:
    """A disk with a store that was killed while it wrote a record, and had queues and index in memory."""
    store = open_store()
    for n in range(MESSAGES):
        store.append([new_message(body=b"%03d" % n * 30, keys=f"k{n}")])
    state = disk.after_kill()
    last = store.written_offset - store.written_offset % SMALL.mapped_file_size_commit_log
    torn = state.open(layout.commitlog_path(ROOT, last), writable=True)
    torn.write(store.written_offset - last, b"torn")
    return state


def test_a_start_on_a_full_disk_names_the_file_and_the_remedy_and_the_next_one_finds_all(
    open_store: OpenStore, killed: MemoryDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recover, "WRITE_BACK_BYTES", 400)
    refused: set[str] = set()
    for blocks in range(100):
        disk = killed.after_kill()
        leave_free(disk, blocks)
        try:
            open_store(files=disk).close()
        except StoreNotWritable as error:
            path, reason = str(error).split(": ", 1)
            assert reason.startswith("disk full: ") and "free some space there, then try again" in reason
            refused.add(Path(path).relative_to(ROOT).parts[0])
        else:
            break
        disk.space_bytes = ROOMY
        again = open_store(files=disk)
        assert again.max_queue_offset("Orders", 0) == MESSAGES
        assert [len(again.query("Orders", f"k{n}").records) for n in range(MESSAGES)] == [1] * MESSAGES
        again.close()
    assert refused == {"index", "consumequeue", "setaside"}


def test_a_disk_that_is_full_when_a_closed_store_is_opened_is_told_and_leaves_it_closed(
    open_store: OpenStore, disk: MemoryDisk
) -> None:
    open_store().close()
    leave_free(disk, 0)
    with pytest.raises(StoreNotWritable, match=f"^{layout.abort_path(ROOT)}: disk full: "):
        open_store()
    disk.space_bytes = ROOMY
    assert open_store().recovered.clean


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_who_has_used_up_a_quota_is_told_as_of_a_full_disk(number: int) -> None:
    error = OSError(number, os.strerror(number))
    with pytest.raises(StoreNotWritable, match=f"^{ROOT}: disk full: "), explain_full_disk(ROOT):
        raise error
    assert describe(error, ROOT).startswith(f"disk full under {ROOT}: free some space")


def test_what_else_a_disk_refuses_stays_as_it_is() -> None:
    with pytest.raises(OSError, match="Input/output error"), explain_full_disk(ROOT):
        raise OSError(errno.EIO, os.strerror(errno.EIO))
