"""Held pulls: which consumers wait at which queue, and whom an event concerns.

Theory of operation: a pull that finds nothing new is *held* instead of answered. It leaves the hold
by exactly one of four events, and the first three give it back to the caller, who looks at the store
again and answers:

* **arrive**: a message came to its queue, at or after the offset that it waits for, with a tag that
  it wants (a message without the wanted tag leaves it in the hold);
* **expire**: its deadline has passed;
* **release**: whatever it waits for, something else than a message concerns it;
* **forget**: its connection is gone, so that nobody waits for the answer.

Pure: no clock, no sockets; times come in, pulls come out. (RocketMQ: PullRequestHoldService.java.)
"""

from collections.abc import Callable, Container, Hashable, Iterable
from typing import Generic, NamedTuple, TypeVar

TicketT = TypeVar("TicketT")

HELD_PULLS_MAX = 100_000
"""More than this are answered at once: a held pull costs memory that a peer decides about."""

Arrival = tuple[str, int, int, int]
"""A message came: topic, queue id, the queue's next offset after it, its tags code."""


class HeldPull(NamedTuple, Generic[TicketT]):
    """One pull that waits.

    Attributes:
        ticket: whatever the caller needs to answer it.
        owner: the connection that it came over.
        queue_offset: the first offset that it has not seen.
        tags_codes: the tags codes that it wants; None for any.
        deadline_ms: when it has waited long enough, on the caller's clock.
    """

    ticket: TicketT
    owner: Hashable
    topic: str
    queue_id: int
    queue_offset: int
    tags_codes: Container[int] | None
    deadline_ms: int

    def wants(self, next_offset: int, tags_code: int) -> bool:
        """Tell whether a message that moved the queue to ``next_offset`` is one that it waits for."""
        return next_offset > self.queue_offset and (self.tags_codes is None or tags_code in self.tags_codes)


class PullHold(Generic[TicketT]):
    """All pulls that wait, by queue."""

    def __init__(self, limit: int = HELD_PULLS_MAX) -> None:
        self._limit = limit
        self._count = 0
        self._queues: dict[tuple[str, int], list[HeldPull[TicketT]]] = {}

    def __len__(self) -> int:
        return self._count

    def hold(self, pull: HeldPull[TicketT]) -> bool:
        """Let ``pull`` wait; False if the hold is full, and it must be answered now."""
        if self._count >= self._limit:
            return False
        self._queues.setdefault((pull.topic, pull.queue_id), []).append(pull)
        self._count += 1
        return True

    def arrive(self, arrivals: Iterable[Arrival]) -> list[TicketT]:
        """Take the arrivals of one dispatch; give the tickets to look at again, in the order they came."""
        awake: list[TicketT] = []
        if not self._queues:
            return awake
        for topic, queue_id, next_offset, tags_code in arrivals:
            waiting = self._queues.get((topic, queue_id))
            if waiting is None:
                continue
            rest = [pull for pull in waiting if not pull.wants(next_offset, tags_code)]
            if not rest:  # nearly always: one waits alone
                awake += [pull.ticket for pull in waiting]
                self._keep((topic, queue_id), rest)
            elif len(rest) < len(waiting):
                awake += [pull.ticket for pull in waiting if pull.wants(next_offset, tags_code)]
                self._keep((topic, queue_id), rest)
        return awake

    def expire(self, now_ms: int) -> list[TicketT]:
        """Give the tickets whose deadline is ``now_ms`` or earlier."""
        expired = [p.ticket for waiting in self._queues.values() for p in waiting if p.deadline_ms <= now_ms]
        if expired:
            for queue, waiting in list(self._queues.items()):
                self._keep(queue, [pull for pull in waiting if pull.deadline_ms > now_ms])
        return expired

    def release(self, topic: str, queue_id: int, concerns: Callable[[TicketT], bool]) -> list[TicketT]:
        """Give the tickets of one queue that an event concerns."""
        waiting = self._queues.get((topic, queue_id), [])
        called = [pull.ticket for pull in waiting if concerns(pull.ticket)]
        if called:
            self._keep((topic, queue_id), [pull for pull in waiting if not concerns(pull.ticket)])
        return called

    def forget(self, owner: Hashable) -> None:
        """Drop every pull of ``owner``, whose connection is gone."""
        for queue, waiting in list(self._queues.items()):
            self._keep(queue, [pull for pull in waiting if pull.owner != owner])

    def _keep(self, queue: tuple[str, int], rest: list[HeldPull[TicketT]]) -> None:
        self._count -= len(self._queues[queue]) - len(rest)
        if rest:
            self._queues[queue] = rest
        else:
            del self._queues[queue]
