"""What must be synced for files to outlive a loss of power, if their making was not waited for.

The files of ConsumeQueues and Index are made by the hundred, in the loop that serves, so nobody waits for
the disk then. The checkpoint vouches for them only when they, and the directories that name them, are synced.
"""

from collections.abc import Iterable
from pathlib import Path


def files_then_directories(paths: Iterable[Path], root: Path) -> list[Path]:
    """Give ``paths``, then the directories that they lie in, the deepest first, up to ``root``."""
    files = list(paths)
    directories = {parent for path in files for parent in path.parents if parent.is_relative_to(root)}
    return files + sorted(directories, key=lambda directory: (-len(directory.parts), directory))
