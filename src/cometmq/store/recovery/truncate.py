"""Truncate the CommitLog of a closed store, and set aside what is cut off.

A broker that was master may hold records that no other broker has. When it follows a new master, they must
go, as others are at their offsets there; but producers may have been told that they are stored. So they are
moved to ``setaside/truncated-<offset>-<time>/``, a directory that the tools for a store at rest read: its
CommitLog files have the names and lengths of the originals, and each record is at its own offset.

====  =============================================================  ====================================
Step  What                                                           What a crash after it leaves
====  =============================================================  ====================================
1     copy the cut part of the file that holds the offset, and sync  the log as it was, and a copy
2     lower the checkpoint, mark the store as not closed             the same; all is scanned at the start
3     move the files behind, the last one first                      a shorter log
4     clear the copied part, from its end on                         a shorter log, or the truncated one
====  =============================================================  ====================================

After each step the log is a beginning of what it was, so the caller can truncate it again. The checkpoint
vouches for no record that is cut, and the ``abort`` file names no boot: so recovery takes half cleared bytes
for a torn tail, and never for damage with sound records behind.

All else (queues, index, pointers) follows when the store is opened: recovery cuts what points behind the log.
"""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from cometmq import kernels
from cometmq.errors import StoreError, StoreLocked
from cometmq.format import layout
from cometmq.format.scan import StopReason, check
from cometmq.io.clock import Clock, SystemClock
from cometmq.io.files import Disk, FileLayer
from cometmq.io.open_files import OpenFiles
from cometmq.logs import get_logger
from cometmq.store.files.set_aside import SET_ASIDE
from cometmq.store.log.log_scan import LogScan
from cometmq.store.parts import Parts, make_parts
from cometmq.store.recovery.recover import COPY_BYTES, is_zeros
from cometmq.store.settings import StoreSettings

_REMEDY: Final = "to follow the master from its first record, empty the store's directory"

_log = get_logger(__name__)


class Truncated(NamedTuple):
    """The result of a truncation.

    Attributes:
        offset: the new end of the log.
        cut_bytes: from there to the log's last byte that is not zero.
        folder: the store directory that holds what was cut off.
    """

    offset: int
    cut_bytes: int
    folder: Path


def truncate_log(
    root: Path,
    settings: StoreSettings,
    offset: int,
    *,
    files: FileLayer | None = None,
    clock: Clock | None = None,
) -> Truncated | None:
    """Truncate the CommitLog of the store under ``root`` at ``offset``; return None if it ends before.

    Raises:
        StoreLocked: a process has the store open.
        StoreError: no record ends at ``offset``, or the log begins behind it; nothing is changed then.
        StoreDamaged: a file of the log cannot be used.
        OSError: the disk refuses. The log then ends somewhere between ``offset`` and its old end.
    """
    layer = files or Disk()
    token = layer.lock(layout.lock_path(root)) if layer.is_directory(root) else None
    if token is None:
        raise StoreLocked(f"{root} is open in another process, or no directory: close the store before")
    opened = OpenFiles(layer, writable=True)
    try:
        parts = make_parts(root, opened, settings)
        parts.log.chain.load()
        truncation = _Truncation(parts, offset)
        end = truncation.data_end()
        if end <= offset:
            return None
        folder = _free_folder(layer, root, offset, (clock or SystemClock()).now_ms())
        truncation.run(folder)
    finally:
        opened.close()
        layer.unlock(token)
    _log.warning(
        "%s: the log is truncated at %d; the %d bytes behind are now in %s, where `cometmq store find` and "
        "`cometmq store inspect` read them",
        root,
        offset,
        end - offset,
        folder,
    )
    return Truncated(offset, end - offset, folder)


