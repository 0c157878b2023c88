"""Reducing what loading the kernels costs a serving process: pauses of its event loop, and memory.

Numba creates some 200,000 objects that live as long as the process. Meanwhile the garbage collector
traverses all of them several times, 20–40 ms each, in which no other thread runs; and so would every full
collection later on. LLVM leaves 65 MB of its code and constants in memory, of which running the kernels
needs nothing.
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
"""One mapping of the process in /proc/self/smaps."""


@contextmanager
def small_footprint() -> Iterator[None]:
    """Exempt the objects created within it from garbage collection, and release LLVM's pages at its end."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # before enabling: the first collection would traverse all the new objects
        if was_enabled:
            gc.enable()
    _release_pages(_LLVM)


def _release_pages(library: str) -> None:
    """Release a library's pages that equal its file: the system reads them again when they are needed."""
    try:
        mappings = Path("/proc/self/smaps").read_text()
    except OSError:  # not Linux, or /proc is hidden: that costs only memory
        return
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for mapping in _MAPPING.finditer(mappings):
        if mapping["name"].endswith(f"/{library}") and "w" not in mapping["permissions"]:
            if mapping["written_kib"] == "0":  # else the loader wrote addresses there, which would be lost
                begin, end = int(mapping["begin"], 16), int(mapping["end"], 16)
                madvise(begin, end - begin, _MADV_DONTNEED)
