"""Bytes of the log in memory: files as arguments of leaf operations, and single records."""

from typing import Final

import numpy as np

from cometmq.format.record import RecordHead
from cometmq.format.scan import whole_record
from cometmq.io.files import FileMap
from cometmq.kernels.pulls.rows import LogBytes
from cometmq.store.log.commit_log import RECORD_START_SIZE, CommitLog, size_of_record
from cometmq.store.reading import Reading

_NOTHING: Final = np.empty(0, np.uint8)
NOWHERE: Final = LogBytes(_NOTHING, _NOTHING, 0, 0)


def file_at(commit_log: CommitLog, offset: int) -> tuple[FileMap, int, int] | None:
    """Return the map of the file that holds an offset, and from where to where it can be read.

    None if nothing can be read at the offset.
    """
    stretch = commit_log.stretch(offset)
    if stretch is None or offset >= stretch[1]:
        return None
    try:
        mapped = commit_log.chain.file(stretch[0]).mapped()
    except OSError:
        return None  # the read step by step will raise it
    return None if mapped is None else (mapped, *stretch)


def bytes_at(commit_log: CommitLog, offset: int) -> tuple[FileMap, LogBytes] | None:
    """Return the map of the file that holds an offset, and its bytes; None if it cannot be read there."""
    if (found := file_at(commit_log, offset)) is None:
        return None
    mapped, begin, end = found
    data, resident = np.frombuffer(mapped.view, np.uint8), np.frombuffer(mapped.resident, np.uint8)
    return mapped, LogBytes._make((data, resident, begin, end))


def resident_record(commit_log: CommitLog, physical_offset: int) -> tuple[bytes, RecordHead] | None:
    """Return the record at a CommitLog offset and its head if it is sound and in memory, else None."""
    if (opened := file_at(commit_log, physical_offset)) is None:
        return None
    mapped, begin, end = opened
    at = physical_offset - begin
    if (head := mapped.ready(at, at + RECORD_START_SIZE)) is None:
        return None
    size = size_of_record(head, physical_offset)
    if size is None or physical_offset + size > end or (data := mapped.ready(at, at + size)) is None:
        return None
    record = bytes(data)
    found = whole_record(record, 0, size, physical_offset, commit_log.crc)
    return None if found is None else (record, found)


def record_at(commit_log: CommitLog, physical_offset: int) -> Reading[bytes | None]:
    """Read the record at a CommitLog offset; None if none begins there, or it is damaged."""
    if (found := resident_record(commit_log, physical_offset)) is not None:
        return found[0]
    return (yield from commit_log.record_at(physical_offset))
