"""Which popped messages come back: the decision over one queue of the revive topic.

The queue holds check points and acknowledgements. Both wait in the timer before they come here: a check point
until a second before the messages become visible again, an acknowledgement until they do. What is left
unacknowledged comes back once the check point is *complete*: its time is over, and no acknowledgement that
was answered in time can still be in the timer. The timer knows: it has delivered everything that was stored,
and due, up to some time, and the queue is read to the end that it had then.

Due times of neighbours decide nothing: acknowledgements that a killed broker had not yet put into the timer
come behind everything that was due while it was down. (RocketMQ completes a check point when a record is due
two to three seconds later, and delivers its messages again then.)

A long queue does not fit into memory. So while ``OPEN_MAX`` check points are open, later ones are skipped,
and only acknowledgements are read up to the end; then reading starts again at the first one skipped. From
then on due times do decide up to that end, for the acknowledgements behind their times are known::

    read     ck ck ack ck │ck ck ack … late ack │      the first OPEN_MAX; what is late is kept
    again                  ck ck ack … late ack │      complete ``MARGIN_MS`` later, by the due times

An acknowledgement may come before its check point, too: of two that the timer gets late, one may find a slot
that still waits for its time, the other not. It is kept until that time is complete.

The offset to commit is that of the last record before the first check point that is not finished, and the
first early acknowledgement that is kept, or that such a check point needs; a broker that starts reads on
behind it. So after a kill check points may be decided twice, but none is forgotten.

Pure: no clock, no store; times are arguments. (RocketMQ: PopReviveService.java.)
"""

import heapq
from typing import Final, NamedTuple

from cometmq.format.pop.check_point import CheckPoint, PopAck, PopKey

