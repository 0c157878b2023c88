"""Pages of memory: made ready, locked, given back."""

import mmap
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from cometmq.io import memory
from cometmq.io.memory import PAGE_SIZE

SIZE = 16 * PAGE_SIZE


@pytest.fixture
def pages() -> mmap.mmap:
    return mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE)


def test_what_is_made_ready_keeps_its_content(pages: mmap.mmap) -> None:
    pages[5_000:5_005] = b"hello"
    memory.populate(pages, 4_100, SIZE)
    assert pages[:] == bytes(5_000) + b"hello" + bytes(SIZE - 5_005)


def test_an_older_kernel_has_each_page_touched(pages: mmap.mmap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MADV_POPULATE_WRITE", 9_999)  # which no kernel knows
    pages[5_000:5_005] = b"hello"
    memory.populate(pages, 0, SIZE)
    assert pages[5_000:5_005] == b"hello"


def test_a_page_that_a_store_would_crash_on_is_an_error(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w+b") as file:
        file.truncate(SIZE)
        pages = mmap.mmap(file.fileno(), SIZE)
        file.truncate(PAGE_SIZE)
        memory.populate(pages, 0, PAGE_SIZE)
        with pytest.raises(OSError, match="No space left"):
            memory.populate(pages, 0, SIZE)
        pages.close()


def test_locked_or_not_released_pages_are_zeros_and_the_last_one_stays(pages: mmap.mmap) -> None:
    pages[:] = b"x" * SIZE
    memory.lock(pages, 0, SIZE)
    memory.release(pages, 100, 2 * PAGE_SIZE + 100)
    assert pages[: 2 * PAGE_SIZE] == bytes(2 * PAGE_SIZE)
    assert pages[2 * PAGE_SIZE :] == b"x" * (SIZE - 2 * PAGE_SIZE)


def test_releasing_less_than_a_page_releases_nothing(pages: mmap.mmap) -> None:
    pages[:100] = b"x" * 100
    memory.release(pages, 0, 100)
    assert pages[:100] == b"x" * 100


BURST = """
from pathlib import Path
from cometmq.io import memory

def rss_mib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * memory.PAGE_SIZE >> 20

burst = [bytes(8_000) for _ in range(20_000)]
del burst[:-1]  # the last one lies behind all others
before = rss_mib()
memory.trim_heap()
print(before, rss_mib())
"""


KEPT = """
import resource
from cometmq.io import memory

memory.retain_heap(64 << 20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    batch = [bytearray(b"x") * (4 << 20) for _ in range(10)]
    del batch
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

ONLY_GLIBC = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="other C libraries keep memory as they like"
)


@ONLY_GLIBC
def test_memory_that_is_kept_is_not_asked_for_again() -> None:
    answer = subprocess.run([sys.executable, "-c", KEPT], capture_output=True, text=True, check=True)
    pages = (40 << 20) // PAGE_SIZE
    assert int(answer.stdout) < 3 * pages, "each batch of 40 MiB, or nearly each, has new pages"


@ONLY_GLIBC
def test_what_a_burst_leaves_free_goes_back_to_the_system() -> None:
    answer = subprocess.run([sys.executable, "-c", BURST], capture_output=True, text=True, check=True)
    before, after = map(int, answer.stdout.split())
    assert before > 150 and after < before - 130, answer.stdout
