"""The files that hold the machine code of kernels, and the processors that it runs on.

Numba's own cache depends on the path and the time of each source file, and on the exact processor: a package
that is copied or installed anew must be compiled again. Here one directory holds all kernels, a file
each, and ``cache`` names that directory by a digest of its sources. So a file needs only the kernel's name.
"""

import hashlib
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import numba
from llvmlite import binding
from numba.core import compiler, serialize

from cometmq.kernels.compiling.places import SUFFIX

DIGEST_SIZE: Final = 32
config: Any = numba.config
compile_result: Any = compiler.CompileResult
to_bytes: Any = serialize.dumps


class Processor(NamedTuple):
    """A processor to compile for: LLVM's name of it, and its features (``+avx2,+bmi,…``)."""

    name: str
    features: str

    @property
    def digest(self) -> str:
        """The part of a cache directory's name that stands for this processor: 8 hex digits."""
        text = "\0".join((binding.get_process_triple(), *self))
        return hashlib.sha256(text.encode()).hexdigest()[:8]


PORTABLE: Final = {
    "x86_64": Processor(
        "x86-64-v3",
        "+avx,+avx2,+bmi,+bmi2,+cmov,+cx16,+cx8,+f16c,+fma,+fxsr,+lzcnt,+mmx,+movbe,+pclmul,+popcnt,+sahf,"
        "+sse,+sse2,+sse3,+sse4.1,+sse4.2,+ssse3,+xsave",
    ),
    "aarch64": Processor("generic", "+neon"),
}
"""For each architecture a processor that every server of the last ten years can stand in for."""


def this_processor() -> Processor:
    """Return the processor that Numba compiles for: the one in its settings, or the machine's own."""
    features = (
        binding.get_host_cpu_features().flatten() if config.CPU_FEATURES is None else config.CPU_FEATURES
    )
    return Processor(config.CPU_NAME or binding.get_host_cpu_name(), features)


def portable_processor() -> Processor | None:
    """Return the processor that portable code is compiled for, or None if this machine lacks its features."""
    portable = PORTABLE.get(binding.get_process_triple().partition("-")[0])
    if portable is None:
        return None
    host = binding.get_host_cpu_features()
    here = all(host.get(feature.removeprefix("+"), False) for feature in portable.features.split(","))
    return portable if here else None


class KernelFile:
    """The machine code of one kernel in a file; replaces Numba's own cache of a function.

    Args:
        directory: where the file is, or is written to.
        is_complete: whether the directory holds all kernels, so that none is compiled.
    """

    def __init__(self, function: Callable[..., Any], directory: Path, *, is_complete: bool) -> None:
        self._path = directory / f"{function.__module__}.{function.__qualname__}{SUFFIX}"
        self._is_complete = is_complete

    @property
    def cache_path(self) -> str:
        """The directory (read by Numba's statistics)."""
        return str(self._path.parent)

    def load_overload(self, _: object, target_context: Any) -> Any:
        """Load the compiled kernel; return None if it must be compiled (called by Numba).

        Raises ValueError if the file is damaged, OSError if it cannot be read.
        """
        target_context.refresh()
        if not self._is_complete:
            return None
        data = self._path.read_bytes()
        digest, code = data[:DIGEST_SIZE], data[DIGEST_SIZE:]
        if hashlib.sha256(code).digest() != digest:
            raise ValueError(f"the compiled kernel {self._path} is damaged: remove {self._path.parent}")
        return compile_result._rebuild(target_context, *pickle.loads(code))  # noqa: S301, SLF001  a file that we wrote; as Numba does

    def save_overload(self, _: object, compiled: Any) -> None:
        """Write the machine code of a compiled kernel to the file (called by Numba)."""
        assert not compiled.library.has_dynamic_globals, f"{self._path.name} holds an address of this process"
        code = to_bytes(compiled._reduce())  # noqa: SLF001  as Numba does
        self._path.parent.mkdir(exist_ok=True)
        self._path.write_bytes(hashlib.sha256(code).digest() + code)


_directory: Path | None = None
_is_complete = False


@contextmanager
def kept_in(directory: Path, *, is_complete: bool) -> Iterator[None]:
    """Load the kernels that are imported within it from a directory, or compile and write them there."""
    global _directory, _is_complete  # noqa: PLW0603  an import passes no arguments to decorators
    _directory, _is_complete = directory, is_complete
    try:
        yield
    finally:
        _directory = None


@contextmanager
def compiling_for(processor: Processor) -> Iterator[None]:
    """Set the processor that Numba compiles for; only before it has compiled anything in this process."""
    before = config.CPU_NAME, config.CPU_FEATURES
    config.CPU_NAME, config.CPU_FEATURES = processor
    try:
        yield
    finally:
        config.CPU_NAME, config.CPU_FEATURES = before


def use_kernel_file(dispatcher: Any) -> None:
    """Attach the kernel's file in the directory of ``kept_in``, if there is one, before it is compiled."""
    if _directory is not None:
        dispatcher._cache = KernelFile(dispatcher.py_func, _directory, is_complete=_is_complete)  # noqa: SLF001  Numba offers no other way
