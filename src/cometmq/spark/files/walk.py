"""Find the records that begin in a piece of a CommitLog file, without the bytes before it.

Theory of operation. Behind a good record the next position is its end; behind anything else it is the next
true record, found by its magic and its own physical offset. Both depend on the position alone, not on how the
reader came there. So a reader that starts at the first true record of a piece meets the same records as a
reader of the whole file; and as each piece leaves out what begins behind its end, every record is read once,
however a file is cut.

Bytes that are no record and have true records after them, in this file or a later one, are damage. With none
after them they are the end of the log: a broker that was killed leaves a torn record there.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from cometmq.format.checksum import Crc
from cometmq.format.record import HEAD_MAX_SIZE, MAGIC_AT, RecordHead
from cometmq.format.scan import Stop, StopReason, check, find_next_record
from cometmq.kernels.ops import Ops, Scan
from cometmq.spark.files.log_end import LogEnd
from cometmq.spark.files.remote import FileBytes
from cometmq.spark.files.splits import FilePiece

BYTES_MAX: Final = 4 * 1024 * 1024
"""Of one scan, unless one record is larger; at most 46,091 records. More would not fit the caches."""


class DamagedPart(NamedTuple):
    """A range of bytes of a file that is no record, and has records after it.

    Attributes:
        is_last: whether the next record is in a later file.
    """

    piece: FilePiece
    start: int
    end: int
    is_last: bool

    def __str__(self) -> str:
        file, offset = self.piece.file, self.piece.file.base_offset + self.start
        up_to = "the end" if self.is_last else "the next record"
        lost = f"{self.end - self.start} bytes up to {up_to} are damaged"
        return f"{file.path}: at position {self.start} (physical offset {offset}) {lost}"


class Records(NamedTuple):
    """Adjacent records of a file.

    Attributes:
        data: a part of the file, valid until the next records are read.
        base_offset: CommitLog offset of its first byte.
        scan: the records' fields; positions are in ``data``.
    """

    data: memoryview
    base_offset: int
    scan: Scan

    @property
    def end_offset(self) -> int:
        """CommitLog offset behind the last record."""
        return self.base_offset + self.scan.stop_position


def scans(
    found: FileBytes,
    piece: FilePiece,
    ops: Ops,
    *,
    on_damage: Callable[[DamagedPart], None],
    bytes_max: int = BYTES_MAX,
    crc: Crc = Crc.BODY,
) -> Iterator[Records]:
    """Scan the records that begin in a piece of a file, some at a time.

    Args:
        found: the file's bytes.
        on_damage: called for damage that begins in the piece; it may raise.
        bytes_max: of the records of one scan, unless it has one record only; a scan has at least one.
        crc: the checksum to compare.
    """
    walk = PieceWalk(found, piece, crc)
    position = walk.first_record()
    while position is not None and position < piece.end:
        records = walk.scan(position, ops, bytes_max)
        if records is None:
            return
        if records.scan.count:
            yield records
            position += records.scan.stop_position
        else:
            position = walk.after_damage(position, on_damage)


class PieceWalk:
    """Searches the file of a piece for records.

    Attributes:
        base_offset: CommitLog offset of the file's first byte.
        log: the end of the file's records.
    """

    def __init__(self, found: FileBytes, piece: FilePiece, crc: Crc) -> None:
        self.base_offset = piece.file.base_offset
        self.log = LogEnd(found, piece.file)
        self._piece = piece
        self._crc = crc

    def first_record(self) -> int | None:
        """Return the position at which the records of the piece begin, if there are any."""
        return self.next_record(self._piece.start, self._piece.end) if self._piece.start else 0

    def scan(self, position: int, ops: Ops, bytes_max: int) -> Records | None:
        """Scan records from a position on; none is found if that is damaged. None behind the last record."""
        base, crc = self.base_offset + position, self._crc
        data = self.log.read(position, min(position + bytes_max, self._piece.end))
        if not data:
            return None
        scan = ops.scan(data, base_offset=base, crc=crc)
        if scan.count == 0:  # the record is larger than the window, or crosses the piece's end
            data = self.read_record(position)
            scan = ops.scan(data, base_offset=base, max_records=1, crc=crc)
        return Records(data, base, scan)

    def after_damage(self, position: int, on_damage: Callable[[DamagedPart], None]) -> int | None:
        """Report the damage at ``position``; return the position of the next record in the file, if any."""
        following = self.next_record(position + 1, self._piece.file.size)
        if following is not None or self._piece.more_follows:
            end = self.log.position if following is None else following
            on_damage(DamagedPart(self._piece, position, end, is_last=following is None))
        return following

    def next_record(self, start: int, limit: int) -> int | None:
        """Return the position of the first whole record from ``start`` to before ``limit``."""
        while start < limit:
            step_end = min(start + BYTES_MAX, limit)
            data = self.log.read(start, step_end + HEAD_MAX_SIZE)
            if not data:  # behind the last record
                return None
            found = find_next_record(data, 0, base_offset=self.base_offset + start, crc=self._crc)
            if found is None or start + found >= step_end:
                start = step_end
            elif self._is_record(start + found):
                return start + found
            else:
                start += found + 1
        return None

    def read_record(self, position: int) -> memoryview:
        """Read the whole record that may begin at ``position``, or its head if none does."""
        head = self.log.read(position, position + HEAD_MAX_SIZE)
        seen = check(head, 0, len(head), base_offset=self.base_offset + position, crc=Crc.NONE)
        if isinstance(seen, Stop) and seen.reason is StopReason.LIMIT:
            return self.log.read(position, position + int.from_bytes(head[:MAGIC_AT], "big"))
        return head

    def _is_record(self, position: int) -> bool:
        data = self.read_record(position)
        seen = check(data, 0, len(data), base_offset=self.base_offset + position, crc=self._crc)
        return isinstance(seen, RecordHead)
