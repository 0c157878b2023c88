"""Skip pieces of a file that lie outside a range of store times, by the records at their ends.

A log is in the order of store times, except where a clock was set back. So a piece is skipped if the records
at both its ends were stored a minute or more before the range, or after it. That costs two small reads.
"""

from typing import Final

from cometmq.format.scan import find_next_record
from cometmq.kernels.ops import Longs, Ops
from cometmq.message import Buffer
from cometmq.spark.files.log_end import LogEnd
from cometmq.spark.files.record_choice import RecordChoice
from cometmq.spark.files.remote import FileBytes
from cometmq.spark.files.splits import FilePiece
from cometmq.spark.values import CLOCK_SLACK_MS

PROBE_BYTES: Final = 256 * 1024
"""Bytes read at each end of a piece: an object store takes as long for a kilobyte."""
PROBES_MIN: Final = 8
"""Pieces smaller than so many probes are not probed."""


def lies_outside(found: FileBytes, piece: FilePiece, ops: Ops, choice: RecordChoice) -> bool:
    """Check whether no record of a piece can have been stored in the range of times."""
    is_small = piece.end - piece.start < PROBES_MIN * PROBE_BYTES
    if is_small or (choice.begin_time is None and choice.end_time is None):
        return False
    sides = _sides(found, piece, ops, choice, piece.start)
    if not sides:
        return False
    end = LogEnd(found, piece.file).bound(piece.end)
    return bool(sides & _sides(found, piece, ops, choice, max(end - PROBE_BYTES, piece.start)))


def _sides(found: FileBytes, piece: FilePiece, ops: Ops, choice: RecordChoice, position: int) -> set[str]:
    """Return the sides of the range of times on which all records probed at a position lie."""
    times = _times(found.peek(position, position + PROBE_BYTES), piece.file.base_offset + position, ops)
    if not len(times):
        return set()
    is_before = choice.begin_time is not None and times.max() < choice.begin_time - CLOCK_SLACK_MS
    is_behind = choice.end_time is not None and times.min() >= choice.end_time + CLOCK_SLACK_MS
    return {side for side, is_there in (("before", is_before), ("behind", is_behind)) if is_there}


def _times(data: Buffer, base_offset: int, ops: Ops) -> Longs:
    """Return the store times of the records in some bytes of a log, ms, ``int64[n]``."""
    position = find_next_record(data, 0, base_offset=base_offset)
    start = len(data) if position is None else position
    return ops.scan(data, base_offset=base_offset, start=start).store_time
