"""Pages of memory: populate them before use, ask which are resident, and release them afterwards.

The ``mmap`` module holds the interpreter's lock during such system calls, or lacks them; these functions
release it.
"""

import ctypes
import errno
import mmap
import os
from typing import Final

PAGE_SIZE: Final = mmap.PAGESIZE
MADV_POPULATE_WRITE: Final = 23
"""Linux 5.14: faults each page in for writing without writing, and returns errors instead of SIGBUS."""
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_MMAP_THRESHOLD_MAX: Final = 32 << 20
"""glibc's upper limit (``malloc.c``: DEFAULT_MMAP_THRESHOLD_MAX)."""

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
    """Fault pages in for writing; nobody may write to them meanwhile. Raises OSError."""
    number = _call(_libc.madvise, memory, begin, end, MADV_POPULATE_WRITE)
    if number == errno.EINVAL:  # an older kernel
        for at in range(begin, end, PAGE_SIZE):
            memory[at] = memory[at]
    elif number:
        # EFAULT: writes would end in SIGBUS, as on file systems that copy on write though space is reserved.
        number = errno.ENOSPC if number == errno.EFAULT else number
        raise OSError(number, os.strerror(number))


def address_of(memory: mmap.mmap) -> int:
    """Return the address of a map, also of a read-only one; valid while the map is open."""
    view = _View()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(memory), ctypes.byref(view), 0)
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))
    return int(view.buf)


def map_nothing(size: int) -> mmap.mmap:
    """Map zeros, read-only and without memory, into which ``map_file`` maps parts of files."""
    return mmap.mmap(
        -1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE, prot=mmap.PROT_READ
    )


def map_file(memory: mmap.mmap, fd: int, begin: int, end: int, position: int | None = None) -> None:
    """Map whole pages of a file, read-only, from ``begin`` to before ``end`` of ``memory``. Raises OSError.

    Args:
        position: of these pages in the file; by default it is ``begin``.

    Readers in other threads see zeros or the file's bytes. The descriptor may be closed afterwards.
    """
    address = address_of(memory) + begin
    flags = mmap.MAP_SHARED | _MAP_FIXED
    offset = begin if position is None else position
    if _mmap(address, end - begin, mmap.PROT_READ, flags, fd, offset) != address:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def read_residency(address: int, pages: "ctypes.Array[ctypes.c_ubyte]") -> None:
    """Set one byte of ``pages`` for each page of a map from ``address`` on: 1 if it is in memory, else 0."""
    if _libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(len(pages) * PAGE_SIZE), pages):
        ctypes.memset(pages, 0, len(pages))


def unmap(address: int, size: int) -> None:
    """Unmap pages of a file's map from ``address`` on; they stay in the page cache.

    Other threads run meanwhile, and may read there: they find the same bytes.
    """
    _libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), mmap.MADV_DONTNEED)


def lock(memory: mmap.mmap, begin: int, end: int) -> bool:
    """Lock pages in memory; return whether the system allows it (RLIMIT_MEMLOCK)."""
    return _call(_libc.mlock, memory, begin, end) == 0


def release(memory: mmap.mmap, begin: int, end: int) -> None:
    """Release whole pages of private memory, from the page of ``begin`` on: they read as zeros afterwards."""
    end -= end % PAGE_SIZE
    if end <= begin:
        return
    _call(_libc.munlock, memory, begin, end)
    _call(_libc.madvise, memory, begin, end, mmap.MADV_DONTNEED)


def trim_heap() -> None:
    """Return free pages of the C library's heap to the system.

    glibc keeps freed memory that lies below memory in use, so a process stays as large as its largest
    burst made it. Does nothing if the C library has no ``malloc_trim``.
    """
    if (trim := getattr(_libc, "malloc_trim", None)) is not None:
        trim(ctypes.c_size_t(0))


def retain_heap(size: int) -> None:
    """Keep up to ``size`` free bytes in the C library's heap for later allocations.

    glibc allocates pieces from 128 KiB on (up to 32 MiB, as it adapts) from the system one by one and returns
    them at once: a program that creates and drops large arrays then has each of their pages cleared again.
    Does nothing if the C library has no ``mallopt``.
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
    """Call a function of the C library for whole pages; return its errno, or 0."""
    begin -= begin % PAGE_SIZE
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory)) + begin
    failed = function(ctypes.c_void_p(address), ctypes.c_size_t(end - begin), *more)
    return ctypes.get_errno() if failed else 0
