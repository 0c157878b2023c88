"""Writing through the pool: nothing is in the file before its commit, and everything is after it."""

import logging
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from cometmq.errors import StoreNotWritable
from cometmq.io import memory
from cometmq.io.open_files import OpenFiles
from cometmq.store.files.file_chain import FileChain
from cometmq.store.log import write_pool
from cometmq.store.log.write_pool import WritePool
from cometmq.testing.memory_disk import MemoryDisk

FILE_SIZE = 65_536
STRETCH = 16_384


class Desk:
    """A chain of four files, and a pool that writes to it."""

    def __init__(self, disk: MemoryDisk, *, pool_size: int = 2, fast_fail: bool = False) -> None:
        self.chain = FileChain(OpenFiles(disk, writable=True), Path("/log"), FILE_SIZE, "size")
        for _ in range(4):
            self.chain.extend()
        self.path = WritePool(self.chain, disk, pool_size=pool_size, fast_fail=fast_fail)


@pytest.fixture(autouse=True)
def _small_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_pool, "STRETCH_BYTES", STRETCH)


@pytest.fixture
def desk(disk: MemoryDisk) -> Iterator[Desk]:
    desk = Desk(disk)
    yield desk
    desk.path.close()


def test_before_the_first_write_all_is_committed(desk: Desk) -> None:
    assert desk.path.committed_offset(4_711) == 4_711
    desk.path.commit(4_711)


def test_nothing_is_in_the_file_before_its_commit_and_no_more_than_asked_for_after_it(desk: Desk) -> None:
    desk.path.write(100, b"first")
    desk.path.write(105, b"second")
    assert desk.path.committed_offset(111) == 100
    assert desk.chain.read(0, FILE_SIZE) == bytes(FILE_SIZE)
    desk.path.commit(105)
    assert desk.path.committed_offset(111) == 105
    assert desk.chain.read(100, 12) == b"first" + bytes(7)
    desk.path.commit(111)
    desk.path.commit(111)
    assert desk.chain.read(100, 12) == b"firstsecond\0"


def test_any_writes_and_commits_leave_what_was_written(desk: Desk) -> None:
    draw = random.Random(2)
    content = draw.randbytes(4 * FILE_SIZE)
    offset = 0
    while offset < len(content):
        size = min(draw.choice((1, 100, 5_000, 30_000)), FILE_SIZE - offset % FILE_SIZE)
        desk.path.write(offset, content[offset : offset + size])
        offset += size
        if draw.random() < 1 / 4:
            desk.path.commit(offset)
    desk.path.commit(offset)
    assert desk.chain.read(0, len(content)) == content


def test_what_a_failed_batch_left_in_a_buffer_never_comes_into_the_file(desk: Desk) -> None:
    desk.path.write(0, b"good")
    desk.path.write(4, b"failed" * 100)
    desk.path.write(4, b"good")
    desk.path.commit(8)
    desk.path.write(FILE_SIZE, b"next file")  # as if 8 bytes behind the last record were its blank
    desk.path.commit(FILE_SIZE + 9)
    assert desk.chain.read(0, FILE_SIZE) == b"goodgood" + bytes(FILE_SIZE - 8)
    assert desk.chain.read(FILE_SIZE, 9) == b"next file"


def test_a_buffer_comes_back_empty_when_its_file_is_full(desk: Desk) -> None:
    for start in range(0, 4 * FILE_SIZE, FILE_SIZE):
        desk.path.write(start, b"x" * FILE_SIZE)
        desk.path.commit(start + FILE_SIZE)
        assert desk.path._pending == {}
        assert len(desk.path._free) == 1
        assert not any(desk.path._free[0][:])


def test_with_no_buffer_left_one_more_is_made(disk: MemoryDisk, caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk(disk)
    for start in range(0, 3 * FILE_SIZE, FILE_SIZE):
        desk.path.write(start, b"x" * FILE_SIZE)
    assert "all 2 buffers wait to be committed (transientStorePoolSize): one more is created" in caplog.text
    desk.path.commit(3 * FILE_SIZE)
    assert desk.chain.read(0, 3 * FILE_SIZE) == b"x" * 3 * FILE_SIZE
    assert len(desk.path._free) == 2
    desk.path.close()


def test_with_no_buffer_left_and_fast_fail_messages_are_refused_until_a_commit(disk: MemoryDisk) -> None:
    desk = Desk(disk, pool_size=1, fast_fail=True)
    desk.path.write(0, b"x" * FILE_SIZE)
    with pytest.raises(StoreNotWritable, match=r"all 1 buffers .*transientStorePoolSize.*: send again"):
        desk.path.write(FILE_SIZE, b"y")
    desk.path.commit(FILE_SIZE)
    desk.path.write(FILE_SIZE, b"y")
    desk.path.close()


def test_a_full_disk_is_an_error_at_the_write_and_never_at_the_commit(disk: MemoryDisk) -> None:
    desk = Desk(disk)
    disk.space_bytes = 5 * STRETCH // 2
    desk.path.write(0, b"x" * 2 * STRETCH)
    with pytest.raises(OSError, match="No space left"):
        desk.path.write(2 * STRETCH, b"y")
    desk.path.commit(2 * STRETCH)
    assert desk.chain.read(0, 2 * STRETCH + 1) == b"x" * 2 * STRETCH + b"\0"
    disk.space_bytes = 2**40
    desk.path.write(2 * STRETCH, b"z")
    desk.path.close()


def test_memory_that_cannot_be_locked_is_said_once_and_used(
    desk: Desk, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "lock", lambda *_: False)
    with caplog.at_level(logging.WARNING):
        desk.path.write(0, b"x" * FILE_SIZE)
    assert caplog.text.count("can be swapped out: the system locks no more memory") == 1
