import gc
import subprocess
import sys

import pytest

from cometmq.kernels.compiling.footprint import small_footprint
from cometmq.kernels.ops import Ops

MEMORY_ADDED_MAX_MB = 100


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc")
def test_loading_adds_less_than_a_hundred_megabytes(compiled: Ops) -> None:  # noqa: ARG001  makes the cache warm
    program = """if True:
        import resource
        from pathlib import Path
        from cometmq import kernels
        def memory():
            return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() >> 20
        before = memory()
        ops = kernels.load()
        assert ops.crc32(b"123456789") == 0xCBF43926
        print(memory() - before)
    """
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(answer.stdout) < MEMORY_ADDED_MAX_MB


def test_what_is_made_within_is_not_collected_and_collecting_goes_on() -> None:
    frozen = gc.get_freeze_count()
    try:
        with small_footprint():
            assert not gc.isenabled()
            made = [[] for _ in range(1000)]  # type: ignore[var-annotated]  # anything the collector tracks
        assert gc.isenabled()
        assert gc.get_freeze_count() - frozen >= len(made)
    finally:
        gc.unfreeze()


def test_collecting_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with small_footprint():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
        gc.unfreeze()
