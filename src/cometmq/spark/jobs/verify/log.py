"""Find the end of a log and the damage in it, from the results of many tasks.

A task scans its piece and returns runs of records, *segments*, with the store times of their first and last
ones. The rules of ``store.recovery.log_scan`` and ``store.verify.log`` need no more: bytes between two
segments are damage if the record behind them was stored no earlier than the one before, and is vouched for;
otherwise the log continues in the next file, if that begins with such a record, or ends there.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from cometmq.kernels.arrays import Flags, Longs
from cometmq.spark.jobs.piece_scan import Blank, PieceSeen, Segment
from cometmq.store.verify.log import TO_MISSING_FILE


class LostStretch(NamedTuple):
    """A damaged range of the log.

    Attributes:
        reason: why; empty if its bytes have to be read to find out.
    """

    begin: int
    end: int
    reason: str = ""


class Kept(NamedTuple):
    """The ranges of a log that hold its records: the CommitLog offsets of their begins and ends, in order."""

    begins: list[int]
    ends: list[int]

    def holds(self, offsets: Longs) -> Flags:
        """Check for each CommitLog offset, ``int64[n]``, whether it is in a range; returns ``bool[n]``."""
        if not self.begins:
            return np.zeros(len(offsets), np.bool_)
        place = np.searchsorted(np.array(self.begins, np.int64), offsets, side="right") - 1
        held: Flags = (place >= 0) & (offsets < np.array(self.ends, np.int64)[np.maximum(place, 0)])
        return held


class LogSeen(NamedTuple):
    """The extent of a log: see ``store.verify.log.LogExtent``.

    Attributes:
        kept: the ranges of its records.
        last_time: store time of the last one, ms.
        lost: the damage.
        blanks: those with a wrong length.
        data_behind: number of bytes up to the last that is not 0 behind the end, summed over files.
    """

    begin_offset: int
    end_offset: int
    damaged: list[tuple[int, int]]
    kept: Kept
    messages: int
    last_time: int
    lost: list[LostStretch]
    blanks: list[Blank]
    data_behind: int


class _Walked(NamedTuple):
    """The result for a part of the log without a missing file."""

    kept: list[Segment]
    lost: list[LostStretch]
    end: int


def join_pieces(
    pieces: Iterable[PieceSeen], starts: Sequence[int], file_size: int, vouched_time: int
) -> LogSeen:
    """Combine the results for all pieces of a log.

    Args:
        pieces: of all files.
        starts: CommitLog offsets at which the files begin, in order.
        vouched_time: store time, ms, up to which the log is known to have been on the disk.
    """
    ordered = sorted(pieces, key=lambda piece: piece.begin)
    segments = [segment for piece in ordered for segment in piece.segments]
    blanks = [piece.blank for piece in ordered if piece.blank is not None]
    stretches = list(_without_gaps(starts, file_size))
    walked = [
        _walk(
            segments,
            [blank for blank in blanks if begin <= blank.offset < end],
            range(begin, end, file_size),
            vouched_time,
        )
        for begin, end in stretches
    ]
    lost = []
    for number, ((_, end), one) in enumerate(zip(stretches, walked, strict=True), 1):
        lost += one.lost
        if number < len(walked) and one.end < end:
            lost.append(LostStretch(one.end, end, TO_MISSING_FILE))
    kept = [segment for one in walked for segment in one.kept]
    begin, end = (starts[0], walked[-1].end) if walked else (0, 0)
    return LogSeen(
        begin_offset=begin,
        end_offset=end,
        damaged=[(one.begin, one.end) for one in lost],
        kept=_kept(kept),
        messages=sum(segment.messages for segment in kept),
        last_time=max((segment.last_time for segment in kept), default=0),
        lost=lost,
        blanks=_wrong(blanks, {segment.end for segment in kept}, starts, file_size),
        data_behind=_data_behind(ordered, starts, file_size, end),
    )


def _without_gaps(starts: Sequence[int], file_size: int) -> Iterator[tuple[int, int]]:
    """Return the parts of the log without a missing file, as (begin, end)."""
    breaks = [number for number, (a, b) in enumerate(pairwise(starts), 1) if b != a + file_size]
    for first, last in pairwise([0, *breaks, len(starts)]):
        if first < last:
            yield starts[first], starts[last - 1] + file_size


def _walk(segments: list[Segment], blanks: list[Blank], starts: range, vouched_time: int) -> _Walked:
    """Apply the rules of ``LogScan`` to adjacent files, which begin at ``starts``."""
    begins = [segment.begin for segment in segments]
    closings = {_start(blank.offset, starts): blank.offset for blank in blanks}
    kept: list[Segment] = []
    lost: list[LostStretch] = []
    at, last_time = starts.start, 0

    def is_alive(segment: Segment) -> bool:
        return last_time <= segment.first_time <= vouched_time

    for start in starts:
        behind = start + starts.step
        closed = closings.get(start, behind)
        for segment in segments[bisect_left(begins, at) : bisect_left(begins, closed)]:
            if segment.begin > at:
                if not is_alive(segment):
                    break
                lost.append(LostStretch(at, segment.begin))
            kept.append(segment)
            at, last_time = segment.end, segment.last_time
        if at in (closed, behind):
            at = behind
            continue
        place = bisect_left(begins, behind)
        goes_on = behind < starts.stop and place < len(segments) and begins[place] == behind
        if not (goes_on and is_alive(segments[place])):
            return _Walked(kept, lost, at)
        lost.append(LostStretch(at, behind))
        at = behind
    return _Walked(kept, lost, at)


def _kept(segments: list[Segment]) -> Kept:
    """Merge adjacent segments to ranges."""
    breaks = [number for number, (a, b) in enumerate(pairwise(segments), 1) if a.end != b.begin]
    runs = [(first, last) for first, last in pairwise([0, *breaks, len(segments)]) if first < last]
    return Kept([segments[first].begin for first, _ in runs], [segments[last - 1].end for _, last in runs])


def _wrong(blanks: list[Blank], ends: set[int], starts: Sequence[int], file_size: int) -> list[Blank]:
    """Return the blanks behind a record of the log that do not end at the end of their file."""
    lefts = {blank: _start(blank.offset, starts) + file_size - blank.offset for blank in blanks}
    return [blank for blank, left in lefts.items() if blank.offset in ends and blank.size != left]


def _start(offset: int, starts: Sequence[int]) -> int:
    """Return the base offset of the file that holds an offset."""
    return starts[bisect_right(starts, offset) - 1]


def _data_behind(pieces: list[PieceSeen], starts: Sequence[int], file_size: int, end: int) -> int:
    """Return the number of bytes up to the last that is not 0 behind the log's end, summed over files."""
    behind = 0
    used = [piece for piece in pieces if piece.data_end > max(piece.begin, end)]
    for start in (start for start in starts if start + file_size > end):
        ends = [piece.data_end for piece in used if start <= piece.begin < start + file_size]
        behind += max(ends, default=max(start, end)) - max(start, end)
    return behind
