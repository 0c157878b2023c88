"""Keeping down what loading costs a process that serves: pauses of its event loop, and memory.

Numba makes some 200,000 objects that live as long as the process. While it does, the garbage collector
looks through all of them several times, 20–40 ms each, in which no other thread runs; and so would
every full collection later on. LLVM leaves 50 MB of its code in memory, of which running the kernels needs
nothing.
"""

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_MADV_DONTNEED: Final = 4
_LLVM: Final = "libllvmlite.so"


@contextmanager
def small_footprint() -> Iterator[None]:
    """Do within it what makes objects that stay: they will not be looked at by the garbage collector."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # before collecting goes on: the first collection would look at all that is new
        if was_enabled:
            gc.enable()
    _give_back_code(_LLVM)


def _give_back_code(library: str) -> None:
    """Let the system drop the pages of a library's code; it reads again from the file what is run again."""
    if sys.platform != "linux":
        return
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, permissions, *_ = line.split(maxsplit=5)
        if permissions == "r-xp" and line.endswith(f"/{library}"):  # never written to, so nothing is lost
            begin, end = (int(address, 16) for address in addresses.split("-"))
            madvise(begin, end - begin, _MADV_DONTNEED)
