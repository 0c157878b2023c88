"""Held pulls: which pulls wait at which queue, and which of them an event wakes.

Theory of operation: a pull that finds nothing new is *held* instead of answered. It leaves the hold
by exactly one of four events. The first three return it to the caller, which reads the store
again and answers:

* **arrive**: a message was stored in its queue, at or after the offset that it waits for, with a tag that
  it accepts (other messages leave the pull in the hold);
* **expire**: its deadline has passed;
* **release**: another event concerns it;
* **forget**: its connection is closed, so it needs no answer.

Pure: no clock, no sockets; times are arguments, pulls are results. (RocketMQ: PullRequestHoldService.java.)
"""

from collections.abc import Callable, Container, Hashable, Iterable
from typing import Generic, Protocol, TypeVar

HELD_PULLS_MAX = 100_000
"""Most pulls that are held; further ones are answered at once, to limit the memory that peers can take."""

Arrival = tuple[str, int, int, int]
"""A stored message: topic, queue id, the queue's next offset after it, its tags code."""


class HeldPull(Protocol):
    """A pull that can be held; these properties must not change while it is held."""

    @property
    def owner(self) -> Hashable:
        """The connection of the pull."""
        ...

    @property
    def queue(self) -> tuple[str, int]:
        """The queue at which it waits: topic and queue id."""
        ...

    @property
    def queue_offset(self) -> int:
        """The first queue offset that the pull has not seen."""
        ...

    @property
    def tags_codes(self) -> Container[int] | None:
        """The tags codes that the pull accepts; None for any."""
        ...

    @property
    def deadline_ms(self) -> int:
        """When the hold ends, in ms of the caller's clock."""
        ...


PullT = TypeVar("PullT", bound=HeldPull)


class PullHold(Generic[PullT]):
    """All held pulls.

    Attributes:
        queues: the pulls by the queue at which they wait; always the same dictionary, empty if none are held.
    """

    def __init__(self, limit: int = HELD_PULLS_MAX) -> None:
        self._limit = limit
        self._count = 0
        self.queues: dict[tuple[str, int], list[PullT]] = {}

    def __len__(self) -> int:
        return self._count

    def hold(self, pull: PullT) -> bool:
        """Hold ``pull``; returns False if the hold is full, so that the pull must be answered now."""
        if self._count >= self._limit:
            return False
        queue = pull.queue
        if (waiting := self.queues.get(queue)) is None:
            self.queues[queue] = [pull]
        else:
            waiting.append(pull)
        self._count += 1
        return True

    def arrive(self, arrivals: Iterable[Arrival]) -> list[PullT]:
        """Process the arrivals of one dispatch; return the pulls that they wake, in the order of arrival."""
        awake: list[PullT] = []
        if not self.queues:
            return awake
        for topic, queue_id, next_offset, tags_code in arrivals:
            queue = topic, queue_id
            if (waiting := self.queues.get(queue)) is None:
                continue
            if len(waiting) == 1:  # nearly always: saves building a list of the pulls that stay
                if _wants(waiting[0], next_offset, tags_code):
                    awake += waiting
                    del self.queues[queue]
                    self._count -= 1
            elif woken := [pull for pull in waiting if _wants(pull, next_offset, tags_code)]:
                awake += woken
                self._keep(queue, [pull for pull in waiting if not _wants(pull, next_offset, tags_code)])
        return awake

    def expire(self, now_ms: int) -> list[PullT]:
        """Remove and return the pulls whose deadline is ``now_ms`` or earlier."""
        expired = [pull for waiting in self.queues.values() for pull in waiting if pull.deadline_ms <= now_ms]
        if expired:
            for queue, waiting in list(self.queues.items()):
                self._keep(queue, [pull for pull in waiting if pull.deadline_ms > now_ms])
        return expired

    def release(self, topic: str, queue_id: int, concerns: Callable[[PullT], bool]) -> list[PullT]:
        """Remove and return the pulls at one queue for which ``concerns`` returns true."""
        waiting = self.queues.get((topic, queue_id), [])
        called = [pull for pull in waiting if concerns(pull)]
        if called:
            self._keep((topic, queue_id), [pull for pull in waiting if not concerns(pull)])
        return called

    def forget(self, owner: Hashable) -> None:
        """Remove all pulls of ``owner``, whose connection is closed."""
        for queue, waiting in list(self.queues.items()):
            self._keep(queue, [pull for pull in waiting if pull.owner != owner])

    def _keep(self, queue: tuple[str, int], rest: list[PullT]) -> None:
        self._count -= len(self.queues[queue]) - len(rest)
        if rest:
            self.queues[queue] = rest
        else:
            del self.queues[queue]


def _wants(pull: HeldPull, next_offset: int, tags_code: int) -> bool:
    """Check whether a message that moved the queue to ``next_offset`` wakes a pull."""
    return next_offset > pull.queue_offset and ((wanted := pull.tags_codes) is None or tags_code in wanted)
