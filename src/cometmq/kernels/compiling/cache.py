"""The cache of compiled kernels on the disk, which outlives the process.

One directory holds the machine code of all kernels of one CometMQ for one kind of processor. Its name
is a digest of everything that the code depends on (sources, versions, processor), and of no path and no
time: so it may be copied into another venv, image or user's folder, and is found there. A directory gets
that name only when it is complete: so one that exists is warm, and a compilation that was stopped leaves
nothing that could be mistaken for one.

``places`` lists the folders in which such directories are looked for.
"""

import fcntl
import hashlib
import importlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final, NamedTuple

from cometmq import __version__
from cometmq.kernels.compiling import places

if TYPE_CHECKING:
    from cometmq.kernels.compiling.machine_code import Processor

PACKAGE: Final = Path(__file__).parents[1]
_IMPORT: Final = re.compile(
    r"^from cometmq\.(format|kernels|wire)((?:\.\w+)*) import (\([^)]*\)|[^\n]*)", re.MULTILINE
)
"""An import at the top of a module: of names from a module, or of modules."""
_WORD: Final = re.compile(r"\w+")
KEPT_MAX: Final = 8
"""How many caches stay in a folder, those loaded last; others, of earlier versions, are removed."""
_MAIN: Final = "kernels/compiled"
_COMPILED: Final = "cometmq.kernels.compiled"
_PREFIX: Final = "cometmq-"
_BUILDING: Final = "building-"


class Sources(NamedTuple):
    """What the machine code depends on besides the processor.

    Attributes:
        digest: of the texts of all source modules and of the versions of Python, Numba, llvmlite and numpy.
        kernel_count: how many kernels the sources define.
    """

    digest: str
    kernel_count: int


def find() -> Path | None:
    """Return the directory from which the kernels can be loaded without compiling, or None.

    Raises:
        ImportError: Numba is not installed.
    """
    sources = read_sources()
    names = [_name(sources, processor) for processor in _usable_processors()]
    for place in places.to_read():
        for name in names:
            if _kernel_count(place.path / name) == sources.kernel_count:
                return place.path / name
    return None


def is_warm() -> bool:
    """Return whether loading needs no compiling. Raises ImportError if Numba is not installed."""
    return find() is not None


def load_compiled(*, for_all_users: bool = False) -> ModuleType:
    """Import the compiled operations; compile them first if no cache holds them, which takes a minute.

    A lock on the cache's folder makes sure that of several processes only the first one compiles.

    Args:
        for_all_users: as in ``places.to_write``.

    Raises:
        ImportError: Numba is not installed, or does not work with this Python or numpy.
        OSError: none of the folders for the cache can be written to.
        ValueError: the cache is damaged.
    """
    if _COMPILED in sys.modules:
        return importlib.import_module(_COMPILED)
    if (found := find()) is not None:
        return _import_from(found)
    parent = places.to_write(for_all_users=for_all_users).path
    with _locked(parent):
        if (found := find()) is not None:
            return _import_from(found)
        return _compile_into(parent, next(iter(_usable_processors())))


def compile_into(parent: Path, processor: "Processor") -> Path:
    """Compile all kernels for a processor into a directory in ``parent``, and return that directory.

    The directory may be copied. One that is there already stays as it is. Call this in a process that has
    not loaded the kernels: it compiles what it imports for ``processor``.

    Raises:
        ImportError, OSError: as in ``load_compiled``.
    """
    from cometmq.kernels.compiling.machine_code import compiling_for  # noqa: PLC0415  Numba is optional, and slow to import

    sources = read_sources()
    parent.mkdir(parents=True, exist_ok=True)
    directory = parent / _name(sources, processor)
    with _locked(parent):
        if _kernel_count(directory) != sources.kernel_count:
            with compiling_for(processor):
                _compile_into(parent, processor)
    return directory


def compiled_count(parent: Path) -> int:
    """Return how many kernels a compilation under way in this folder has finished."""
    return max(map(_kernel_count, parent.glob(f"{_BUILDING}*/{_PREFIX}*")), default=0)


def remove_unfinished() -> None:
    """Remove what stopped compilations have left, unless another process is compiling now."""
    parent = places.to_write(for_all_users=False).path
    with suppress(BlockingIOError), _locked(parent, fcntl.LOCK_NB):
        _remove_unfinished(parent)


