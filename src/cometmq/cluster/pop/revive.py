"""Which popped messages come back: the decision over one queue of the revive topic.

The queue holds check points and acknowledgements. Both wait in the timer before they come here: a check point
until a second before the messages become visible again, an acknowledgement until they do. So a check point
is *complete* once no acknowledgement that was answered in time can still be in the timer:

* a record behind it was due ``MARGIN_MS`` later, for the timer delivers in the order of due times; or
* the queue is read to its end, and the timer had delivered everything due by then.

What is left unacknowledged then comes back. RocketMQ waits two to three seconds instead of the second rule.

The offset to commit is that of the last record before the first check point that is not finished; a broker
that starts reads on behind it. So after a crash messages may come back twice, but none is forgotten.

Pure: no clock, no store; times are arguments. (RocketMQ: PopReviveService.java.)
"""

import heapq
from typing import Final

from cometmq.format.pop.check_point import CheckPoint, PopAck, PopKey

MARGIN_MS: Final = 2_000
"""Two slots of the timer, whose messages are delivered one after the other."""
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


class ReviveQueue:
    """The check points of one revive queue between the offset that is committed and the one read next.

    Args:
        next_offset: where to read first.

    Attributes:
        next_offset: the offset of the record to be read next.
    """

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset
        self._passed_ms = 0  # the latest due time of the records that came from the timer
        self._open: dict[PopKey, OpenCheckPoint] = {}  # in the order of their revive offsets
        self._by_time: list[tuple[int, int, PopKey]] = []  # heap: revive time, revive offset
        self._taken: dict[int, OpenCheckPoint] = {}  # by revive offset

    def __len__(self) -> int:
        """Count the check points that are not finished."""
        return len(self._open) + len(self._taken)

    def add(self, point: CheckPoint, revive_offset: int) -> None:
        """Add a check point; one that is open already, and comes twice after a crash, stays as it is."""
        if point.key not in self._open:
            self._open[point.key] = OpenCheckPoint(point, revive_offset)
            heapq.heappush(self._by_time, (point.revive_time_ms, revive_offset, point.key))

    def acknowledge(self, ack: PopAck) -> None:
        """Mark messages as acknowledged; an acknowledgement of a check point that is finished is ignored."""
        found = self._open.get(ack.key)
        if found is not None:
            found.left.difference_update(ack.offsets)
            if not found.left:
                del self._open[ack.key]

    def mark_read(self, revive_offset: int, timer_due_ms: int | None) -> None:
        """Move behind a record.

        Args:
            timer_due_ms: when it was due in the timer, ms since the epoch; None if it was stored directly.
        """
        self.next_offset = revive_offset + 1
        if timer_due_ms is not None:
            self._passed_ms = max(self._passed_ms, timer_due_ms)

    def complete_until_ms(self, delivered_ms: int | None) -> int:
        """Return the revive time up to which check points are complete.

        Args:
            delivered_ms: if the queue is read to its end: the time up to which the timer had delivered
                everything before that; else None.
        """
        passed_ms = self._passed_ms - MARGIN_MS
        return passed_ms if delivered_ms is None else max(passed_ms, delivered_ms)

    def take(self, until_ms: int, count: int) -> list[OpenCheckPoint]:
        """Remove and return up to ``count`` complete check points in the order of their revive times.

        ``finish`` or ``put_back`` must follow for each.
        """
        taken: list[OpenCheckPoint] = []
        while len(taken) < count and (due_ms := self.next_ms()) is not None and due_ms <= until_ms:
            found = self._open.pop(heapq.heappop(self._by_time)[-1])
            self._taken[found.revive_offset] = found
            taken.append(found)
        return taken

    def finish(self, check_point: OpenCheckPoint) -> None:
        """Finish a check point that was taken: its messages are stored again, or gone."""
        del self._taken[check_point.revive_offset]

    def put_back(self, check_point: OpenCheckPoint) -> None:
        """Return a check point that was taken and could not be finished."""
        del self._taken[check_point.revive_offset]
        key = check_point.point.key
        self._open[key] = check_point
        entry = check_point.point.revive_time_ms, check_point.revive_offset, key
        heapq.heappush(self._by_time, entry)

    def next_ms(self) -> int | None:
        """Return the first revive time of the open check points, ms since the epoch; None without any."""
        while self._by_time:
            time_ms, revive_offset, key = self._by_time[0]
            found = self._open.get(key)
            if found is not None and found.revive_offset == revive_offset:
                return time_ms
            heapq.heappop(self._by_time)  # all its messages were acknowledged
        return None

    @property
    def committed(self) -> int:
        """The offset of the last record before the first check point that is not finished."""
        unfinished = [one.revive_offset for one in self._taken.values()]
        unfinished += [one.revive_offset for one in self._open.values()]
        return min(unfinished, default=self.next_offset) - 1


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
