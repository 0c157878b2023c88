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
from cometmq.spark.files.remote import RemoteBytes
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


def scans(
    found: RemoteBytes,
    piece: FilePiece,
    ops: Ops,
    *,
    on_damage: Callable[[DamagedPart], None],
    bytes_max: int = BYTES_MAX,
    crc: Crc = Crc.BODY,
) -> Iterator[Scan]:
    """Scan the records that begin in a piece of a file, some at a time.

    Args:
        found: the file's bytes.
        on_damage: called for damage that begins in the piece; it may raise.
        bytes_max: of the records of one scan, unless it has one record only; a scan has at least one.
        crc: the checksum to compare.
    """
    walk = PieceWalk(found, piece, crc)
    position = 0 if piece.start == 0 else walk.next_record(piece.start, piece.end)
    while position is not None and position < piece.end:
        window_end = walk.log.need(position, min(position + bytes_max, piece.end))
        if window_end <= position:  # behind the last record
            return
        scan = ops.scan(found.data, base_offset=walk.base_offset, start=position, end=window_end, crc=crc)
        if scan.count == 0:  # the record is larger than the window, or crosses the piece's end
            end = walk.need_record(position)
            scan = ops.scan(
                found.data, base_offset=walk.base_offset, start=position, end=end, max_records=1, crc=crc
            )
        if scan.count:
            yield scan
            position = scan.stop_position
        else:
            position = walk.after_damage(position, on_damage)


class PieceWalk:
    """Searches the file of a piece for records.

    Attributes:
        base_offset: CommitLog offset of the file's first byte.
        log: the end of the file's records.
    """

    def __init__(self, found: RemoteBytes, piece: FilePiece, crc: Crc) -> None:
        self.base_offset = piece.file.base_offset
        self.log = LogEnd(found, piece.file)
        self._data = found.data
        self._piece = piece
        self._crc = crc

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
            search_end = self.log.need(start, step_end + HEAD_MAX_SIZE)
            if search_end <= start:  # behind the last record
                return None
            position = find_next_record(
                self._data, start, base_offset=self.base_offset, end=search_end, crc=self._crc
            )
            if position is None or position >= step_end:
                start = step_end
            elif self._is_record(position):
                return position
            else:
                start = position + 1
        return None

    def need_record(self, position: int) -> int:
        """Fetch the whole record that may begin at ``position``; return the end of what was fetched."""
        end = self.log.need(position, position + HEAD_MAX_SIZE)
        seen = check(self._data, position, end, base_offset=self.base_offset, crc=Crc.NONE)
        if isinstance(seen, Stop) and seen.reason is StopReason.LIMIT:
            size = int.from_bytes(self._data[position : position + MAGIC_AT], "big")
            return self.log.need(position, position + size)
        return end

    def _is_record(self, position: int) -> bool:
        end = self.need_record(position)
        seen = check(self._data, position, end, base_offset=self.base_offset, crc=self._crc)
        return isinstance(seen, RecordHead)
