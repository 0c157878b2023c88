"""Which bytes of which CommitLog files each Spark task reads.

A file is cut at fixed places, wherever records begin: a record belongs to the piece in which its first
byte lies (see ``walk``). Small pieces of neighbouring files make one split.

What lies behind a file's last record is left out here, where the whole file can be seen: the hole that
was never written, and what follows the BLANK that closes a full file. That may be the remains of
records that a recovery gave up, and nothing but the BLANK before it tells so.
"""

import errno
import os
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from cometmq.errors import FormatError, SettingsError
from cometmq.format.layout import commitlog_dir, parse_offset_name
from cometmq.format.record import MAGIC_AT, MAGIC_BLANK, START_SIZE
from cometmq.message import Buffer
from cometmq.spark.remote import RemotePath

BLANK_SIZE_MAX: Final = 8 * 1024 * 1024
"""So far from a file's end its BLANK is looked for: twice what the default limit on a body asks for."""

_BLANK: Final = re.compile(re.escape(MAGIC_BLANK.to_bytes(4, "big")), re.DOTALL)


class LogFile(NamedTuple):
    """A CommitLog file.

    Attributes:
        base_offset: CommitLog offset of its first byte.
        size: its length in bytes.
        end: position behind the last byte that can belong to a record.
    """

    path: Path
    base_offset: int
    size: int
    end: int


class Piece(NamedTuple):
    """Part of a file: the records that begin from ``start`` on and before ``end``.

    Attributes:
        more_follows: whether records lie in a later file, so that this one may not end before its end.
    """

    file: LogFile
    start: int
    end: int
    more_follows: bool


def log_files(path: Path) -> list[LogFile]:
    """List the CommitLog files of a store directory, of a ``commitlog`` folder, or the one file given.

    Raises:
        SettingsError: there is none, and no folder that could hold some; or one file of another name.
        OSError: a file cannot be read.
    """
    if path.is_file():
        return [_log_file(path)]
    folder = commitlog_dir(path) if commitlog_dir(path).is_dir() else path
    if not folder.is_dir():
        raise SettingsError(f"{path} does not exist: give a store directory, or see that it is mounted here")
    files = [_log_file(file) for file in sorted(folder.iterdir()) if _is_log_file(file)]
    if not files and folder == path:
        raise SettingsError(
            f"{path} holds no CommitLog: give a store directory, its commitlog folder or one of its files"
        )
    return files


def splits(files: Sequence[LogFile], bytes_per_split: int) -> list[list[Piece]]:
    """Cut the files into splits of at most ``bytes_per_split`` bytes, all but the last of just so many."""
    made: list[list[Piece]] = []
    room = 0
    for number, file in enumerate(files):
        more_follows = any(later.end for later in files[number + 1 :])
        start = 0
        while start < file.end:
            if room == 0:
                made.append([])
                room = bytes_per_split
            end = min(start + room, file.end)
            made[-1].append(Piece(file, start, end, more_follows))
            room -= end - start
            start = end
    return made


def gaps(files: Sequence[LogFile]) -> list[tuple[int, int]]:
    """Give the CommitLog offsets, from and up to, of files that are missing between others."""
    ends = [(file.base_offset + file.size, later.base_offset) for file, later in pairwise(files)]
    return [(end, begin) for end, begin in ends if end < begin]


def _is_log_file(path: Path) -> bool:
    try:
        parse_offset_name(path.name)
    except FormatError:
        return False
    return path.is_file()


def _log_file(path: Path) -> LogFile:
    try:
        base_offset = parse_offset_name(path.name)
    except FormatError as error:
        raise SettingsError(
            f"{path}: {error}; rename it to the offset at which it began in its store"
        ) from None
    if isinstance(path, RemotePath):
        size = path.length()
        first = max(size - BLANK_SIZE_MAX, 0)
        blank = _blank_position(path.fetch(first, size), first, size)
        return LogFile(path, base_offset, size, size if blank is None else blank)
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        end = _written_end(file.fileno(), size)
        first = max(size - BLANK_SIZE_MAX, 0)
        if end <= first:
            return LogFile(path, base_offset, size, end)
        blank = _blank_position(os.pread(file.fileno(), end - first, first), first, size)
        return LogFile(path, base_offset, size, end if blank is None else blank)


def _written_end(fd: int, size: int) -> int:
    """Give where the last hole of a sparse file begins: nothing was ever written from there on."""
    end = 0
    while end < size:
        try:
            end = os.lseek(fd, os.lseek(fd, end, os.SEEK_DATA), os.SEEK_HOLE)
        except OSError as error:
            return end if error.errno == errno.ENXIO else size
    return size


def _blank_position(tail: Buffer, first: int, size: int) -> int | None:
    """Give where the BLANK that fills a file up begins, if it is in ``tail``, the bytes from ``first`` on."""
    for match in _BLANK.finditer(tail, START_SIZE - MAGIC_AT):
        position = match.start() - MAGIC_AT
        filled = int.from_bytes(tail[position : position + MAGIC_AT], "big")
        if first + position + filled == size:
            return first + position
    return None
