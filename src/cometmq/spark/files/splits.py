"""Plan which bytes of which CommitLog files each Spark task reads, by names and sizes alone.

A store is listed once. The driver opens no file but the last ones of a local store, to leave out space that
was reserved and never written. A file is cut at fixed positions, wherever records begin: a record belongs to
the piece in which its first byte lies (see ``walk``). Small pieces of neighbouring files make one split.
Tasks find where the records of a file end (``log_end``).
"""

import sys
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, TypeAlias

from cometmq.errors import SettingsError
from cometmq.format.layout import (
    checkpoint_path,
    commitlog_dir,
    consume_queues_dir,
    is_offset_name,
    lock_path,
    parse_offset_name,
)
from cometmq.io.regular import not_regular, regular_stat
from cometmq.spark.files.remote import Listed, RemotePath, file_at, listing, path_of, written_end


class LogFile(NamedTuple):
    """A CommitLog file.

    Attributes:
        base_offset: CommitLog offset of its first byte.
        size: its length in bytes.
        written: bytes to read: fewer than ``size`` if the rest is known to be a hole.
    """

    path: Path
    base_offset: int
    size: int
    written: int


class FilePiece(NamedTuple):
    """The records of a file that begin at position ``start`` or behind it, and before ``end``.

    Attributes:
        more_follows: whether a later file has data, so that the log cannot end in this one.
    """

    file: LogFile
    start: int
    end: int
    more_follows: bool


PlainPiece: TypeAlias = tuple[str, int, int, int, int, int, bool]
"""The fields of a piece and its file, in their order, the path as text.

Spark plans 82,000 tasks for 10 TiB, and its pickler takes 13 us for each task's values of types of ours.
"""


def log_files(path: Path) -> list[LogFile]:
    """List the CommitLog files of a store directory or ``commitlog`` folder, or the one file at ``path``.

    Raises:
        SettingsError: it does not exist, holds no CommitLog, or is a file whose name is no offset.
        NotRegularFile: what has the name of a CommitLog file is none.
        OSError: a folder cannot be read.
    """
    if is_offset_name(path.name) and (one := file_at(path)) is not None:
        return [log_file(one)]
    try:
        found = listing(commitlog_dir(path))
    except (FileNotFoundError, NotADirectoryError):
        found = _listing_without_folder(path)
    files = [_planned(_file(one)) for one in found if is_offset_name(one.path.name)]
    if not files:
        _check_is_empty(path)
    return _without_holes(sorted(files, key=lambda file: file.base_offset))


def log_file(listed: Listed) -> LogFile:
    """Return one CommitLog file. Raises SettingsError if its name is no offset, OSError."""
    if not is_offset_name(listed.path.name):
        raise SettingsError(_no_offset(listed.path))
    return _without_holes([_planned(listed)])[0]


def splits(files: Sequence[LogFile], bytes_per_split: int) -> list[list[FilePiece]]:
    """Cut the files into splits of ``bytes_per_split`` bytes; the last one may be smaller."""
    made: list[list[FilePiece]] = []
    room = 0
    last = max((number for number, file in enumerate(files) if file.written), default=0)
    for number, file in enumerate(files):
        start = 0
        while start < file.written:
            if room == 0:
                made.append([])
                room = bytes_per_split
            end = min(start + room, file.written)
            made[-1].append(FilePiece(file, start, end, number < last))
            room -= end - start
            start = end
    return made


def within(split: Iterable[FilePiece], begin: int, end: int = sys.maxsize) -> list[FilePiece]:
    """Cut a split to the CommitLog offsets from ``begin`` to before ``end``."""
    cut = []
    for piece in split:
        base = piece.file.base_offset
        first, last = max(piece.start, begin - base), min(piece.end, end - base)
        if (first, last) == (piece.start, piece.end):
            cut.append(piece)  # as nearly always, and there may be very many
        elif first < last:
            cut.append(piece._replace(start=first, end=last))
    return cut


def plain(pieces: Iterable[FilePiece]) -> list[PlainPiece]:
    """Convert pieces to values that cost Spark little to send to a task; ``pieces_of`` converts them back."""
    return [
        (str(file.path), file.base_offset, file.size, file.written, start, end, more_follows)
        for file, start, end, more_follows in pieces
    ]


def pieces_of(values: Iterable[PlainPiece]) -> list[FilePiece]:
    """Convert the values of pieces back to pieces."""
    return [
        FilePiece(LogFile(path_of(path), base_offset, size, written), start, end, more_follows)
        for path, base_offset, size, written, start, end, more_follows in values
    ]


def gaps(files: Sequence[LogFile]) -> list[tuple[int, int]]:
    """Return the ranges of CommitLog offsets, as (begin, end), of files missing between others."""
    ends = [(file.base_offset + file.size, later.base_offset) for file, later in pairwise(files)]
    return [(end, begin) for end, begin in ends if end < begin]


def _listing_without_folder(path: Path) -> list[Listed]:
    """List a folder of CommitLog files. Raises SettingsError if it can be none, and is no store."""
    try:
        found = listing(path)
    except (FileNotFoundError, NotADirectoryError):
        raise SettingsError(
            f"{path} does not exist: give a store directory, or see that it is mounted here"
        ) from None
    there = {one.path for one in found}
    if there == {path}:
        raise SettingsError(_no_offset(path))
    is_store = path.name == commitlog_dir(path).name or there & {checkpoint_path(path), lock_path(path)}
    if not is_store and not any(is_offset_name(one.name) for one in there):
        raise SettingsError(
            f"{path} holds no CommitLog: give a store directory, its commitlog folder or one of its files"
        )
    return found


def _check_is_empty(path: Path) -> None:
    """Raise SettingsError for a store that has queues, but no CommitLog: it is elsewhere, or not mounted."""
    try:
        queues = listing(consume_queues_dir(path))
    except (FileNotFoundError, NotADirectoryError):
        return
    if queues:
        raise SettingsError(
            f"{path}: has ConsumeQueues, but no CommitLog: where is its log? Mount it, or give the directory "
            "that the broker's storePathCommitLog names; if it names several, a folder with links to all "
            "their files"
        )


def _no_offset(path: Path) -> str:
    why = "its name is no offset of 20 digits"
    return f"{path}: {why}, rename it to the offset at which it began in its store"


def _file(listed: Listed) -> Listed:
    """Return what has the name of a CommitLog file. Raises NotRegularFile unless it is a file."""
    if not listed.is_file:
        if not isinstance(listed.path, RemotePath):
            regular_stat(listed.path)
        raise not_regular(listed.path, "folder")
    return listed


def _planned(listed: Listed) -> LogFile:
    return LogFile(listed.path, parse_offset_name(listed.path.name), listed.size, listed.size)


def _without_holes(files: list[LogFile]) -> list[LogFile]:
    """Leave out the holes of the last local files: brokers reserve space ahead of the log. Raises OSError.

    The files before them are left to the tasks.
    """
    for number in reversed(range(len(files))):
        file = files[number]
        if isinstance(file.path, RemotePath):
            break
        files[number] = file._replace(written=min(written_end(file.path), file.size))
        if files[number].written:
            break
    return files
