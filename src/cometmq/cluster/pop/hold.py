"""Held pops and notifications: which of them wait for which queues, and which of them an event wakes.

Theory of operation: a pop that finds nothing is *held* at its place: topic, group, and the queue that it
names or ALL_QUEUES. It leaves the hold by exactly one of these events:

* **arrive**: a message was stored in the topic, with a tag that the pop accepts, or in the group's retry
  topic of it. Of each place one is woken, the one whose deadline is next. It is *awake* until
  ``take_awake``, and until then no other of its place is woken: it will find all that has arrived meanwhile.
  Its answer says whether more is left, and then the caller wakes the next one;
* **wake**: another event concerns the place;
* **release**: its topic is gone;
* **expire**: its deadline has passed;
* **forget**: its connection is closed, so it needs no answer.

RocketMQ wakes one for each message, several of which find nothing then.

Pure: no clock, no sockets; times are arguments, pops are results. (RocketMQ: PopLongPollingService.java.)
"""

from bisect import insort
from collections.abc import Container, Hashable, Iterable
from heapq import heappop, heappush
from operator import attrgetter
from typing import Final, Generic, Protocol, TypeVar

from cometmq.cluster.hold import Arrival
from cometmq.format.pop.names import RetryFlag, retry_topic

ALL_QUEUES: Final = -1
"""The queue id of pops that read all queues of a topic."""
STEP_MS: Final = 20
"""Deadlines are rounded up to a multiple of this."""

Place = tuple[str, str, int]
"""Topic, group and queue id."""

_deadline = attrgetter("deadline_ms")


class HeldPop(Protocol):
    """A request that can be held; these properties must not change while it is held."""

    @property
    def owner(self) -> Hashable:
        """The connection of the request."""
        ...

    @property
    def place(self) -> Place:
        """Where it waits."""
        ...

    @property
    def tags_codes(self) -> Container[int] | None:
        """The tags codes that it accepts; None for any."""
        ...

    @property
    def deadline_ms(self) -> int:
        """When the hold ends, in ms of the caller's clock."""
        ...


PopT = TypeVar("PopT", bound=HeldPop)


