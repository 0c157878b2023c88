"""The order in which files and their directories are synced, so that new files survive a power loss.

The files of ConsumeQueues and Index are created by the hundred, in the loop that serves, without waiting for
the disk. The checkpoint vouches for them only once they and the directories that name them are synced.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path


def files_then_directories(paths: Iterable[Path], root: Path) -> Iterator[Path]:
    """Yield ``paths``, all under ``root``, then their directories up to it, the deepest first."""
    outermost, directories = str(root), set[str]()  # strings: tens of thousands of Paths take more memory
    for path in paths:
        yield path
        directory = os.path.dirname(path)
        while directory not in directories:
            directories.add(directory)
            if directory != outermost:
                directory = os.path.dirname(directory)
    for directory in sorted(directories, key=lambda name: (-name.count(os.sep), name)):
        yield Path(directory)
