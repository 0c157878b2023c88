"""A disk that is full when a store is opened: there is no store yet that could wait for space."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cometmq.errors import StoreNotWritable

FULL: Final = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a disk, or of somebody's share of it, that is full."""


@contextmanager
def told_if_full(root: Path) -> Iterator[None]:
    """Say what helps if the disk turns out to be full while the store under ``root`` is opened.

    Raises StoreNotWritable in place of an OSError that says so.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise StoreNotWritable(
            f"{error.filename or root}: disk full: a store that is opened needs room to write what was only "
            "in memory when it was left; free some space there, then try again: nothing was lost by this"
        ) from error
