"""Whether a task's part of a file lies outside of the times that are asked for, as its ends tell.

A log is in the order of store times, but where a clock was set back. So a part is passed over if the records
at both its ends were stored a minute or more before the first time that is asked for, or after the last one.
That costs two small reads and saves all others.
"""

from typing import Final

from cometmq.format.scan import find_next_record
from cometmq.kernels.ops import Longs, Ops
from cometmq.message import Buffer
from cometmq.spark.files.log_end import LogEnd
from cometmq.spark.files.record_choice import RecordChoice
from cometmq.spark.files.remote import RemoteBytes
from cometmq.spark.files.splits import FilePiece
from cometmq.spark.values import CLOCK_SLACK_MS

PROBE_BYTES: Final = 256 * 1024
"""Looked at, at each end of a part: an object store takes as long for a kilobyte."""
PROBES_MIN: Final = 8
"""Parts of fewer bytes than so many probes are read without a look at their ends."""


def lies_outside(found: RemoteBytes, piece: FilePiece, ops: Ops, choice: RecordChoice) -> bool:
    """Return whether no record of a piece can have been stored in the times that are asked for."""
    is_small = piece.end - piece.start < PROBES_MIN * PROBE_BYTES
    if is_small or (choice.begin_time is None and choice.end_time is None):
        return False
    sides = _sides(found, piece, ops, choice, piece.start)
    if not sides:
        return False
    end = LogEnd(found, piece.file).bound(piece.end)
    return bool(sides & _sides(found, piece, ops, choice, max(end - PROBE_BYTES, piece.start)))


def _sides(found: RemoteBytes, piece: FilePiece, ops: Ops, choice: RecordChoice, position: int) -> set[str]:
    """Return on which side of the times asked for all records are that begin behind a position."""
    times = _times(found.peek(position, position + PROBE_BYTES), piece.file.base_offset + position, ops)
    if not len(times):
        return set()
    is_before = choice.begin_time is not None and times.max() < choice.begin_time - CLOCK_SLACK_MS
    is_behind = choice.end_time is not None and times.min() >= choice.end_time + CLOCK_SLACK_MS
    return {side for side, is_there in (("before", is_before), ("behind", is_behind)) if is_there}


def _times(data: Buffer, base_offset: int, ops: Ops) -> Longs:
    """Return the store times of the records that lie, one behind the other, in some bytes of a log."""
    position = find_next_record(data, 0, base_offset=base_offset)
    start = len(data) if position is None else position
    return ops.scan(data, base_offset=base_offset, start=start).store_time