def read_sources() -> Sources:
    """Digest what the machine code depends on. Raises ImportError if Numba is not installed."""
    numba, llvmlite, numpy = map(importlib.import_module, ("numba", "llvmlite", "numpy"))
    versions = (numba.__version__, llvmlite.__version__, numpy.__version__)
    python = f"{sys.implementation.cache_tag} {sys.version_info}"
    digest = hashlib.sha256("\0".join((python, *versions)).encode())
    kernel_count = 0
    for name, text in sorted(_sources().items()):
        digest.update(f"\0{name} {len(text)}\0".encode() + text)
        kernel_count += text.count(b"\n@kernel(")
    return Sources(digest.hexdigest()[:16], kernel_count)


def _sources() -> dict[str, bytes]:
    """Read the modules that decide the machine code: the kernels, and what they import of the formats.

    (Nothing that they import from elsewhere, such as errors, gets into machine code.)
    """
    found: dict[str, bytes] = {}
    waiting = [_MAIN]
    while waiting:
        name = waiting.pop()
        path = PACKAGE.parent / f"{name}.py"
        if name in found or not path.exists():
            continue
        found[name] = path.read_bytes()
        for package, module, names in _IMPORT.findall(found[name].decode()):
            home = f"{package}{module}".replace(".", "/")
            waiting += [home, *(f"{home}/{each}" for each in _WORD.findall(names))]
    return found


def _usable_processors() -> "list[Processor]":
    """Return the processors whose machine code runs on this machine, the fastest code first."""
    from cometmq.kernels.compiling.machine_code import portable_processor, this_processor  # noqa: PLC0415  imports Numba

    portable = portable_processor()
    return [this_processor()] if portable is None else [this_processor(), portable]


def _name(sources: Sources, processor: "Processor") -> str:
    return f"{_PREFIX}{__version__}-{sources.digest}-{processor.digest}"


def _kernel_count(directory: Path) -> int:
    try:
        return sum(name.endswith(places.SUFFIX) for name in os.listdir(directory))
    except OSError:  # it does not exist, or this user may not read it
        return 0


def _compile_into(parent: Path, processor: "Processor") -> ModuleType:
    """Compile into a directory that is renamed when complete; the caller holds the lock of ``parent``."""
    from cometmq.kernels.compiling.machine_code import kept_in  # noqa: PLC0415  imports Numba

    sources = read_sources()
    directory = parent / _name(sources, processor)
    _remove_unfinished(parent)
    with tempfile.TemporaryDirectory(prefix=_BUILDING, dir=parent) as building:
        made = Path(building, directory.name)
        with kept_in(made, is_complete=False):
            compiled = importlib.import_module(_COMPILED)
        if _kernel_count(made) == sources.kernel_count:  # fewer under some of Numba's debugging switches
            shutil.rmtree(directory, ignore_errors=True)  # an incomplete one
            made.rename(directory)
    _remove_old(parent)
    return compiled


def _import_from(directory: Path) -> ModuleType:
    from cometmq.kernels.compiling.machine_code import kept_in  # noqa: PLC0415  imports Numba

    with suppress(OSError):  # it may be another user's
        os.utime(directory)  # so that it is not the one to be removed: see KEPT_MAX
    with kept_in(directory, is_complete=True):
        return importlib.import_module(_COMPILED)


def _remove_unfinished(parent: Path) -> None:
    for stopped in parent.glob(f"{_BUILDING}*"):
        shutil.rmtree(stopped, ignore_errors=True)


def _remove_old(parent: Path) -> None:
    caches = sorted(parent.glob(f"{_PREFIX}*"), key=lambda path: path.stat().st_mtime)
    for old in caches[:-KEPT_MAX]:
        shutil.rmtree(old, ignore_errors=True)


@contextmanager
def _locked(directory: Path, flags: int = 0) -> Iterator[None]:
    """Hold the directory's lock, which ends with the process at the latest.

    Raises:
        BlockingIOError: another process holds it, and ``flags`` is LOCK_NB.
    """
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | flags)
        yield
    finally:
        os.close(fd)
