"""Transaction check: decide what to do about half messages that have not been ended.

A half message waits in the half topic's queue until its producer ends it by commit or rollback. The messages
of the op topic say which ones are ended. A round examines the half messages in their order, from the
first one that is not settled::

    half queue   0 ─────────── half_offset ───────────────── end
                   settled     │ ended: skipped
                               │ its producer was asked too often: given up
                               │ younger than its immunity: the round ends
                               │ it waits for its own immunity, or for a producer: left where it is
                               └ else: put back at the queue's end, and its producer is asked

Messages after the queue's end at the beginning of a round wait for the next one. Only requests to a producer
count: a half message that waits for its own immunity, or whose producers are away, is never given up.

So all half messages that are not ended lie at or after ``half_offset``. A message that was put back replaces
the original; ``Endings`` keeps its new offset, since the producer may still end it by the old one. A message
that is left where it is holds ``half_offset`` back; so it is put back, uncounted, once much lies after it.

Source: RocketMQ: TransactionalMessageServiceImpl.java, ``check``.
"""

from collections import deque
from collections.abc import Iterable
from enum import Enum, auto
from typing import Final, NamedTuple

REMEMBERED_MAX: Final = 100_000
"""Most settled half messages that are remembered: of the ended, the put back and the given up ones each."""
LEFT_BEFORE_MAX: Final = 1_000
"""A waiting half message is left where it is while at most this many messages lie after it."""


class Verdict(Enum):
    """The decision of a round about a half message that is not ended."""

    ASK = auto()
    """Put it back, and ask its producer for the state of the transaction."""
    WAIT = auto()
    """Keep it where it is, without counting: by its own immunity it is too early to ask."""
    GIVE_UP = auto()
    """Move it to where operators find it: its producer was asked often enough."""
    END_ROUND = auto()
    """It is too early to ask, and therefore also for all messages after it."""


class CheckRules(NamedTuple):
    """The times and limits of the transaction check.

    Attributes:
        immunity_ms: age of a half message from which its producer is asked.
        asks_max: most requests about one half message.
        age_ms_max: age up to which a half message waits for a producer that can be asked.
    """

    immunity_ms: int
    asks_max: int
    age_ms_max: int


class HalfMessage(NamedTuple):
    """The facts about a half message on which a decision depends.

    Attributes:
        born_time: when the producer created it, ms since the epoch, by the producer's clock.
        store_time: when the broker stored it, or put it back, ms since the epoch, by its own clock.
        asks: how often its producer was asked.
        immunity_ms: the age from which its producer may be asked, by its own property; None for that of the
            rules.
    """

    born_time: int
    store_time: int
    asks: int = 0
    immunity_ms: int | None = None

    def own_immunity_ms(self, rules: CheckRules) -> int | None:
        """Return its own immunity, at least that of the rules; None if it has none of its own."""
        return None if self.immunity_ms is None else max(self.immunity_ms, rules.immunity_ms)

    def age_ms(self, now: int) -> int:
        """Return its age in ms, counted from its store time if the producer's clock is ahead."""
        return now - min(self.born_time, self.store_time)

    def is_too_old(self, rules: CheckRules, now: int) -> bool:
        """Check whether it has waited too long for a producer that can be asked."""
        return self.age_ms(now) > rules.age_ms_max


def judge(half: HalfMessage, rules: CheckRules, now: int) -> Verdict:
    """Decide what to do about a half message that is not ended.

    Args:
        now: ms since the epoch, by the wall clock that set its store time.
    """
    age_ms = half.age_ms(now)
    if half.asks >= rules.asks_max:
        return Verdict.GIVE_UP
    if (immunity_ms := half.own_immunity_ms(rules)) is not None:
        return Verdict.WAIT if 0 <= age_ms <= immunity_ms else Verdict.ASK
    return Verdict.END_ROUND if 0 <= age_ms <= rules.immunity_ms else Verdict.ASK


class Endings:
    """The half messages that are ended, identified by their offset in the half queue.

    Attributes:
        half_offset: all half messages before it are settled.
        op_offset: messages of the op queue before it name only settled half messages.
        next_op_offset: messages of the op queue before it have been recorded.
    """

    def __init__(self, half_offset: int, op_offset: int) -> None:
        self.half_offset = half_offset
        self.op_offset = self.next_op_offset = op_offset
        self._ended: dict[int, None] = {}
        self._moved: dict[int, int] = {}
        self._given_up: dict[int, None] = {}
        self._ops: deque[tuple[int, int]] = deque()

    def record_op(self, op_offset: int, half_offsets: Iterable[int], next_op_offset: int) -> None:
        """Record a message of the op queue, which names ended half messages; call in the queue's order."""
        ended = list(half_offsets)
        for half_offset in ended:
            self.end(half_offset)
        self._ops.append((op_offset, max(ended, default=-1)))
        self.next_op_offset = next_op_offset
        self._use_up_ops()

    def end(self, half_offset: int) -> None:
        """Record that a half message is ended, whether or not the op queue says so yet."""
        self._ended[half_offset] = None

    def is_ended(self, half_offset: int) -> bool:
        """Return whether a half message is ended, or replaced by another one."""
        return half_offset in self._ended

    def is_settled(self, half_offset: int) -> bool:
        """Return whether rounds skip a half message because it is ended or given up."""
        return half_offset in self._ended or half_offset in self._given_up

    def is_remembered(self, half_offset: int) -> bool:
        """Return whether the state of a half message is known; old settled ones may be forgotten."""
        return half_offset >= self.half_offset or half_offset in self._ended or half_offset in self._given_up

    def give_up(self, half_offset: int) -> None:
        """Record that a half message is given up: its producers are asked no more."""
        self._given_up[half_offset] = None

    def put_back(self, half_offset: int, at: int) -> None:
        """Record that a half message was put back at offset ``at``, which replaces it."""
        self.end(half_offset)
        self._moved[half_offset] = at

    def latest(self, half_offset: int) -> int:
        """Return the offset of the half message that replaces this one now, or its own offset."""
        while (at := self._moved.get(half_offset)) is not None:
            half_offset = at
        return half_offset

    def advance(self, half_offset: int) -> None:
        """Mark all half messages before an offset as settled."""
        self.half_offset = half_offset
        self._use_up_ops()
        for table in (self._ended, self._moved, self._given_up):
            while len(table) > REMEMBERED_MAX and (oldest := next(iter(table))) < half_offset:
                del table[oldest]

    def _use_up_ops(self) -> None:
        while self._ops and self._ops[0][1] < self.half_offset:
            self._ops.popleft()
        self.op_offset = self._ops[0][0] if self._ops else self.next_op_offset
