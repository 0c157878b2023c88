"""Where the compiled kernels are kept between runs.

One directory holds what Numba caches for all kernels of one CometMQ on one kind of processor. Its name
is made of everything that the machine code depends on, and it gets that name only when it is complete:
so a directory that exists is warm, and a compilation that was stopped leaves nothing that could be
taken for one. (Numba itself looks only at the file of each kernel, not at those of what it calls.)

It lies beside the package if that can be written to, otherwise in the user's cache directory;
``NUMBA_CACHE_DIR`` overrules both.
"""

import fcntl
import hashlib
import importlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from cometmq import __version__

PACKAGE: Final = Path(__file__).parent
SOURCES: Final = (
    "format/checksum",
    "format/consume_queue_ext",
    "format/delay_level",
    "format/host",
    "format/index",
    "format/java_hash",
    "format/java_numbers",
    "format/properties",
    "format/property_crc",
    "format/queue_entry",
    "format/record",
    "format/scan",
    "format/sys_flag",
    "kernels/compiled",
    "kernels/crc",
    "kernels/crc_folding",
    "kernels/dispatch",
    "kernels/gather",
    "kernels/grouping",
    "kernels/index",
    "kernels/jit",
    "kernels/json_text",
    "kernels/keys",
    "kernels/named_fields",
    "kernels/numbering",
    "kernels/ops",
    "kernels/properties",
    "kernels/pull",
    "kernels/pull_answers",
    "kernels/pull_asks",
    "kernels/pull_frames",
    "kernels/pull_header",
    "kernels/pull_table",
    "kernels/pulls",
    "kernels/queries",
    "kernels/query",
    "kernels/query_frames",
    "kernels/record_check",
    "kernels/scan",
    "kernels/selection",
    "kernels/send",
    "kernels/send_answers",
    "kernels/send_batches",
    "kernels/send_frames",
    "kernels/send_header",
    "kernels/send_properties",
    "kernels/send_records",
    "kernels/sends",
    "kernels/text",
    "kernels/topic_table",
)
"""What the compiled operations are made of: themselves, and where their constants come from."""
KEPT_MAX: Final = 4
"""So many caches are kept, the newest ones: others are of earlier versions."""
_COMPILED: Final = "cometmq.kernels.compiled"
_PREFIX: Final = "cometmq-"
_BUILDING: Final = "building-"


def is_warm() -> bool:
    """Tell whether loading needs no compiling.

    Raises:
        ImportError: Numba is not there.
        OSError: no place for the cache can be written to.
    """
    return _directory().is_dir()


def load_compiled() -> ModuleType:
    """Import the compiled operations; compile them into the cache if it is cold, which takes half a minute.

    Processes that find it cold at the same time compile one after the other, so only the first does.

    Raises:
        ImportError: Numba is not there, or does not work with this Python or numpy.
        OSError: no place for the cache can be written to.
    """
    directory = _directory()
    if directory.is_dir() or _COMPILED in sys.modules:
        return _import_with(directory)
    with _locked(directory.parent):
        if directory.is_dir():
            return _import_with(directory)
        _remove_unfinished(directory.parent)
        with tempfile.TemporaryDirectory(prefix=_BUILDING, dir=directory.parent) as building:
            made = Path(building, directory.name)
            compiled = _import_with(made)
            if any(made.rglob("*.nbc")):  # under some of Numba's debugging switches it caches nothing
                made.rename(directory)
        _forget_old(directory.parent)
    return compiled


def remove_unfinished() -> None:
    """Remove what compilations that were stopped have left; one under way in another process is let be."""
    parent = _parent()
    with suppress(BlockingIOError), _locked(parent, fcntl.LOCK_NB):
        _remove_unfinished(parent)


def _remove_unfinished(parent: Path) -> None:
    for stopped in parent.glob(f"{_BUILDING}*"):
        shutil.rmtree(stopped, ignore_errors=True)


def _import_with(directory: Path) -> ModuleType:
    config = _numba_config()
    before = config.CACHE_DIR
    config.CACHE_DIR = str(directory)
    try:
        return importlib.import_module(_COMPILED)
    finally:
        config.CACHE_DIR = before


def _numba_config() -> Any:
    return importlib.import_module("numba.core.config")  # Numba is optional, and slow to import


def _directory() -> Path:
    """Give the cache's directory, which need not exist; its parent does."""
    return _parent() / f"{_PREFIX}{__version__}-{_digest()}"


def _parent() -> Path:
    config = _numba_config()
    user_caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    places = [config.CACHE_DIR] if config.CACHE_DIR else [PACKAGE / "__pycache__", user_caches / "cometmq"]
    for place in map(Path, places):
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(place, os.W_OK):
            return place
    raise OSError(
        f"none of {', '.join(map(str, places))} can be written to: set NUMBA_CACHE_DIR to one that can"
    )


def _digest() -> str:
    """Digest what the machine code depends on."""
    numba, binding = map(importlib.import_module, ("numba", "llvmlite.binding"))
    digest = hashlib.sha256()
    features = binding.get_host_cpu_features().flatten()
    for part in (sys.version, numba.__version__, binding.get_host_cpu_name(), features, str(PACKAGE)):
        digest.update(part.encode() + b"\0")
    for name in SOURCES:
        source = PACKAGE.parent / f"{name}.py"
        digest.update(f"{name} {source.stat().st_mtime_ns}\0".encode() + source.read_bytes())
    return digest.hexdigest()[:16]


def _forget_old(parent: Path) -> None:
    caches = sorted(parent.glob(f"{_PREFIX}*"), key=lambda path: path.stat().st_mtime)
    for old in caches[:-KEPT_MAX]:
        shutil.rmtree(old, ignore_errors=True)


@contextmanager
def _locked(directory: Path, flags: int = 0) -> Iterator[None]:
    """Be the only process that is in here; the lock ends with the process at the latest.

    Raises:
        BlockingIOError: another one is, and the flags are LOCK_NB.
    """
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | flags)
        yield
    finally:
        os.close(fd)
