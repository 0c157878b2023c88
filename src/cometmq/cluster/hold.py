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
from typing import Generic, Protocol, TypeVar

HELD_PULLS_MAX = 100_000
"""More than this are answered at once: a held pull costs memory that a peer decides about."""

Arrival = tuple[str, int, int, int]
"""A message came: topic, queue id, the queue's next offset after it, its tags code."""


class HeldPull(Protocol):
    """One pull that waits; what is said of it here does not change meanwhile."""

    @property
    def owner(self) -> Hashable:
        """The connection that it came over."""
        ...

    @property
    def queue(self) -> tuple[str, int]:
        """The queue at which it waits: topic and queue id."""
        ...

    @property
    def queue_offset(self) -> int:
        """The first offset that it has not seen."""
        ...

    @property
    def tags_codes(self) -> Container[int] | None:
        """The tags codes that it wants; None for any."""
        ...

    @property
    def deadline_ms(self) -> int:
        """When it has waited long enough, on the caller's clock."""
        ...


PullT = TypeVar("PullT", bound=HeldPull)


class PullHold(Generic[PullT]):
    """All pulls that wait, by queue."""

    def __init__(self, limit: int = HELD_PULLS_MAX) -> None:
        self._limit = limit
        self._count = 0
        self._queues: dict[tuple[str, int], list[PullT]] = {}

    def __len__(self) -> int:
        return self._count

    def hold(self, pull: PullT) -> bool:
        """Let ``pull`` wait; False if the hold is full, and it must be answered now."""
        if self._count >= self._limit:
            return False
        queue = pull.queue
        if (waiting := self._queues.get(queue)) is None:
            self._queues[queue] = [pull]
        else:
            waiting.append(pull)
        self._count += 1
        return True

    def arrive(self, arrivals: Iterable[Arrival]) -> list[PullT]:
        """Take the arrivals of one dispatch; give the pulls to look at again, in the order they came."""
        awake: list[PullT] = []
        if not self._queues:
            return awake
        for topic, queue_id, next_offset, tags_code in arrivals:
            queue = topic, queue_id
            if (waiting := self._queues.get(queue)) is None:
                continue
            if len(waiting) == 1:  # nearly always: without a list of those who wait on
                if _wants(waiting[0], next_offset, tags_code):
                    awake += waiting
                    del self._queues[queue]
                    self._count -= 1
            elif woken := [pull for pull in waiting if _wants(pull, next_offset, tags_code)]:
                awake += woken
                self._keep(queue, [pull for pull in waiting if not _wants(pull, next_offset, tags_code)])
        return awake

    def expire(self, now_ms: int) -> list[PullT]:
        """Give the pulls whose deadline is ``now_ms`` or earlier."""
        expired = [
            pull for waiting in self._queues.values() for pull in waiting if pull.deadline_ms <= now_ms
        ]
        if expired:
            for queue, waiting in list(self._queues.items()):
                self._keep(queue, [pull for pull in waiting if pull.deadline_ms > now_ms])
        return expired

    def release(self, topic: str, queue_id: int, concerns: Callable[[PullT], bool]) -> list[PullT]:
        """Give the pulls at one queue that an event concerns."""
        waiting = self._queues.get((topic, queue_id), [])
        called = [pull for pull in waiting if concerns(pull)]
        if called:
            self._keep((topic, queue_id), [pull for pull in waiting if not concerns(pull)])
        return called

    def forget(self, owner: Hashable) -> None:
        """Drop every pull of ``owner``, whose connection is gone."""
        for queue, waiting in list(self._queues.items()):
            self._keep(queue, [pull for pull in waiting if pull.owner != owner])

    def _keep(self, queue: tuple[str, int], rest: list[PullT]) -> None:
        self._count -= len(self._queues[queue]) - len(rest)
        if rest:
            self._queues[queue] = rest
        else:
            del self._queues[queue]


def _wants(pull: HeldPull, next_offset: int, tags_code: int) -> bool:
    """Tell whether a message that moved the queue to ``next_offset`` is one that a pull waits for."""
    return next_offset > pull.queue_offset and ((wanted := pull.tags_codes) is None or tags_code in wanted)
