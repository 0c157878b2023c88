"""Keeping down what loading costs a process that serves: pauses of its event loop, and memory.

Numba makes some 200,000 objects that live as long as the process. While it does, the garbage collector
looks through all of them several times, 20–40 ms each, in which no other thread runs; and so would
every full collection later on. LLVM leaves 65 MB of its code and constants in memory, of which running the
kernels needs nothing.
"""

import ctypes
import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_MADV_DONTNEED: Final = 4
_LLVM: Final = "libllvmlite.so"
_MAPPING: Final = re.compile(
    r"^(?P<begin>[0-9a-f]+)-(?P<end>[0-9a-f]+) (?P<permissions>\S+) .*?(?P<name>\S*)\n"
    r"(?:.*\n)*?Anonymous: +(?P<written_kib>\d+) kB$",
    re.MULTILINE,
)
"""One of a process's mappings, as /proc/self/smaps tells of it."""


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
    _give_back(_LLVM)


def _give_back(library: str) -> None:
    """Let the system drop the pages of a library that are as in its file: they are read again if need be."""
    try:
        mappings = Path("/proc/self/smaps").read_text()
    except OSError:  # not Linux, or one that does not tell: it costs memory, nothing else
        return
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for mapping in _MAPPING.finditer(mappings):
        if mapping["name"].endswith(f"/{library}") and "w" not in mapping["permissions"]:
            if mapping["written_kib"] == "0":  # else the loader has put addresses there: they would be lost
                begin, end = int(mapping["begin"], 16), int(mapping["end"], 16)
                madvise(begin, end - begin, _MADV_DONTNEED)
