"""What must be synced for files to outlive a loss of power, if their making was not waited for.

The files of ConsumeQueues and Index are made by the hundred, in the loop that serves, so nobody waits for
the disk then. The checkpoint vouches for them only when they, and the directories that name them, are synced.
"""

from collections.abc import Iterable
from pathlib import Path


def files_then_directories(paths: Iterable[Path], root: Path) -> list[Path]:
    """Give ``paths``, all under ``root``, then their directories up to it, the deepest first."""
    files = list(paths)
    directories: set[Path] = set()
    for directory in {path.parent for path in files}:
        outer = directory
        while outer not in directories:
            directories.add(outer)
            if outer != root:
                outer = outer.parent
    return files + sorted(directories, key=lambda directory: (-len(directory.parts), directory))
