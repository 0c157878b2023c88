"""What a history showed: which messages came, how often, and who handled a queue when."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple


class Handled(NamedTuple):
    """One handling of a message by a member; ``end_ns`` is None if the member was killed in it."""

    member: int
    queue_id: int
    queue_offset: int
    number: int
    begin_ns: int
    end_ns: int | None


class Verdict(NamedTuple):
    """What was wrong, and what it cost.

    Attributes:
        lost: numbers that were sent and never handled.
        shared: handlings of one queue by two members at a time.
        disordered: handlings that passed over a message of their queue.
        duplicates: handlings of messages that had been handled.
    """

    handled: int
    lost: list[int]
    shared: list[tuple[Handled, Handled]]
    disordered: list[Handled]
    duplicates: int

    @property
    def is_right(self) -> bool:
        """Whether nothing was lost, and what must be in order was."""
        return not (self.lost or self.shared or self.disordered)


def judge(sent: Iterable[int], handled: list[Handled], *, ordered: bool) -> Verdict:
    """Judge a history."""
    times = Counter((one.queue_id, one.queue_offset) for one in handled)
    lost = sorted(set(sent) - {one.number for one in handled if one.end_ns is not None})
    by_queue: dict[int, list[Handled]] = defaultdict(list)
    for one in sorted(handled, key=lambda one: one.begin_ns):
        by_queue[one.queue_id].append(one)
    shared, disordered = [], []
    for queue in by_queue.values() if ordered else ():
        expected = 0
        for before, one in zip([queue[0], *queue], queue, strict=False):
            if before.member != one.member and (before.end_ns or 0) > one.begin_ns:
                shared.append((before, one))
            if one.queue_offset > expected:
                disordered.append(one)
            expected = max(expected, one.queue_offset + 1)
    return Verdict(len(handled), lost, shared, disordered, len(handled) - len(times))
