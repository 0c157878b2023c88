"""Pops and notifications that are held, and what wakes them: messages, other answers, their deadlines.

What is woken is served in the loop's next turn, when all messages of this one can be read. Deadlines are
looked at when one is due, so a broker without held pops does nothing.
"""

import asyncio
from collections.abc import Callable, Collection, Container
from typing import Any, Final

from cometmq.broker.settings_by_subject import PopSettings
from cometmq.broker.state.topics import Topics
from cometmq.cluster.pop.hold import ALL_QUEUES, Place, PopHold
from cometmq.cluster.pop.order import Unblocks
from cometmq.io.clock import Clock
from cometmq.net.boundary import attempt
from cometmq.net.server import Session
from cometmq.store.store import MessageStore
from cometmq.store.upkeep.dispatch import Arrival
from cometmq.wire.frame import Command

MARGIN_MS: Final = 50
"""How much earlier than its client expects a held request is answered."""
POLL_MS_MAX: Final = 120_000
"""Longest hold: a connection that is silent for so long is closed."""


class HeldRequest:
    """A pop or a notification that can be held (a ``cluster.pop.hold.HeldPop``).

    Attributes:
        owner: its connection.
        header: of the request.
        deadline_ms: the end of its hold, on the monotonic clock.
        serve: serves it: when it has come, and when it is woken.
        tags_codes: the hashes of the accepted tags, None for any.
    """

    __slots__ = ("command", "deadline_ms", "header", "owner", "place", "serve", "tags_codes")

    def __init__(
        self,
        owner: Session,
        command: Command,
        header: Any,
        deadline_ms: int,
        serve: "Callable[[HeldRequest], None]",
    ) -> None:
        self.owner = owner
        self.command = command
        self.header = header
        self.place: Place = header.topic, header.consumer_group, max(header.queue_id, ALL_QUEUES)
        self.deadline_ms = deadline_ms
        self.serve = serve
        self.tags_codes: Container[int] | None = None


class Waiting:
    """The held requests of a broker.

    Attributes:
        pops, notifications: the held ones of either kind.
        on_hold: called when ``expire`` must be called earlier than it asked for.
    """

    def __init__(self, store: MessageStore, topics: Topics, clock: Clock, settings: PopSettings) -> None:
        place_max, limit = settings.pop_polling_size, settings.max_pop_polling_size
        interval = settings.pop_long_polling_force_notify_interval
        self.pops = PopHold[HeldRequest](place_max, limit, force_interval=interval)
        self.notifications = PopHold[HeldRequest](
            place_max, limit, force_interval=interval, is_last_first=True
        )
        self.on_hold: list[Callable[[], None]] = []
        self._holds = self.pops, self.notifications
        self._unblocks = Unblocks()
        self._topics = topics
        self._clock = clock
        self._is_soon = False
        self._next_ms: int | None = None
        topics.on_change.append(self._topics_changed)
        store.on_arrival(self.arrive, [hold.places for hold in self._holds])

    def held_count(self) -> int:
        """Return how many requests are held."""
        return len(self.pops) + len(self.notifications)

    def deadline_ms(self, born_ms: int, poll_ms: int) -> int:
        """Return when the hold of a request ends, on the monotonic clock; in the past if it may not be held.

        Args:
            born_ms: when it was made, by its client's clock; 0 for now.
            poll_ms: how long its client waits.
        """
        if poll_ms <= 0:
            return self._clock.monotonic_ms()
        late_ms = self._clock.now_ms() - born_ms if born_ms else 0
        return self._clock.monotonic_ms() + min(poll_ms - late_ms, poll_ms, POLL_MS_MAX) - MARGIN_MS

    def may_wait(self, request: HeldRequest) -> bool:
        """Check whether there is time left to hold a request, and somebody who waits for its answer."""
        return request.deadline_ms > self._clock.monotonic_ms() and not request.owner.closed

    def hold(self, hold: PopHold[HeldRequest], request: HeldRequest) -> bool:
        """Hold a request; return False if there is no room."""
        if not hold.hold(request):
            return False
        self._expire_by(request.deadline_ms)
        return True

    def arrive(self, arrivals: list[Arrival]) -> None:
        """Wake those for whom messages have arrived."""
        if self.pops.arrive(arrivals) | self.notifications.arrive(arrivals):
            self._serve_soon()

    def wake(self, topic: str, group: str, queue_id: int) -> None:
        """Wake a pop that reads this queue alone, or with ALL_QUEUES one that reads all."""
        if self.pops.wake((topic, group, queue_id)):
            self._serve_soon()

    def wake_all(self, group: str, topic: str, queue_id: int) -> None:
        """Wake a pop and a notification for all queues, and those for this one: it has changed."""
        for hold in self._holds:
            for waiting_at in (ALL_QUEUES, queue_id):
                if hold.wake((topic, group, waiting_at)):
                    self._serve_soon()

    def wake_later(self, group: str, topic: str, queue_id: int, wait_ms: int) -> None:
        """Wake the same after a time, when a queue is unblocked; nothing if nobody waits for it."""
        places: tuple[Place, ...] = (topic, group, ALL_QUEUES), (topic, group, queue_id)
        if any(hold.count_at(place) for hold in self._holds for place in places):
            time_ms = self._clock.monotonic_ms() + max(wait_ms, 0)
            self._unblocks.add((topic, group, queue_id), time_ms)
            self._expire_by(time_ms)

    def expire(self) -> int | None:
        """Serve the requests whose deadline has passed, and wake those whose queue is unblocked.

        Returns when to call it again, ms.
        """
        now_ms = self._clock.monotonic_ms()
        self._next_ms = 0  # what is held again meanwhile needs no call of ``on_hold``
        for topic, group, queue_id in self._unblocks.take(now_ms):
            self.wake_all(group, topic, queue_id)
        for hold in self._holds:
            for request in hold.expire(now_ms):
                self._serve(request)
        times = (*(hold.next_deadline_ms for hold in self._holds), self._unblocks.next_ms())
        self._next_ms = min((time for time in times if time is not None), default=None)
        return None if self._next_ms is None else max(self._next_ms - self._clock.monotonic_ms(), 0)

    def closed(self, session: Session) -> None:
        """Drop the held requests of a closed connection."""
        for hold in self._holds:
            hold.forget(session)

    def _expire_by(self, time_ms: int) -> None:
        """Call ``on_hold`` if ``expire`` is not called by a time anyway."""
        if self._next_ms is None or time_ms < self._next_ms:
            self._next_ms = time_ms
            for action in self.on_hold:
                action()

    def _topics_changed(self, names: Collection[str]) -> None:
        """Serve those who wait for topics that are deleted: they are refused."""
        for name in names if self.held_count() else ():
            if self._topics.find(name) is None:
                released = [request for hold in self._holds for request in hold.release(name)]
                for request in released:
                    asyncio.get_running_loop().call_soon(self._serve, request)

    def _serve_soon(self) -> None:
        if not self._is_soon:
            self._is_soon = True
            asyncio.get_running_loop().call_soon(self._serve_awake)

    def _serve_awake(self) -> None:
        self._is_soon = False
        for hold in self._holds:
            for request in hold.take_awake():
                if not request.owner.closed:
                    self._serve(request)
                elif hold.wake(request.place):  # another one gets what it was woken for
                    self._serve_soon()

    def _serve(self, request: HeldRequest) -> None:
        attempt(request.owner, (request.command,), request.serve, request)
