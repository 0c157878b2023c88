"""Where caches of compiled kernels may be, and which of these places a process may use."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

SETTING: Final = "COMETMQ_KERNELS_CACHE"
"""The environment variable that names the first place to look, as made by ``cometmq kernels --output``."""
NUMBA_SETTING: Final = "NUMBA_CACHE_DIR"
"""Numba's own: no other places than these two are used if it is set."""
PACKAGE: Final = Path(__file__).parent
SUFFIX: Final = ".kernel"
"""Of the file that holds one kernel's machine code."""
OTHERS: Final = 0o077
"""The permissions of a directory that are not its owner's."""


class Place(NamedTuple):
    """A directory that holds caches.

    Attributes:
        is_shared: whether others may write to its parent: then it must be this user's alone.
    """

    path: Path
    is_shared: bool = False

    def is_trusted(self) -> bool:
        """Check that nobody else can have put there what would be run here; True if it is not there."""
        if not self.is_shared or not os.path.lexists(self.path):
            return True
        found = self.path.lstat()
        return self.path.is_dir() and not self.path.is_symlink() and self._is_ours(found)

    def make(self) -> bool:
        """Create the directory if need be. Returns whether it can be written to."""
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


def to_read() -> list[Place]:
    """Return the places where caches are looked for, in this order."""
    return [place for place in _places(("package", "user")) if place.is_trusted()]


def to_write(*, for_all_users: bool) -> Place:
    """Return the first place that can be written to, and create it.

    Args:
        for_all_users: prefer the package's own folder, which all its users read, to this user's.

    Raises:
        OSError: none can be.
    """
    order = ("package", "user") if for_all_users else ("user", "package")
    tried = list(_places(order))
    for place in tried:
        if place.make():
            return place
    names = ", ".join(str(place.path) for place in tried)
    raise OSError(f"none of {names} can be written to by this user alone: set {SETTING} to one that can")


def _places(order: tuple[str, ...]) -> Iterator[Place]:
    if named := os.environ.get(SETTING):
        yield Place(Path(named))
    if named := os.environ.get(NUMBA_SETTING):
        yield Place(Path(named))
        return
    for name in order:
        path = PACKAGE / "__pycache__" if name == "package" else _user_caches()
        if path is not None:
            yield Place(path)
    if (folder := _temporary_folder()) is not None:
        yield Place(folder / f"cometmq-kernels-{os.geteuid()}", is_shared=True)


def _user_caches() -> Path | None:
    """Return the folder of the user's caches, or None for a user without a home."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cometmq"
    except RuntimeError:
        return None


def _temporary_folder() -> Path | None:
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError:  # none can be written to
        return None
