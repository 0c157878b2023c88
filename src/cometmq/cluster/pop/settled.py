"""Check points whose messages are all acknowledged before they come due: nothing of them is to be delivered.

Besides, which messages of a check point are left: by its handles no others can be acknowledged or hidden.
That is remembered, too, of check points that were settled or revived.

A check point and its acknowledgements wait in the timer, each as a message of its own. When they come due
they are delivered to the revive topic, and there what is acknowledged is taken off the check point. Where all
is acknowledged before, as nearly always, none of them need go there: they are *settled*. And where that is so
before the timer has taken the check point, none of them need wait there::

    check point stored ──► open ──► all acknowledged ──► settled ──► about to wait: passed over, it and its
                             │                              │        acknowledgements
                             │                              └──────► come due: dropped
                             └────► comes due ─────────► forgotten: all that belongs to it is delivered

What is not known here is delivered: what was stored before the broker started, or is too much to remember.
After a kill the timer takes and delivers again what it had not saved as done, which is what came last. So a
check point comes with its acknowledgements, or those without it, which are forgotten; and of one that waits
all acknowledgements must wait, too, though they settle it.

Pure: no clock, no store. (RocketMQ has no such thing, but a buffer of check points before they are stored:
PopBufferMergeService.java.)
"""

from collections.abc import Collection, Hashable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, Generic, TypeVar

OPEN_MAX: Final = 20_000
"""Most check points that are followed."""
SETTLED_MAX: Final = 300_000
"""Most places that are remembered until they come due."""
CLOSED_MAX: Final = 20_000
"""Most check points that are not open, but of which is remembered what is left of them."""

PointT = TypeVar("PointT", bound=Hashable)

_NOTHING: Final[frozenset[int]] = frozenset()


class _OpenPoint:
    """A check point with unacknowledged messages.

    Attributes:
        named: the queue offsets of its messages.
        left: those that are not acknowledged.
        places: where it is stored, and what was stored for it.
    """

    __slots__ = ("left", "named", "places")

    def __init__(self, offsets: Collection[int], place: int) -> None:
        self.named = offsets
        self.left = set(offsets)
        self.places = [place]


class SettledPoints(Generic[PointT]):
    """Knows what need not be delivered of what waits in the timer.

    Places are those of messages in the log. They start to wait in their order, and come due once: a check
    point's before those of its acknowledgements.
    """

    def __init__(
        self, *, open_max: int = OPEN_MAX, settled_max: int = SETTLED_MAX, closed_max: int = CLOSED_MAX
    ) -> None:
        self._open_max = open_max
        self._settled_max = settled_max
        self._closed_max = closed_max
        self._closed: dict[PointT, AbstractSet[int]] = {}  # what is left of check points that are not open …
        self._closed_before: dict[PointT, AbstractSet[int]] = {}  # … and of those before them
        self._open: dict[PointT, _OpenPoint] = {}
        self._at: dict[int, PointT] = {}  # the open check points by their places
        self._settled: dict[int, Sequence[int]] = {}  # a check point's place → all its places; others → none
        self._passed_over: set[int] = set()  # places of those that were, which are to come

    def open(self, point: PointT, offsets: Collection[int], place: int) -> None:
        """Follow a check point that is stored; one that is stored twice is followed as one.

        Args:
            offsets: the queue offsets of its messages.
            place: where it is stored.
        """
        known = self._open.get(point)
        if known is not None:
            known.left |= set(offsets).difference(known.named)
            known.named = {*known.named, *offsets}
            known.places.append(place)
        elif len(self._open) < self._open_max:
            self._open[point] = _OpenPoint(offsets, place)
        else:
            self.close(point, set(offsets))
            return
        self._at[place] = point

    def close(self, point: PointT, left: AbstractSet[int] = _NOTHING) -> None:
        """Remember what is left of a check point that is not open, so that it does not wait in the timer."""
        self._closed[point] = left
        if len(self._closed) * 2 > self._closed_max:
            self._closed_before, self._closed = self._closed, {}

    def left(self, point: PointT) -> AbstractSet[int] | None:
        """Return the queue offsets of a check point's messages that are not acknowledged; None if unknown."""
        if (known := self._open.get(point)) is not None:
            return known.left
        if (left := self._closed.get(point)) is not None:
            return left
        return self._closed_before.get(point)

    def acknowledge(self, point: PointT, offsets: Iterable[int], place: int) -> None:
        """Mark messages of a check point as acknowledged; settle it if those are the last.

        Args:
            offsets: their queue offsets.
            place: where the acknowledgement is stored.
        """
        known = self._open.get(point)
        if known is None:
            if left := self.left(point):
                self.close(point, left - set(offsets))
            return
        known.left.difference_update(offsets)
        known.places.append(place)
        if not known.left:
            self._forget(point)
            if len(self._settled) + len(known.places) <= self._settled_max:
                self._settled |= dict.fromkeys(known.places, ())
                self._settled[known.places[0]] = known.places

    def is_open(self, place: int) -> bool:
        """Return whether a check point is stored at a place that has unacknowledged messages."""
        return place in self._at

    def needless(self, places: Collection[int]) -> set[int]:
        """Return which of the next places that are to wait need not do so; ``pass_over`` must follow."""
        found: set[int] = set()
        for place in places:
            found.update(self._settled.get(place, ()))
        return {place for place in places if place in found or place in self._passed_over}

    def pass_over(self, places: Iterable[int]) -> None:
        """Pass over what need not wait, and all that belongs to it, when that would wait."""
        for place in places:
            for one in self._settled.get(place, ()):
                del self._settled[one]
                self._passed_over.add(one)
            self._passed_over.discard(place)

    def come_due(self, place: int) -> bool:
        """Return whether what is stored at a place, and comes due now, need not be delivered."""
        if self._settled.pop(place, None) is not None:
            return True
        if (point := self._at.get(place)) is not None:
            self._forget(point)
        return False

    def _forget(self, point: PointT) -> None:
        known = self._open.pop(point)
        for place in known.places:
            self._at.pop(place, None)
        self.close(point, known.left or _NOTHING)
