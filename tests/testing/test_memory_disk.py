from pathlib import Path
from random import Random

import pytest

from cometmq.testing.memory_disk import BLOCK_SIZE, MemoryDisk


def test_the_memory_disk_says_when_it_is_full(tmp_path: Path) -> None:
    disk = MemoryDisk(space_bytes=8_192)
    disk.make_directory(tmp_path)
    file = disk.create(tmp_path / "a", 100_000)
    with pytest.raises(OSError, match="No space left"):
        file.write(4_000, bytes(range(256)) * 32)
    assert file.read(4_000, 256) == bytes(range(256))
    disk.space_bytes = 1 << 20
    file.write(4_000, b"x" * 10_000)


def test_the_memory_disk_keeps_what_was_synced_over_a_loss_of_power(tmp_path: Path) -> None:
    disk = MemoryDisk()
    disk.make_directory(tmp_path)
    file = disk.create(tmp_path / "a", 10)
    file.write(0, b"kept")
    disk.sync(tmp_path / "a")
    file.write(4, b"lost")
    assert disk.after_power_loss().load(tmp_path / "a") == b"kept" + bytes(6)
    assert disk.after_kill().load(tmp_path / "a") == b"keptlost" + bytes(2)


def test_the_memory_disk_moves_directories_with_all_in_them(tmp_path: Path) -> None:
    disk = MemoryDisk()
    disk.make_directory(tmp_path / "a" / "b")
    disk.save(tmp_path / "a" / "b" / "file", b"data")
    disk.make_directory(tmp_path / "taken")
    with pytest.raises(OSError, match="not empty"):
        disk.rename(tmp_path / "a", tmp_path / "taken")
    disk.rename(tmp_path / "a", tmp_path / "c")
    assert disk.load(tmp_path / "c" / "b" / "file") == b"data"
    assert disk.is_directory(tmp_path / "c" / "b")
    assert not disk.exists(tmp_path / "a")


def test_what_a_killed_process_had_not_synced_a_later_loss_of_power_takes(tmp_path: Path) -> None:
    disk = MemoryDisk()
    disk.make_directory(tmp_path)
    disk.create(tmp_path / "a", 10).write(0, b"written")
    killed = disk.after_kill()
    assert killed.load(tmp_path / "a")[:7] == b"written"
    assert killed.after_power_loss().load(tmp_path / "a") == bytes(10)


def test_a_loss_of_power_can_leave_any_mixture_of_blocks(tmp_path: Path) -> None:
    disk = MemoryDisk()
    disk.make_directory(tmp_path)
    file = disk.create(tmp_path / "a", 3 * BLOCK_SIZE)
    file.write(0, b"1" * 3 * BLOCK_SIZE)
    disk.sync(tmp_path / "a")
    file.write(0, b"2" * 3 * BLOCK_SIZE)
    left = {disk.after_power_loss(Random(seed)).load(tmp_path / "a")[::BLOCK_SIZE] for seed in range(50)}
    assert left == {b"111", b"112", b"121", b"122", b"211", b"212", b"221", b"222"}


def test_it_tells_how_full_it_is_and_when_a_file_was_written(tmp_path: Path) -> None:
    disk = MemoryDisk(space_bytes=10 * BLOCK_SIZE)
    disk.make_directory(tmp_path)
    disk.now_ms = lambda: 1_234
    disk.create(tmp_path / "a", 5 * BLOCK_SIZE).write(0, b"1" * (BLOCK_SIZE + 1))
    assert disk.usage(tmp_path) == (2 * BLOCK_SIZE, 8 * BLOCK_SIZE)
    assert disk.modified_ms(tmp_path / "a") == disk.after_kill().modified_ms(tmp_path / "a") == 1_234
    disk.space_bytes = BLOCK_SIZE
    assert disk.usage(tmp_path) == (2 * BLOCK_SIZE, 0)
