"""The folders that may hold caches of compiled kernels, and which of them a process may use."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

SETTING: Final = "COMETMQ_KERNELS_CACHE"
"""The environment variable that names the folder searched first: one from ``cometmq kernels --output``."""
NUMBA_SETTING: Final = "NUMBA_CACHE_DIR"
"""Numba's own setting: if it is set, no folders but these two are used."""
PACKAGE: Final = Path(__file__).parents[1]
SUFFIX: Final = ".kernel"
"""The suffix of a file that holds one kernel's machine code."""
OTHERS: Final = 0o077
"""The permission bits of group and others."""


class CacheFolder(NamedTuple):
    """A folder that may hold caches.

    Attributes:
        is_shared: whether others may write to its parent; if so, the folder must be this user's alone.
    """

    path: Path
    is_shared: bool = False

    def is_trusted(self) -> bool:
        """Return whether no other user can have written code into it; True if it does not exist."""
        if not self.is_shared or not os.path.lexists(self.path):
            return True
        found = self.path.lstat()
        return self.path.is_dir() and not self.path.is_symlink() and self._is_ours(found)

    def create(self) -> bool:
        """Create the folder unless it exists; return whether it is trusted and can be written to."""
        try:
            if self.is_shared:
                self.path.mkdir(mode=0o700, exist_ok=True)
            else:
                self.path.mkdir(parents=True, exist_ok=True)
        except OSError:
            return False
        return self.is_trusted() and os.access(self.path, os.W_OK | os.X_OK)

    def _is_ours(self, found: os.stat_result) -> bool:
        return found.st_uid == os.geteuid() and not found.st_mode & OTHERS


def to_read() -> list[CacheFolder]:
    """Return the trusted folders to search for caches, in this order."""
    return [place for place in _places(("package", "user")) if place.is_trusted()]


def to_write(*, for_all_users: bool) -> CacheFolder:
    """Return the first folder that can be written to, and create it.

    Args:
        for_all_users: prefer the package's own folder, which all its users read, to this user's.

    Raises:
        OSError: none of them can be written to.
    """
    order = ("package", "user") if for_all_users else ("user", "package")
    tried = list(_places(order))
    for place in tried:
        if place.create():
            return place
    names = ", ".join(str(place.path) for place in tried)
    raise OSError(
        f"no folder for the compiled kernels can be written to by this user alone, tried {names}: "
        f"set {SETTING} to one that can"
    )


def _places(order: tuple[str, ...]) -> Iterator[CacheFolder]:
    if named := os.environ.get(SETTING):
        yield CacheFolder(Path(named))
    if named := os.environ.get(NUMBA_SETTING):
        yield CacheFolder(Path(named))
        return
    for name in order:
        path = PACKAGE / "__pycache__" if name == "package" else _user_caches()
        if path is not None:
            yield CacheFolder(path)
    if (folder := _temporary_folder()) is not None:
        yield CacheFolder(folder / f"cometmq-kernels-{os.geteuid()}", is_shared=True)


def _user_caches() -> Path | None:
    """Return the folder of the user's caches, or None for a user without a home."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cometmq"
    except RuntimeError:
        return None


def _temporary_folder() -> Path | None:
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError:  # no temporary folder can be written to
        return None
