"""What must be synced for files to outlive a loss of power, if their making was not waited for.

The files of ConsumeQueues and Index are made by the hundred, in the loop that serves, so nobody waits for
the disk then. The checkpoint vouches for them only when they, and the directories that name them, are synced.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path


def files_then_directories(paths: Iterable[Path], root: Path) -> Iterator[Path]:
    """Give ``paths``, all under ``root``, then their directories up to it, the deepest first."""
    outermost, directories = str(root), set[str]()  # there can be tens of thousands: texts take least memory
    for path in paths:
        yield path
        directory = os.path.dirname(path)
        while directory not in directories:
            directories.add(directory)
            if directory != outermost:
                directory = os.path.dirname(directory)
    for directory in sorted(directories, key=lambda name: (-name.count(os.sep), name)):
        yield Path(directory)
