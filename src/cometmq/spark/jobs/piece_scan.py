"""Scan a piece of a CommitLog file as recovery scans a log, and note what is needed to join the pieces.

What lies between records may be damage, a torn tail, or remains of an earlier use: only all pieces together
show which (``verify.log.join_pieces``). So a task notes the runs of records in its piece, *segments*, and
reads on behind whatever is no record.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from cometmq import kernels
from cometmq.format.checksum import Crc
from cometmq.format.record import HEAD_MAX_SIZE, MAGIC_AT, MAGIC_BLANK, START_SIZE
from cometmq.format.scan import Stop, StopReason, check
from cometmq.spark.files.remote import FileBytes, opened, path_of
from cometmq.spark.files.splits import FilePiece
from cometmq.spark.files.walk import BYTES_MAX, PieceWalk, Records
from cometmq.store.log.log_scan import Chunk
from cometmq.store.log.torn import cut_torn

STRETCH_BYTES: Final = 32 * 1024 * 1024
"""Bytes of the log in a chunk: the more, the fewer rows; a task has the arrays of one in memory."""


class Segment(NamedTuple):
    """A run of records without a gap, between two CommitLog offsets.

    Attributes:
        first_time: store time of the first one, ms.
        last_time: of the last one, ms.
    """

    begin: int
    end: int
    messages: int
    first_time: int
    last_time: int


class Blank(NamedTuple):
    """A blank that closes a file, at a CommitLog offset behind a record, with the size in its header."""

    offset: int
    size: int


class PieceSeen(NamedTuple):
    """The result of a task for a piece of a CommitLog file.

    Attributes:
        begin: CommitLog offset at which the piece begins.
        end: CommitLog offset at which the piece ends.
        segments: in order; the last one may end behind the piece.
        data_end: CommitLog offset behind the last byte of the piece that is not 0, if that was looked for;
            ``begin`` if there is none.
    """

    begin: int
    end: int
    segments: list[Segment]
    blank: Blank | None
    data_end: int


class PieceScan:
    """Scans one piece. Raises OSError if its file cannot be read.

    Args:
        crc: the checksum that a record must have.
        vouched_time: store time, ms, up to which the log is known to have been on the disk.
    """

    def __init__(self, piece: FilePiece, crc: Crc, vouched_time: int) -> None:
        self._piece = piece
        self._vouched_time = vouched_time
        self._found: FileBytes = opened(piece.file.path, piece.file.size, piece.end)
        self._walk = PieceWalk(self._found, piece, crc)
        self._segments: list[Segment] = []

    def chunks(self) -> Iterator[Chunk]:
        """Yield the records of the piece; each chunk is valid until the next one."""
        piece, ops = self._piece, kernels.loading.ops
        position = self._walk.first_record()
        while position is not None and position < piece.end:
            records = self._walk.scan(position, ops, STRETCH_BYTES)
            if records is None:  # behind the last record
                return
            chunk = self._without_torn(records)
            if chunk.scan.count:
                self._add(chunk)
                yield chunk
            position += chunk.scan.stop_position
            if chunk.scan.count == 0 or chunk.scan.count < records.scan.count:
                if self._blank_at(position) is not None:
                    return
                position = self._walk.next_record(position + 1, piece.end)

    def seen(self, *, with_data_end: bool = False) -> PieceSeen:
        """Return what was found, once all chunks were read."""
        piece, base = self._piece, self._walk.base_offset
        end = self._segments[-1].end - base if self._segments else piece.start
        return PieceSeen(
            begin=base + piece.start,
            end=base + piece.end,
            segments=self._segments,
            blank=self._blank_at(end) if self._segments else None,
            data_end=base + (self._data_end(end) if with_data_end else piece.start),
        )

    def _without_torn(self, records: Records) -> Chunk:
        buffer = np.frombuffer(records.data, np.uint8)
        position = records.base_offset - self._walk.base_offset
        scan = cut_torn(buffer, records.scan, self._vouched_time, position)
        return Chunk(buffer, records.base_offset, scan)

    def _add(self, chunk: Chunk) -> None:
        times, begin, end = chunk.scan.store_time, int(chunk.scan.physical_offset[0]), chunk.end_offset
        last = self._segments[-1] if self._segments else None
        if last is not None and last.end == begin:
            self._segments[-1] = last._replace(
                end=end, messages=last.messages + chunk.scan.count, last_time=int(times[-1])
            )
        else:
            self._segments.append(Segment(begin, end, chunk.scan.count, int(times[0]), int(times[-1])))

    def _blank_at(self, position: int) -> Blank | None:
        """Return the blank at a position, if there is one."""
        if position + START_SIZE > self._piece.file.size:
            return None
        start = bytes(self._found.read(position, position + START_SIZE))
        size, magic = int.from_bytes(start[:MAGIC_AT], "big"), int.from_bytes(start[MAGIC_AT:], "big")
        return Blank(self._walk.base_offset + position, size) if magic == MAGIC_BLANK else None

    def _data_end(self, begin: int) -> int:
        """Return the position behind the last byte of the piece, from ``begin`` on, that is not 0."""
        last = begin
        for first in range(begin, self._piece.end, BYTES_MAX):
            end = min(first + BYTES_MAX, self._piece.end)
            used = np.flatnonzero(np.frombuffer(self._found.read(first, end), np.uint8))
            last = first + int(used[-1]) + 1 if len(used) else last
        return last


def why_not(path: Path, size: int, start: int, position: int, crc: Crc) -> str:
    """Return why no record can be read at a position of a CommitLog file; empty if nothing is there."""
    found = opened(path_of(path), size, position)
    data = found.read(position, position + HEAD_MAX_SIZE)
    head = check(data, 0, len(data), base_offset=start + position, crc=Crc.NONE)
    if isinstance(head, Stop) and head.reason is StopReason.LIMIT:
        data = found.read(position, position + int.from_bytes(data[:MAGIC_AT], "big"))
    stop = check(data, 0, len(data), base_offset=start + position, crc=crc)
    return stop.detail if isinstance(stop, Stop) else ""