class _Truncation:
    """The truncation of one log."""

    def __init__(self, parts: Parts, offset: int) -> None:
        self._parts = parts
        self._layer = parts.files.layer
        self._chain = parts.log.chain
        self._offset = offset

    def data_end(self) -> int:
        """Return the offset behind the last byte that is not zero; at least the offset of the truncation."""
        for start in reversed(self._chain.starts):
            for at, data in self._pieces(start, backwards=True):
                return start + at + len(data.rstrip(b"\0"))
        return self._offset

    def run(self, folder: Path) -> None:
        """Move what is behind the offset to ``folder``. Raises StoreError, OSError."""
        chain, offset = self._chain, self._offset
        if offset < chain.first_offset:
            raise StoreError(
                f"{chain.directory}: cannot be truncated at {offset}, as it begins at {chain.first_offset}; "
                + _REMEDY
            )
        last_time = self._check_boundary()
        moved = [start for start in chain.starts if start >= offset and start != chain.first_offset]
        cut = [start for start in chain.starts if start not in moved and start + chain.file_size > offset]
        self._layer.make_directory(layout.commitlog_dir(folder))
        for start in cut:
            self._copy(start, layout.commitlog_path(folder, start))
        self._mark(last_time)
        for start in reversed(moved):
            self._move(start, layout.commitlog_path(folder, start))
        for start in cut:
            self._clear(start)

    def _check_boundary(self) -> int:
        """Check that a record ends at the offset; return its store time, ms, 0 at the beginning of the log.

        Raises StoreError.
        """
        chain, offset = self._chain, self._offset
        if offset == chain.first_offset:
            return 0
        begin = chain.start_of(offset - 1)
        assert begin is not None, f"{offset} is behind the last file"
        kernels.load_for(offset - begin)
        scan = LogScan(self._parts.log, begin, offset, verify_crc=False)
        for _ in scan:
            self._parts.files.drop_pages()
        if scan.end_offset != offset and not self._begins_record():
            raise StoreError(
                f"{chain.path(begin)}: no record ends at {offset}, but one at {scan.end_offset}: the logs of "
                f"this broker and its master do not belong together; {_REMEDY}"
            )
        return scan.last_time

    def _begins_record(self) -> bool:
        """Return whether a record begins at the offset, though what is before it is damaged."""
        start = self._chain.start_of(self._offset)
        if start is None:
            return False
        view = self._chain.file(start).view()
        found = check(view, self._offset - start, len(view), base_offset=start, crc=self._parts.log.crc)
        return getattr(found, "reason", None) in (None, StopReason.BLANK)

    def _mark(self, last_time: int) -> None:
        """Record that the log beyond the last kept record, of this store time, is not to be trusted."""
        self._parts.ledger.load()
        self._parts.ledger.forget_behind(self._offset)
        self._parts.checkpoint.load()
        self._parts.checkpoint.create_if_missing()
        self._parts.checkpoint.lower(max(last_time - 1, 0))
        self._layer.save(layout.abort_path(self._parts.root), f"{os.getpid()}\n".encode())

    def _copy(self, start: int, target: Path) -> None:
        copy = self._layer.create(target, self._chain.file_size)
        try:
            for at, data in self._pieces(start):
                copy.write(at, data)
            copy.sync()
        finally:
            copy.close()

    def _move(self, start: int, target: Path) -> None:
        path = self._chain.path(start)
        self._parts.files.forget(path)
        try:
            self._layer.rename(path, target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            self._copy(start, target)  # a log outside of the store may be on another file system
            self._parts.files.forget(path)
            self._layer.remove(path)
        self._layer.sync(path.parent)
        self._chain.starts.remove(start)

    def _clear(self, start: int) -> None:
        """Overwrite what is behind the offset with zeros, from the end on, each piece durably."""
        file = self._chain.file(start)
        for at, data in self._pieces(start, backwards=True):
            file.write(at, bytes(len(data)))
            file.sync()

    def _pieces(self, start: int, *, backwards: bool = False) -> Iterator[tuple[int, bytes]]:
        """Iterate over position and bytes of a file's data behind the offset, without stretches of zeros."""
        position = max(self._offset - start, 0)
        if position >= self._chain.file_size:
            return
        file = self._chain.file(start)
        places = range(position, file.data_end(position), COPY_BYTES)
        for at in reversed(places) if backwards else places:
            data = file.read(at, min(COPY_BYTES, places.stop - at))
            if not is_zeros(data):
                yield at, data


def _free_folder(layer: FileLayer, root: Path, offset: int, time_ms: int) -> Path:
    while layer.exists(folder := layout.truncated_dir(root / SET_ASIDE, offset, time_ms)):
        time_ms += 1
    return folder
