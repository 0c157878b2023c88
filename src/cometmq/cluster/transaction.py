"""What becomes of half messages that nobody has ended: the check-back, as decisions.

A half message waits in the half topic's queue until its producer ends it: commits it or rolls it back. Which
ones are ended, the messages of the op topic say. A round looks at the half messages in their order, from the
first on that is not done with::

    half queue   0 ─────────── half_offset ───────────────── end
                   done with   │ ended: passed over
                               │ its producer was asked too often: given up
                               │ younger than its immunity: the round ends
                               │ it waits for its own immunity, or for a producer: left where it is
                               └ else: put back at the queue's end, and its producer is asked

What is behind the queue's end as the round begins waits for the next one. Only questions count: one that
waits for its own immunity, or whose producers are away, is given up by no number of rounds.

So all half messages that are not ended lie at or behind ``half_offset``. What was put back is the message
from then on: where it went, ``Endings`` knows, for the producer may still end it by its former offset. One
that is left where it is holds ``half_offset``; so it is put back, uncounted, once much lies behind it.

Source: RocketMQ: TransactionalMessageServiceImpl.java, ``check``.
"""

from collections import deque
from collections.abc import Iterable
from enum import Enum, auto
from typing import Final, NamedTuple

REMEMBERED_MAX: Final = 100_000
"""So many half messages are remembered as ended, as put back and as given up, when they are done with."""
LEFT_BEFORE_MAX: Final = 1_000
"""A half message that waits is left where it is while no more than so many lie behind it."""


class Verdict(Enum):
    """What a round does about a half message that is not ended."""

    ASK = auto()
    """Put it back, and ask its producer."""
    WAIT = auto()
    """Keep it where it is, without counting: by its own wish it is too early to ask."""
    GIVE_UP = auto()
    """Move it to where operators find it: its producer was asked often enough."""
    END_ROUND = auto()
    """It is too early to ask, and so it is for all behind."""


class Rules(NamedTuple):
    """When a producer is asked.

    Attributes:
        immunity_ms: how old a half message must be.
        asks_max: how often at most.
        age_ms_max: up to which age a half message waits for a producer that can be asked.
    """

    immunity_ms: int
    asks_max: int
    age_ms_max: int


class HalfMessage(NamedTuple):
    """What a round must know of a half message.

    Attributes:
        born_time: when the producer made it, ms since the epoch, by the producer's clock.
        store_time: when the broker took it in, or put it back, ms since the epoch, by its own.
        asks: how often its producer was asked.
        immunity_ms: how old it wants to be before its producer is asked; None leaves it to the rules.
    """

    born_time: int
    store_time: int
    asks: int = 0
    immunity_ms: int | None = None

    def own_immunity_ms(self, rules: Rules) -> int | None:
        """Give how old it wants to be, which is no less than by the rules; None if it does not say."""
        return None if self.immunity_ms is None else max(self.immunity_ms, rules.immunity_ms)

    def age_ms(self, now: int) -> int:
        """Return how old it is: where the producer's clock is ahead, since it was stored."""
        return now - min(self.born_time, self.store_time)

    def is_too_old(self, rules: Rules, now: int) -> bool:
        """Check whether it has waited long enough for a producer that can be asked."""
        return self.age_ms(now) > rules.age_ms_max


def judge(half: HalfMessage, rules: Rules, now: int) -> Verdict:
    """Decide what to do about a half message that is not ended.

    Args:
        now: ms since the epoch, by the wall clock as it was when the message was stored.
    """
    age_ms = half.age_ms(now)
    if half.asks >= rules.asks_max:
        return Verdict.GIVE_UP
    if (immunity_ms := half.own_immunity_ms(rules)) is not None:
        return Verdict.WAIT if 0 <= age_ms <= immunity_ms else Verdict.ASK
    return Verdict.END_ROUND if 0 <= age_ms <= rules.immunity_ms else Verdict.ASK


class Endings:
    """Which half messages are ended; all are named by their offset in the half queue.

    Attributes:
        half_offset: all before it are done with.
        op_offset: messages of the op queue before it name none that is not done with.
        next_op_offset: messages of the op queue before it have been noted.
    """

    def __init__(self, half_offset: int, op_offset: int) -> None:
        self.half_offset = half_offset
        self.op_offset = self.next_op_offset = op_offset
        self._ended: dict[int, None] = {}
        self._moved: dict[int, int] = {}
        self._given_up: dict[int, None] = {}
        self._ops: deque[tuple[int, int]] = deque()

    def note_op(self, op_offset: int, half_offsets: Iterable[int], next_op_offset: int) -> None:
        """Note what a message of the op queue says; they must come in their order."""
        ended = list(half_offsets)
        for half_offset in ended:
            self.end(half_offset)
        self._ops.append((op_offset, max(ended, default=-1)))
        self.next_op_offset = next_op_offset
        self._use_up_ops()

    def end(self, half_offset: int) -> None:
        """Note that a half message is ended, whether or not the op queue says so yet."""
        self._ended[half_offset] = None

    def is_ended(self, half_offset: int) -> bool:
        """Tell whether a half message is ended, or another one stands for it."""
        return half_offset in self._ended

    def is_settled(self, half_offset: int) -> bool:
        """Check whether rounds pass a half message over: it is ended, or given up."""
        return half_offset in self._ended or half_offset in self._given_up

    def is_remembered(self, half_offset: int) -> bool:
        """Tell whether it is known what became of a half message; of what is done with it may not be."""
        return half_offset >= self.half_offset or half_offset in self._ended or half_offset in self._given_up

    def give_up(self, half_offset: int) -> None:
        """Note that nobody is asked for a half message any more."""
        self._given_up[half_offset] = None

    def put_back(self, half_offset: int, at: int) -> None:
        """Note that a half message is the one at offset ``at`` from now on."""
        self.end(half_offset)
        self._moved[half_offset] = at

    def latest(self, half_offset: int) -> int:
        """Give which half message stands for one now: the one that it was put back as, or itself."""
        while (at := self._moved.get(half_offset)) is not None:
            half_offset = at
        return half_offset

    def go_on(self, half_offset: int) -> None:
        """Be done with all before an offset."""
        self.half_offset = half_offset
        self._use_up_ops()
        for table in (self._ended, self._moved, self._given_up):
            while len(table) > REMEMBERED_MAX and (oldest := next(iter(table))) < half_offset:
                del table[oldest]

    def _use_up_ops(self) -> None:
        while self._ops and self._ops[0][1] < self.half_offset:
            self._ops.popleft()
        self.op_offset = self._ops[0][0] if self._ops else self.next_op_offset
