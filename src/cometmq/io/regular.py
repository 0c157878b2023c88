"""Accept nothing but regular files, and links to them.

Opening a FIFO waits for a writer, for ever if there is none; a device may have no end, and opening it may do
something. A store that comes from elsewhere can hold either under any name. So what is opened is looked at
first, and refused by what it is.
"""

import errno
import os
import stat
from pathlib import Path
from typing import Final

_KINDS: Final = (
    (stat.S_ISDIR, "directory"),
    (stat.S_ISFIFO, "FIFO"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISCHR, "character device"),
    (stat.S_ISBLK, "block device"),
)


class NotRegularFile(OSError):
    """What is at a path is neither a regular file nor a link to one; ``strerror`` says what it is."""

    strerror: str


def regular_stat(path: Path | str) -> os.stat_result:
    """Return the status of the regular file at a path, which may be a link to it.

    Raises NotRegularFile, or another OSError as FileNotFoundError.
    """
    found = os.stat(path)
    if stat.S_ISREG(found.st_mode):
        return found
    kind = next((name for is_kind, name in _KINDS if is_kind(found.st_mode)), "special file")
    raise not_regular(path, f"link to a {kind}" if os.path.islink(path) else kind)


def not_regular(path: Path | str, kind: str) -> NotRegularFile:
    """Return the error for what is at a path instead of a file."""
    return NotRegularFile(errno.EINVAL, f"is a {kind}, not a regular file", str(path))