MARGIN_MS: Final = 2_000
"""Two slots of the timer, whose messages are delivered one after the other."""
OPEN_MAX: Final = 20_000
"""Most check points of a queue that are kept in memory: see ``ReviveQueue``."""
RE_PUT_SECONDS: Final = (10, 20, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
"""How long messages that could not be read stay hidden, by how often that happened; the last one repeats."""


class OpenCheckPoint:
    """A check point that is not finished.

    Attributes:
        revive_offset: its offset in the revive queue.
        left: the queue offsets of its messages that are not acknowledged.
    """

    __slots__ = ("left", "point", "revive_offset")

    def __init__(self, point: CheckPoint, revive_offset: int) -> None:
        self.point = point
        self.revive_offset = revive_offset
        self.left = set(point.offsets)


class _EarlyAck(NamedTuple):
    """The acknowledgements of a check point that was not read yet, if it comes at all."""

    offsets: set[int]
    revive_offset: int
    due_ms: int


class ReviveQueue:
    """The check points of one revive queue between the offset that is committed and the one read next.

    Args:
        next_offset: where to read first.
        open_max: most check points that are kept.

    Attributes:
        next_offset: the offset of the record to be read next; it moves back where check points were skipped.
    """

    def __init__(self, next_offset: int, open_max: int = OPEN_MAX) -> None:
        self.next_offset = next_offset
        self._open_max = open_max
        self._open: dict[PopKey, OpenCheckPoint] = {}  # in the order of their revive offsets
        self._by_time: list[tuple[int, int, PopKey]] = []  # heap: revive time, revive offset
        self._taken: dict[int, OpenCheckPoint] = {}  # by revive offset
        self._complete_ms = 0
        self._promised = 0, 0  # the end of the queue, and the time that is complete once it is read up to it
        self._skipped: int | None = None  # the offset of the first check point that was skipped
        self._known_end = 0  # all acknowledgements before it that are late are in ``_early``
        self._early: dict[PopKey, _EarlyAck] = {}
        self._needed: dict[int, int] = {}  # a check point's offset → that of its early acknowledgement
        self._passed_ms = 0  # the latest due time of the records that came from the timer

    def __len__(self) -> int:
        """Count the check points in memory that are not finished."""
        return len(self._open) + len(self._taken)

    def add(self, point: CheckPoint, revive_offset: int) -> None:
        """Add a check point; to one that is open already, only the messages that it does not name.

        It comes twice after a crash. Or a pop of the same millisecond, after a start or a step of the clock,
        began at the same offset.
        """
        if self._skipped is not None:
            return
        if (known := self._open.get(point.key)) is not None:
            self._join(known, point)
            return
        if len(self) >= self._open_max:
            self._skipped = revive_offset
            return
        found = OpenCheckPoint(point, revive_offset)
        early = self._early.pop(point.key, None)
        if early is not None:
            found.left -= early.offsets
        if found.left:
            self._open[point.key] = found
            if early is not None:
                self._needed[revive_offset] = early.revive_offset
            heapq.heappush(self._by_time, (point.revive_time_ms, revive_offset, point.key))

    def _join(self, known: OpenCheckPoint, point: CheckPoint) -> None:
        """Add the messages of a check point with the same key; all come back at the later of both times."""
        known.left |= set(point.offsets) - set(known.point.offsets)
        named = dict.fromkeys((*known.point.distances, *point.distances))
        invisible_ms = max(known.point.invisible_ms, point.invisible_ms)
        known.point = known.point._replace(distances=tuple(named), invisible_ms=invisible_ms)
        entry = known.point.revive_time_ms, known.revive_offset, point.key
        heapq.heappush(self._by_time, entry)

    def acknowledge(self, ack: PopAck, revive_offset: int, timer_due_ms: int | None) -> None:
        """Mark messages as acknowledged; one that came in time is kept until its check point is read.

        Args:
            timer_due_ms: see ``mark_read``.
        """
        found = self._open.get(ack.key)
        if found is not None:
            found.left.difference_update(ack.offsets)
            if not found.left:
                del self._open[ack.key]
                self._needed.pop(found.revive_offset, None)
        elif timer_due_ms is not None and self._is_kept(timer_due_ms):
            early = self._early.setdefault(ack.key, _EarlyAck(set(), revive_offset, timer_due_ms))
            early.offsets.update(ack.offsets)

    def _is_kept(self, timer_due_ms: int) -> bool:
        """Check whether to keep an early acknowledgement: while check points are skipped only a late one."""
        is_late = timer_due_ms <= self._passed_ms - MARGIN_MS
        return (self._skipped is None or is_late) and len(self._early) < self._open_max

    def mark_read(self, revive_offset: int, timer_due_ms: int | None) -> None:
        """Move behind a record.

        Args:
            timer_due_ms: when it was due in the timer, ms since the epoch; None if it was stored directly.
        """
        self.next_offset = revive_offset + 1
        if timer_due_ms is not None:
            self._passed_ms = max(self._passed_ms, timer_due_ms)

    def mark_delivered(self, delivered_ms: int, end: int) -> None:
        """Complete what the timer completes, and begin again with what was skipped.

        Args:
            delivered_ms: up to which time the timer has delivered everything, ms since the epoch.
            end: the end of the queue, not before that.
        """
        if self.next_offset >= end:
            self._promised = end, delivered_ms
        promised_end, promised_ms = self._promised
        if self.next_offset < promised_end:
            return
        self._complete_ms = promised_ms
        self._promised = end, delivered_ms
        if self._skipped is None:
            self._forget_early()
        elif len(self) < self._open_max:
            self._known_end = self.next_offset if len(self._early) < self._open_max else 0
            self.next_offset, self._skipped = self._skipped, None
            self._complete_ms, self._passed_ms = 0, 0

    def _forget_early(self) -> None:
        """Forget acknowledgements that are early no more: their check points are finished, or never come."""
        early = self._early.items()
        self._early = {key: one for key, one in early if one.due_ms > self._complete_ms}

    def _complete_until_ms(self) -> int:
        """Return the revive time up to which check points are complete, ms since the epoch."""
        if self.next_offset <= self._known_end:
            return max(self._complete_ms, self._passed_ms - MARGIN_MS)
        return self._complete_ms

    def take(self, now_ms: int, count: int) -> list[OpenCheckPoint]:
        """Remove and return up to ``count`` complete check points in the order of their revive times.

        ``finish`` or ``put_back`` must follow for each.
        """
        taken: list[OpenCheckPoint] = []
        until_ms = min(self._complete_until_ms(), now_ms)
        while len(taken) < count and (due_ms := self.next_ms()) is not None and due_ms <= until_ms:
            found = self._open.pop(heapq.heappop(self._by_time)[-1])
            self._taken[found.revive_offset] = found
            taken.append(found)
        return taken

    def finish(self, check_point: OpenCheckPoint) -> None:
        """Finish a check point that was taken: its messages are stored again, or gone."""
        del self._taken[check_point.revive_offset]
        self._needed.pop(check_point.revive_offset, None)

    def put_back(self, check_point: OpenCheckPoint) -> None:
        """Return a check point that was taken and could not be finished."""
        del self._taken[check_point.revive_offset]
        key = check_point.point.key
        by_offset = sorted([*self._open.values(), check_point], key=lambda one: one.revive_offset)
        self._open = {one.point.key: one for one in by_offset}
        entry = check_point.point.revive_time_ms, check_point.revive_offset, key
        heapq.heappush(self._by_time, entry)

    def next_ms(self) -> int | None:
        """Return the first revive time of the open check points, ms since the epoch; None without any."""
        while self._by_time:
            time_ms, revive_offset, key = self._by_time[0]
            found = self._open.get(key)
            if found is not None and (found.point.revive_time_ms, found.revive_offset) == (
                time_ms,
                revive_offset,
            ):
                return time_ms
            heapq.heappop(self._by_time)  # its messages were acknowledged, or come back later
        return None

    def wake_ms(self) -> int | None:
        """Return the first time that something in memory waits for, ms since the epoch; None without any."""
        if self._skipped is None:
            times = [early.due_ms for early in self._early.values()]
        else:
            times = [0] if len(self) < self._open_max else []
        if (next_ms := self.next_ms()) is not None:
            times.append(next_ms)
        return min(times, default=None)

    def is_done_until(self, time_ms: int) -> bool:
        """Check whether all check points up to a revive time are finished, and no more of them can come."""
        next_ms = self.next_ms()
        is_read = self._skipped is None and self._complete_ms >= time_ms
        return is_read and not self._taken and (next_ms is None or next_ms > time_ms)

    @property
    def committed(self) -> int:
        """The offset of the last record before the first one that is not done with."""
        offsets = [self.next_offset, *self._taken, *self._needed.values()]
        offsets += [early.revive_offset for early in self._early.values()]
        if self._skipped is not None:
            offsets.append(self._skipped)
        first = next(iter(self._open.values()), None)
        if first is not None:
            offsets.append(first.revive_offset)
        return min(offsets) - 1


def put_again(point: CheckPoint, offset: int, now_ms: int) -> CheckPoint:
    """Return the check point of one message of ``point`` that could not be read: it is tried again later."""
    hidden_ms = RE_PUT_SECONDS[min(point.re_put_times, len(RE_PUT_SECONDS) - 1)] * 1000
    invisible_ms = point.invisible_ms
    if point.revive_time_ms <= now_ms:
        invisible_ms = max(invisible_ms, now_ms - point.pop_time_ms) + hidden_ms
    return point._replace(
        begin_offset=offset,
        distances=(0,),
        invisible_ms=invisible_ms,
        re_put_times=point.re_put_times + 1,
    )
