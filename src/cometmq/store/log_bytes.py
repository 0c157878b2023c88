"""Files of the log as kernels take them."""

from typing import Final, NamedTuple

import numpy as np

from cometmq.io.files import FileMap
from cometmq.kernels.ops import Bytes
from cometmq.store.commit_log import CommitLog

_NOTHING: Final = np.empty(0, np.uint8)


class LogBytes(NamedTuple):
    """A file of the log.

    Attributes:
        resident: a byte for each page of ``data``: whether it is known to be in memory.
        begin: the CommitLog offset of its first byte.
        end: the one up to where it can be read.
    """

    data: Bytes
    resident: Bytes
    begin: int
    end: int


NOWHERE: Final = LogBytes(_NOTHING, _NOTHING, 0, 0)


def bytes_at(commit_log: CommitLog, offset: int) -> tuple[FileMap, LogBytes] | None:
    """Give the map of the file that holds an offset, and its bytes; None if it cannot be read there."""
    stretch = commit_log.stretch(offset)
    if stretch is None or offset >= stretch[1]:
        return None
    try:
        mapped = commit_log.chain.file(stretch[0]).mapped()
    except OSError:
        return None  # whoever reads it the plain way will say so
    if mapped is None:
        return None
    data, resident = np.frombuffer(mapped.view, np.uint8), np.frombuffer(mapped.resident, np.uint8)
    return mapped, LogBytes(data, resident, *stretch)
