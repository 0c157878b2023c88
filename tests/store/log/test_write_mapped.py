"""Writing through mapped windows: they roll with the writer, and what is full says so before a store."""

import os
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cometmq.io.files import Disk
from cometmq.io.open_files import OpenFiles
from cometmq.store.files.file_chain import FileChain
from cometmq.store.log import write_mapped
from cometmq.store.log.write_mapped import WINDOW_BYTES, WriteMapped
from cometmq.testing.memory_disk import MemoryDisk

FILE_SIZE = 1 << 20
SMALL_WINDOW = 16_384


@pytest.fixture
def chain(tmp_path: Path) -> FileChain:
    chain = FileChain(OpenFiles(Disk(), writable=True), tmp_path, FILE_SIZE, "size")
    chain.extend()
    chain.extend()
    return chain


@pytest.fixture
def path(chain: FileChain, monkeypatch: pytest.MonkeyPatch) -> Iterator[WriteMapped]:
    monkeypatch.setattr(write_mapped, "WINDOW_BYTES", SMALL_WINDOW)
    path = WriteMapped(chain, Disk())
    yield path
    path.close()


def resident_bytes(path: Path) -> int:
    """What this process has of a file in its memory, whatever else it has mapped meanwhile."""
    mappings = re.split(r"^(?=[0-9a-f]+-)", Path("/proc/self/smaps").read_text(), flags=re.MULTILINE)
    resident_kb = re.compile(rf" {re.escape(str(path))}$.*?^Rss:\s+(\d+) kB", re.MULTILINE | re.DOTALL)
    return sum(int(found[1]) * 1024 for found in map(resident_kb.search, mappings) if found is not None)


def test_writes_of_any_size_cross_windows_and_files(chain: FileChain, path: WriteMapped) -> None:
    draw = random.Random(1)
    content = draw.randbytes(2 * FILE_SIZE)
    offset = 5_000
    while offset < len(content):
        in_file = FILE_SIZE - offset % FILE_SIZE
        size = min(draw.choice((1, 100, 5_000, SMALL_WINDOW, 50_000, 200_000)), in_file)
        path.write(offset, content[offset : offset + size])
        offset += size
    assert chain.read(0, 2 * FILE_SIZE) == bytes(5_000) + content[5_000:]


def test_a_write_that_failed_can_be_written_again_where_it_began(chain: FileChain, path: WriteMapped) -> None:
    path.write(0, b"1" * 100)
    path.write(100, b"2" * 40_000)
    path.write(100, b"3" * 40_000)  # back to a window that was left
    assert chain.read(0, 40_101) == b"1" * 100 + b"3" * 40_000 + b"\0"


def test_only_windows_near_the_writer_take_memory(tmp_path: Path) -> None:
    chain = FileChain(OpenFiles(Disk(), writable=True), tmp_path, 1 << 28, "size")
    chain.extend()
    path = WriteMapped(chain, Disk())
    data = bytes(1 << 20)
    most = 0
    for offset in range(0, 1 << 26, len(data)):
        path.write(offset, data)
        most = max(most, resident_bytes(chain.path(0)))
    assert WINDOW_BYTES / 2 < most <= 3 * WINDOW_BYTES
    assert os.stat(chain.path(0)).st_blocks * 512 <= (1 << 26) + 3 * WINDOW_BYTES
    path.close()
    assert resident_bytes(chain.path(0)) == 0


def test_a_full_disk_is_an_error_at_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_mapped, "WINDOW_BYTES", SMALL_WINDOW)
    disk = MemoryDisk(space_bytes=5 * SMALL_WINDOW // 2)
    chain = FileChain(OpenFiles(disk, writable=True), Path("/log"), FILE_SIZE, "size")
    chain.extend()
    path = WriteMapped(chain, disk)
    path.write(0, b"x" * 2 * SMALL_WINDOW)
    for _ in range(2):
        with pytest.raises(OSError, match="No space left"):
            path.write(2 * SMALL_WINDOW, b"y")
    disk.space_bytes = 2**40
    path.write(2 * SMALL_WINDOW, b"z")
    assert chain.read(2 * SMALL_WINDOW - 1, 2) == b"xz"
    path.close()
