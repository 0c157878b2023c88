"""What a history showed: which messages came, how often, and who had and handled a queue when."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple


class Handled(NamedTuple):
    """One handling of a message by a member; ``end_ns`` is None if the member was killed in it."""

    member: int
    queue_id: int
    queue_offset: int
    number: int
    begin_ns: int
    end_ns: int | None


class Owned(NamedTuple):
    """The time in which a member had a queue."""

    member: int
    queue_id: int
    begin_ns: int
    end_ns: int


class Verdict(NamedTuple):
    """What was wrong, and what it cost.

    Attributes:
        lost: numbers that were sent and never handled.
        shared: times in which two members had one ordered queue, or handled its messages.
        disordered: handlings that passed over a message of their queue.
        duplicates: handlings of messages that had been handled.
    """

    handled: int
    lost: list[int]
    shared: list[tuple[Handled, Handled] | tuple[Owned, Owned]]
    disordered: list[Handled]
    duplicates: int

    @property
    def is_right(self) -> bool:
        """Whether nothing was lost, and what must be in order was."""
        return not (self.lost or self.shared or self.disordered)


def judge(
    sent: Iterable[int], handled: list[Handled], owned: Iterable[Owned] = (), *, ordered: bool
) -> Verdict:
    """Judge a history."""
    times = Counter((one.queue_id, one.queue_offset) for one in handled)
    lost = sorted(set(sent) - {one.number for one in handled if one.end_ns is not None})
    duplicates = len(handled) - len(times)
    if not ordered:
        return Verdict(len(handled), lost, [], [], duplicates)
    by_queue: dict[int, list[Handled]] = defaultdict(list)
    for one in sorted(handled, key=lambda one: one.begin_ns):
        by_queue[one.queue_id].append(one)
    shared: list[tuple[Handled, Handled] | tuple[Owned, Owned]] = [*_overlapping(owned)]
    disordered = []
    for queue in by_queue.values():
        expected = 0
        for before, one in zip([queue[0], *queue], queue, strict=False):
            if before.member != one.member and (before.end_ns or 0) > one.begin_ns:
                shared.append((before, one))
            if one.queue_offset > expected:
                disordered.append(one)
            expected = max(expected, one.queue_offset + 1)
    return Verdict(len(handled), lost, shared, disordered, duplicates)


def _overlapping(owned: Iterable[Owned]) -> list[tuple[Owned, Owned]]:
    by_queue: dict[int, list[Owned]] = defaultdict(list)
    for one in sorted(owned, key=lambda one: one.begin_ns):
        by_queue[one.queue_id].append(one)
    return [
        (before, one)
        for queue in by_queue.values()
        for before, one in pairwise(queue)
        if before.end_ns > one.begin_ns and before.member != one.member
    ]