class PopHold(Generic[PopT]):
    """All held requests of one kind, by place.

    Args:
        place_max: most that are held at one place.
        limit: most that are held in all.
        force_interval: a message whose queue offset is a multiple of this wakes a pop whatever its tag, so
            that the group's offset moves on; 0 for none.
        is_last_first: whether the one with the latest deadline is woken, not the next.

    Attributes:
        places: the requests by place, sorted by deadline; always the same dictionary, empty if none are held.
    """

    def __init__(
        self, place_max: int, limit: int, *, force_interval: int = 0, is_last_first: bool = False
    ) -> None:
        self._place_max = place_max
        self._limit = limit
        self._force_interval = force_interval
        self._first = -1 if is_last_first else 0
        self._count = 0
        self.places: dict[Place, list[PopT]] = {}
        self._awake: dict[Place, PopT] = {}
        self._owners: dict[Hashable, dict[PopT, None]] = {}
        self._groups: dict[tuple[str, str], int] = {}  # how many are held of a topic and group
        self._by_topic: dict[str, dict[tuple[str, str], bool]] = {}  # by topic and by retry topic: is it one
        self._steps: dict[int, dict[PopT, None]] = {}  # by deadline
        self._next_steps: list[int] = []

    def __len__(self) -> int:
        return self._count

    def count_at(self, place: Place) -> int:
        """Return how many are held at a place."""
        return len(self.places.get(place, ()))

    @property
    def next_deadline_ms(self) -> int | None:
        """When to call ``expire`` next; None if nothing is held."""
        steps = self._next_steps
        while steps and not self._steps[steps[0]]:
            del self._steps[heappop(steps)]
        return steps[0] * STEP_MS if steps else None

    def hold(self, pop: PopT) -> bool:
        """Hold a request; return False if there is no room, so that it must be answered now."""
        place = pop.place
        waiting = self.places.get(place)
        if self._count >= self._limit or (waiting is not None and len(waiting) >= self._place_max):
            return False
        deadline_ms = pop.deadline_ms
        if waiting is None:
            self.places[place] = [pop]
        elif waiting[-1].deadline_ms <= deadline_ms:
            waiting.append(pop)
        else:
            insort(waiting, pop, key=_deadline)
        step = -(-deadline_ms // STEP_MS)
        if (at_step := self._steps.get(step)) is None:
            self._steps[step] = at_step = {}
            heappush(self._next_steps, step)
        at_step[pop] = None
        self._owners.setdefault(pop.owner, {})[pop] = None
        self._count += 1
        self._count_group(place[:2], 1)
        return True

    def arrive(self, arrivals: Iterable[Arrival]) -> bool:
        """Process the arrivals of one dispatch; return whether any request is awake."""
        by_topic, places, awake, interval = self._by_topic, self.places, self._awake, self._force_interval
        if not by_topic:
            return bool(awake)
        for topic, queue_id, next_offset, tags_code in arrivals:
            if (consuming := by_topic.get(topic)) is None:
                continue
            for (normal, group), is_retry in list(consuming.items()):
                is_forced = is_retry or (interval > 0 and (next_offset - 1) % interval == 0)
                for place in ((normal, group, ALL_QUEUES), (normal, group, queue_id)):
                    if place in awake or (waiting := places.get(place)) is None:
                        continue
                    pop = waiting[self._first]
                    if is_forced or (wanted := pop.tags_codes) is None or tags_code in wanted:
                        self._remove(pop)
                        awake[place] = pop
        return bool(awake)

    def wake(self, place: Place) -> bool:
        """Wake one request of a place, unless one is awake; return whether any is."""
        if place not in self._awake and (waiting := self.places.get(place)) is not None:
            pop = waiting[self._first]
            self._remove(pop)
            self._awake[place] = pop
        return bool(self._awake)

    def release(self, topic: str) -> list[PopT]:
        """Remove and return all requests that wait for a topic."""
        places = [place for place in self.places if place[0] == topic]
        released = [pop for place in places for pop in self.places[place]]
        for pop in released:
            self._remove(pop)
        return released

    def take_awake(self) -> list[PopT]:
        """Return the requests that are awake, which are no longer held."""
        awake, self._awake = list(self._awake.values()), {}
        return awake

    def expire(self, now_ms: int) -> list[PopT]:
        """Remove and return the requests whose deadline, rounded up, is ``now_ms`` or earlier."""
        expired: list[PopT] = []
        steps = self._next_steps
        while steps and steps[0] * STEP_MS <= now_ms:
            step = steps[0]
            for pop in list(self._steps[step]):
                self._remove(pop)
                expired.append(pop)
            heappop(steps)
            del self._steps[step]
        return expired

    def forget(self, owner: Hashable) -> None:
        """Remove all requests of ``owner``, whose connection is closed."""
        for pop in list(self._owners.get(owner, ())):
            self._remove(pop)

    def _remove(self, pop: PopT) -> None:
        place, owner = pop.place, pop.owner
        waiting = self.places[place]
        waiting.remove(pop)
        if not waiting:
            del self.places[place]
        del self._steps[-(-pop.deadline_ms // STEP_MS)][pop]
        mine = self._owners[owner]
        del mine[pop]
        if not mine:
            del self._owners[owner]
        self._count -= 1
        self._count_group(place[:2], -1)

    def _count_group(self, group: tuple[str, str], change: int) -> None:
        """Count the requests of a topic and group; keep the index by topic while there are any."""
        before = self._groups.get(group, 0)
        self._groups[group] = count = before + change
        if before and count:
            return
        topic, name = group
        for flag in RetryFlag:
            of_topic = retry_topic(topic, name, flag)
            if count:
                self._by_topic.setdefault(of_topic, {})[group] = flag is not RetryFlag.NONE
            else:
                del self._by_topic[of_topic][group]
                if not self._by_topic[of_topic]:
                    del self._by_topic[of_topic]
        if not count:
            del self._groups[group]
