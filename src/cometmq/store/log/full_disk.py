"""The error for a full disk while a store is opened, when the store cannot wait for space yet."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cometmq.errors import StoreNotWritable

FULL: Final = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a full disk or an exhausted quota."""


@contextmanager
def explain_full_disk(root: Path) -> Iterator[None]:
    """Raise StoreNotWritable, with the remedy, in place of an OSError that means a full disk.

    Args:
        root: directory of the store that is opened in the context.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise StoreNotWritable(
            f"{error.filename or root}: disk full: a store that is opened needs room to write what was only "
            "in memory when it stopped; free some space there, then try again: nothing was lost by this"
        ) from error
