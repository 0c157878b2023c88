"""A copy of a disk in memory that is made, and asked for names, at next to no cost."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final, Self

from cometmq.testing.memory_disk import Content, MemoryDisk

CHANGES: Final = ("create", "save", "rename", "remove", "make_directory", "remove_directory", "lock", "put")
"""Methods of a disk that change which names there are."""


class CopiedDisk(MemoryDisk):
    """A disk that remembers which names are in a directory, until any name changes."""

    _names: dict[str, list[str]] | None = None

    @classmethod
    def of(cls, disk: MemoryDisk) -> Self:
        """Copy a disk: as ``after_kill`` does, but blocks of zeros are not looked for again."""
        copy = cls()
        copy._life = disk._life
        copy._directories = set(disk._directories)
        for path, content in disk._files.items():
            copy._files[path] = Content(bytearray(content.data), content.synced, set(content.blocks))
        return copy

    def names(self, directory: Path) -> list[str]:
        """List the names in ``directory``, sorted."""
        if self._names is None:
            self._names = {}
            for path in {*map(str, self._files), *map(str, self._directories)}:
                parent, _, name = path.rpartition("/")
                self._names.setdefault(parent, []).append(name)
        return sorted(self._names.get(str(directory), ()))


def _forgetting(change: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method so that it forgets the names first."""

    @wraps(change)
    def changing(disk: CopiedDisk, *args: Any, **options: Any) -> Any:
        disk._names = None
        return change(disk, *args, **options)

    return changing


for _name in CHANGES:
    setattr(CopiedDisk, _name, _forgetting(getattr(MemoryDisk, _name)))
