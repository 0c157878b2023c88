"""Which queues a consumer has, which it wants, and which it is about to give up.

Theory of operation: a rebalance *aims* at a share of a topic's queues. Each queue then goes its way through
the phases by itself, so that those that stay are not touched by those that come and go:

* concurrent: wanted → **OWNED** → not wanted → **LEAVING** → *left*, and gone;
* ordered: wanted → **LOCKING** → the broker grants the lock → **OWNED** → not wanted, or the lock is lost →
  **LEAVING** → *left*, and gone, or LOCKING again if it is wanted.

LEAVING lasts while messages of the queue are being handled and its offset is committed. An ordered queue is
unlocked only after it has left: its next owner cannot begin before. A lock counts from when it was *asked*
for; a member that cannot renew it in time stops by itself, long before the broker gives it to somebody else.

Pure: events and times in, instructions out. (RocketMQ: RebalanceImpl.java.)
"""

from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import Final, NamedTuple

from cometmq.message import MessageQueue

LOCK_TRUSTED_MS: Final = 30_000
"""How long a lock is relied on after it was asked for; a broker keeps it for 60 s."""


class Phase(Enum):
    """Where a queue is on its way."""

    LOCKING = auto()
    OWNED = auto()
    LEAVING = auto()


class Moves(NamedTuple):
    """What to do now.

    Attributes:
        take: begin to consume these.
        leave: stop handing out messages of these; say ``left`` when none is being handled any more.
    """

    take: list[MessageQueue]
    leave: list[MessageQueue]


class Assignment:
    """The queues of one consumer.

    Args:
        is_ordered: whether a topic's queues are consumed in order, under a lock. Asked when a queue is begun:
            it goes its way to the end as it began.
    """

    def __init__(self, is_ordered: Callable[[str], bool]) -> None:
        self._is_ordered = is_ordered
        self._shares: dict[str, frozenset[MessageQueue]] = {}
        self._phases: dict[MessageQueue, Phase] = {}
        self._in_order: set[MessageQueue] = set()
        self._locked_ms: dict[MessageQueue, int] = {}

    def aim(self, topic: str, share: Iterable[MessageQueue]) -> Moves:
        """Note which queues of a topic shall be had from now on; what a share names of others is not."""
        wanted = self._shares[topic] = frozenset(queue for queue in share if queue.topic == topic)
        had = [queue for queue in self._phases if queue.topic == topic]
        gone = sorted(queue for queue in had if queue not in wanted)
        for queue in gone:
            if self._phases[queue] is Phase.LOCKING:
                self._forget(queue)
        leave = [queue for queue in gone if self._leave(queue)]
        return Moves(self._begin(sorted(wanted - set(had))), leave)

    def granted(self, asked: Iterable[MessageQueue], granted: Iterable[MessageQueue], asked_ms: int) -> Moves:
        """Note which of the locks that were ``asked`` for the broker gave."""
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
        """Give up the queues whose lock was not renewed in time."""
        late = [queue for queue in self._locked_ms if not self.holds(queue, now_ms)]
        return Moves([], [queue for queue in late if self._leave(queue)])

    def left(self, queue: MessageQueue) -> Moves:
        """Note that a queue that was to be left has been; it may be wanted again by now."""
        self._forget(queue)
        wanted = queue in self._shares.get(queue.topic, frozenset())
        return Moves(self._begin([queue]) if wanted else [], [])

    def holds(self, queue: MessageQueue, now_ms: int) -> bool:
        """Tell whether the next message of a queue may be handed out."""
        if self._phases.get(queue) is not Phase.OWNED:
            return False
        locked_ms = self._locked_ms.get(queue)
        return locked_ms is None or now_ms - locked_ms < LOCK_TRUSTED_MS

    def needs_lock(self, queue: MessageQueue) -> bool:
        """Tell whether a queue is consumed in order, under a lock."""
        return queue in self._in_order

    def to_lock(self) -> list[MessageQueue]:
        """Give the queues whose lock is wanted, or must be renewed."""
        return [queue for queue in self._phases if queue in self._in_order]

    def to_begin(self) -> list[MessageQueue]:
        """Give the queues that wait for their lock."""
        return [queue for queue, phase in self._phases.items() if phase is Phase.LOCKING]

    def owned(self) -> list[MessageQueue]:
        """Give the queues that are consumed now, in order."""
        return sorted(queue for queue, phase in self._phases.items() if phase is Phase.OWNED)

    def is_settled(self) -> bool:
        """Tell whether the queues are those that were aimed at."""
        wanted = set().union(*self._shares.values())
        return set(self._phases) == wanted and set(self._phases.values()) <= {Phase.OWNED}

    def _begin(self, queues: list[MessageQueue]) -> list[MessageQueue]:
        """Give those that can be taken at once."""
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
