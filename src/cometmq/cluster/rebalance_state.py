"""The queues of a consumer: those that it owns, wants to own, and is about to release.

Theory of operation: a rebalance *aims* at a share of a topic's queues. Each queue then passes through
its phases independently, so that queues that stay are not affected by those that come and go:

* concurrent: wanted → **OWNED** → not wanted → **LEAVING** → *left*, and gone;
* ordered: wanted → **LOCKING** → the broker grants the lock → **OWNED** → not wanted, or the lock is lost →
  **LEAVING** → *left*, and gone, or LOCKING again if it is wanted.

LEAVING lasts while messages of the queue are being handled and its offset is committed. An ordered queue is
unlocked only after it has left, so its next owner cannot begin before. A lock counts from the time of its
*request*; a member that cannot renew it in time stops by itself, long before the broker grants it to another
one.

Pure: events and times in, instructions out. (RocketMQ: RebalanceImpl.java.)
"""

from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import Final, NamedTuple

from cometmq.message import MessageQueue

LOCK_TRUSTED_MS: Final = 30_000
"""How long a lock is trusted after its request was sent; a broker keeps it for 60 s."""


class Phase(Enum):
    """The phase of a queue."""

    LOCKING = auto()
    OWNED = auto()
    LEAVING = auto()


class Moves(NamedTuple):
    """The instructions that follow an event.

    Attributes:
        take: begin to consume these queues.
        leave: stop handling messages of these queues; call ``left`` when no handler of them runs any more.
    """

    take: list[MessageQueue]
    leave: list[MessageQueue]


class Assignment:
    """The state of all queues of one consumer.

    Args:
        is_ordered: whether a topic's queues are consumed in order, under a lock. Called when a queue begins;
            the queue keeps the answer until it has left.
    """

    def __init__(self, is_ordered: Callable[[str], bool]) -> None:
        self._is_ordered = is_ordered
        self._shares: dict[str, frozenset[MessageQueue]] = {}
        self._phases: dict[MessageQueue, Phase] = {}
        self._in_order: set[MessageQueue] = set()
        self._locked_ms: dict[MessageQueue, int] = {}

    def aim(self, topic: str, share: Iterable[MessageQueue]) -> Moves:
        """Set the queues of one topic to own. Queues of other topics in ``share`` are ignored."""
        wanted = self._shares[topic] = frozenset(queue for queue in share if queue.topic == topic)
        had = [queue for queue in self._phases if queue.topic == topic]
        gone = sorted(queue for queue in had if queue not in wanted)
        for queue in gone:
            if self._phases[queue] is Phase.LOCKING:
                self._forget(queue)
        leave = [queue for queue in gone if self._leave(queue)]
        return Moves(self._begin(sorted(wanted - set(had))), leave)

    def granted(self, asked: Iterable[MessageQueue], granted: Iterable[MessageQueue], asked_ms: int) -> Moves:
        """Record which of the requested locks the broker granted."""
        held = set(granted)
        moves = Moves([], [])
        for queue in asked:
            phase = self._phases.get(queue)
            if phase is None:
                continue
            if queue in held:
                self._locked_ms[queue] = asked_ms
                if phase is Phase.LOCKING:
                    self._phases[queue] = Phase.OWNED
                    moves.take.append(queue)
            elif self._leave(queue):
                moves.leave.append(queue)
        return moves

    def expire(self, now_ms: int) -> Moves:
        """Leave the queues whose lock was not renewed in time."""
        late = [queue for queue in self._locked_ms if not self.holds(queue, now_ms)]
        return Moves([], [queue for queue in late if self._leave(queue)])

    def left(self, queue: MessageQueue) -> Moves:
        """Record that a leaving queue has left; it may be wanted again by now."""
        self._forget(queue)
        wanted = queue in self._shares.get(queue.topic, frozenset())
        return Moves(self._begin([queue]) if wanted else [], [])

    def holds(self, queue: MessageQueue, now_ms: int) -> bool:
        """Return whether the next message of a queue may be handled."""
        if self._phases.get(queue) is not Phase.OWNED:
            return False
        locked_ms = self._locked_ms.get(queue)
        return locked_ms is None or now_ms - locked_ms < LOCK_TRUSTED_MS

    def needs_lock(self, queue: MessageQueue) -> bool:
        """Return whether a queue is consumed in order, under a lock."""
        return queue in self._in_order

    def to_lock(self) -> list[MessageQueue]:
        """Return the queues whose locks must be requested or renewed."""
        return [queue for queue in self._phases if queue in self._in_order]

    def to_begin(self) -> list[MessageQueue]:
        """Return the queues that wait for their lock."""
        return [queue for queue, phase in self._phases.items() if phase is Phase.LOCKING]

    def owned(self) -> list[MessageQueue]:
        """Return the queues that are consumed now, sorted."""
        return sorted(queue for queue, phase in self._phases.items() if phase is Phase.OWNED)

    def is_settled(self) -> bool:
        """Return whether exactly the wanted queues are owned."""
        wanted = set().union(*self._shares.values())
        return set(self._phases) == wanted and set(self._phases.values()) <= {Phase.OWNED}

    def _begin(self, queues: list[MessageQueue]) -> list[MessageQueue]:
        """Begin queues; return those that can be consumed at once."""
        for queue in queues:
            if self._is_ordered(queue.topic):
                self._phases[queue] = Phase.LOCKING
                self._in_order.add(queue)
            else:
                self._phases[queue] = Phase.OWNED
        return [queue for queue in queues if self._phases[queue] is Phase.OWNED]

    def _leave(self, queue: MessageQueue) -> bool:
        if self._phases.get(queue) is not Phase.OWNED:
            return False
        self._phases[queue] = Phase.LEAVING
        return True

    def _forget(self, queue: MessageQueue) -> None:
        self._phases.pop(queue, None)
        self._locked_ms.pop(queue, None)
        self._in_order.discard(queue)
