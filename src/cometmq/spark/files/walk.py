"""The true records that begin in a piece of a CommitLog file, found without what lies before it.

Theory of operation. From a good record the next position is where it ends; from anything else it is the
next true record, found by its magic and its own physical offset. Both depend on the position alone, not
on how the reader came there. So whoever starts at the first true record from a piece's start on meets
the records that a reader of the whole file meets there; and as each piece leaves out what begins behind
its end, every record is read once, however a file is cut.

Whatever is no record and has true records after it, in this file or a later one, is damage. What is no
record and has none after it is the end of the log: a broker that was killed leaves a torn record there.
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
"""Of one scan, unless a single record is larger; at most 46,091 records. More would not stay in caches."""


class DamagedPart(NamedTuple):
    """Bytes of a file that are no record, and have records after them.

    Attributes:
        is_last: whether no record follows in this file, but some in a later one.
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
    """Scan the records that begin in ``piece`` of the file whose bytes are ``found``, some at a time.

    Each scan has one record or more, that take at most ``bytes_max`` bytes unless it is a single one.
    ``on_damage`` is told of damage that begins in the piece; it may raise. ``crc`` says which checksum is
    compared.
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
    """What there is at and after a position of the file that a piece is of.

    Attributes:
        base_offset: CommitLog offset of the file's first byte.
        log: where the records of the file end.
    """

    def __init__(self, found: RemoteBytes, piece: FilePiece, crc: Crc) -> None:
        self.base_offset = piece.file.base_offset
        self.log = LogEnd(found, piece.file)
        self._data = found.data
        self._piece = piece
        self._crc = crc

    def after_damage(self, position: int, on_damage: Callable[[DamagedPart], None]) -> int | None:
        """Return the next record after the bad bytes at ``position``, having told of the damage."""
        following = self.next_record(position + 1, self._piece.file.size)
        if following is not None or self._piece.more_follows:
            end = self.log.position if following is None else following
            on_damage(DamagedPart(self._piece, position, end, is_last=following is None))
        return following

    def next_record(self, start: int, limit: int) -> int | None:
        """Return where the first whole record begins, from ``start`` on and before ``limit``."""
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
        """See that all of a record can be looked at, if one begins there; return up to where."""
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
