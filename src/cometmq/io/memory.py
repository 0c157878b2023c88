"""Pages of memory, made ready before they are needed and let go of afterwards.

The ``mmap`` module holds the interpreter while the kernel works, or lacks the call; these let other
threads go on meanwhile.
"""

import ctypes
import errno
import mmap
import os
from typing import Final

PAGE_SIZE: Final = mmap.PAGESIZE
MADV_POPULATE_WRITE: Final = 23
"""Linux 5.14: as if each page were stored to, but nothing is, and what fails is told."""
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_MMAP_THRESHOLD_MAX: Final = 32 << 20
"""glibc takes no more (``malloc.c``: DEFAULT_MMAP_THRESHOLD_MAX)."""

_MAP_FIXED: Final = 0x10
_MAP_NORESERVE: Final = 0x4000

_libc: Final = ctypes.CDLL(None, use_errno=True)
_mmap: Final = ctypes.CFUNCTYPE(
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_longlong,
    use_errno=True,
)(("mmap", _libc))


def populate(memory: mmap.mmap, begin: int, end: int) -> None:
    """Make the pages ready for stores; nobody may store into them meanwhile. Raises OSError."""
    number = _call(_libc.madvise, memory, begin, end, MADV_POPULATE_WRITE)
    if number == errno.EINVAL:  # an older kernel
        for at in range(begin, end, PAGE_SIZE):
            memory[at] = memory[at]
    elif number:
        # EFAULT: stores would end in SIGBUS, as where copies are made on write though space is reserved.
        number = errno.ENOSPC if number == errno.EFAULT else number
        raise OSError(number, os.strerror(number))


def address_of(memory: mmap.mmap) -> int:
    """Give where a map begins, also one that cannot be written; good for as long as the map is open."""
    view = _View()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(memory), ctypes.byref(view), 0)
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))
    return int(view.buf)


def map_nothing(size: int) -> mmap.mmap:
    """Map zeros that can only be read and take no memory, for ``map_file`` to put parts of files in."""
    return mmap.mmap(
        -1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE, prot=mmap.PROT_READ
    )


def map_file(memory: mmap.mmap, fd: int, begin: int, end: int) -> None:
    """Map a stretch of a file, to be read, at the same place of ``memory``; in whole pages. Raises OSError.

    Readers in other threads see zeros or the file. The descriptor may be closed afterwards.
    """
    address = address_of(memory) + begin
    flags = mmap.MAP_SHARED | _MAP_FIXED
    if _mmap(address, end - begin, mmap.PROT_READ, flags, fd, begin) != address:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def note_resident(address: int, pages: "ctypes.Array[ctypes.c_ubyte]") -> None:
    """Note of each page of a map, from the one at ``address`` on, whether it is in memory: 1, others 0."""
    if _libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(len(pages) * PAGE_SIZE), pages):
        ctypes.memset(pages, 0, len(pages))


def unmap(address: int, size: int) -> None:
    """Let go of the pages of a map of a file, from the one at ``address`` on: they stay in the page cache.

    Other threads go on meanwhile; who reads there finds the same bytes.
    """
    _libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), mmap.MADV_DONTNEED)


def lock(memory: mmap.mmap, begin: int, end: int) -> bool:
    """Keep the pages from being swapped out; tell whether the system allows it (RLIMIT_MEMLOCK)."""
    return _call(_libc.mlock, memory, begin, end) == 0


def release(memory: mmap.mmap, begin: int, end: int) -> None:
    """Give whole pages of private memory back, from the one ``begin`` lies in: they read as zeros then."""
    end -= end % PAGE_SIZE
    if end <= begin:
        return
    _call(_libc.munlock, memory, begin, end)
    _call(_libc.madvise, memory, begin, end, mmap.MADV_DONTNEED)


def give_back() -> None:
    """Give the pages back to the system that lie free in the C library's heap.

    glibc keeps what was freed below anything that is still used, so a process stays as large as its largest
    burst made it. Nothing is done with a C library that has no ``malloc_trim``.
    """
    if (trim := getattr(_libc, "malloc_trim", None)) is not None:
        trim(ctypes.c_size_t(0))


def keep(size: int) -> None:
    """Have the C library's heap keep up to ``size`` bytes that lie free for what is allocated next.

    glibc takes pieces from 128 KiB on, and up to 32 MiB as it learns, from the system one by one, and gives
    them back at once: who makes and drops large arrays has each page of theirs cleared each time. Nothing is
    done with a C library that has no ``mallopt``.
    """
    if (set_option := getattr(_libc, "mallopt", None)) is not None:
        set_option(_M_MMAP_THRESHOLD, min(size, _MMAP_THRESHOLD_MAX))
        set_option(_M_TRIM_THRESHOLD, size)


class _View(ctypes.Structure):
    """Python's Py_buffer."""

    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


def _call(function: "ctypes._NamedFuncPointer", memory: mmap.mmap, begin: int, end: int, *more: int) -> int:
    """Call a function of the C library for whole pages; give the number of its error, or 0."""
    begin -= begin % PAGE_SIZE
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory)) + begin
    failed = function(ctypes.c_void_p(address), ctypes.c_size_t(end - begin), *more)
    return ctypes.get_errno() if failed else 0
