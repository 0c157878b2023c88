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
from cometmq.spark.remote import Bytes
from cometmq.spark.splits import Piece

BYTES_MAX: Final = 4 * 1024 * 1024
"""Of one scan, unless a single record is larger; at most 46,091 records. More would not stay in caches."""


class Damage(NamedTuple):
    """Bytes of a file that are no record, and have records after them."""

    piece: Piece
    start: int
    end: int

    def __str__(self) -> str:
        file, offset = self.piece.file, self.piece.file.base_offset + self.start
        up_to = "the next record" if self.end < file.end else "the end"
        lost = f"{self.end - self.start} bytes up to {up_to} are damaged"
        return f"{file.path}: at position {self.start} (physical offset {offset}) {lost}"


def scans(
    found: Bytes,
    piece: Piece,
    ops: Ops,
    *,
    on_damage: Callable[[Damage], None],
    bytes_max: int = BYTES_MAX,
    crc: Crc = Crc.BODY,
) -> Iterator[Scan]:
    """Scan the records that begin in ``piece`` of the file whose bytes are ``found``, some at a time.

    Each scan has one record or more, that take at most ``bytes_max`` bytes unless it is a single one.
    ``on_damage`` is told of damage that begins in the piece; it may raise. ``crc`` says which checksum is
    compared.
    """
    data, base_offset, file_end = found.data, piece.file.base_offset, piece.file.end
    position = 0 if piece.start == 0 else _next_record(found, piece, piece.start, piece.end, crc)
    while position is not None and position < piece.end:
        window_end = min(position + bytes_max, piece.end)
        found.need(position, window_end)
        scan = ops.scan(data, base_offset=base_offset, start=position, end=window_end, crc=crc)
        if scan.count == 0:  # the record is larger than the window, or crosses the piece's end
            _need_record(found, piece, position)
            scan = ops.scan(
                data, base_offset=base_offset, start=position, end=file_end, max_records=1, crc=crc
            )
        if scan.count:
            yield scan
            position = scan.stop_position
        else:
            position = _after_damage(found, piece, position, on_damage, crc)


def _after_damage(
    found: Bytes, piece: Piece, position: int, on_damage: Callable[[Damage], None], crc: Crc
) -> int | None:
    """Give the next record of the piece after the bad bytes at ``position``, having told of the damage."""
    file = piece.file
    following = _next_record(found, piece, position + 1, file.end, crc)
    if following is not None or piece.more_follows:
        on_damage(Damage(piece, position, file.end if following is None else following))
    return following


def _next_record(found: Bytes, piece: Piece, start: int, limit: int, crc: Crc) -> int | None:
    """Give the position of the first whole record that begins at ``start`` or later, and before ``limit``."""
    data, base_offset, file_end = found.data, piece.file.base_offset, piece.file.end
    while start < limit:
        step_end = min(start + BYTES_MAX, limit)
        search_end = min(step_end + HEAD_MAX_SIZE, file_end)
        found.need(start, search_end)
        position = find_next_record(data, start, base_offset=base_offset, end=search_end, crc=crc)
        if position is None or position >= step_end:
            start = step_end
            continue
        _need_record(found, piece, position)
        if isinstance(check(data, position, file_end, base_offset=base_offset, crc=crc), RecordHead):
            return position
        start = position + 1
    return None


def _need_record(found: Bytes, piece: Piece, position: int) -> None:
    """See that all of a record can be looked at, if one begins there."""
    data, head_end = found.data, min(position + HEAD_MAX_SIZE, piece.file.end)
    found.need(position, head_end)
    seen = check(data, position, head_end, base_offset=piece.file.base_offset, crc=Crc.NONE)
    if isinstance(seen, Stop) and seen.reason is StopReason.LIMIT:
        size = int.from_bytes(data[position : position + MAGIC_AT], "big")
        found.need(position, min(position + size, piece.file.end))
