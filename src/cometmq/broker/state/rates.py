"""How much goes through the broker: totals, and averages over the last 10, 60 and 600 seconds."""

import time
from array import array
from collections import Counter
from typing import Final

from cometmq.broker.state.put_times import PutTimes
from cometmq.io.clock import Clock

SAMPLE_INTERVAL_MS: Final = 1_000
SPANS_S: Final = (10, 60, 600)
SAMPLES: Final = SPANS_S[-1] + 1
"""So many samples of a rate are kept, in place of the oldest."""


class Rate:
    """One count that only grows.

    Attributes:
        total: since the start.
        this_morning: what the total was when the day began, local time.
        yesterday_morning: … when yesterday began.
    """

    def __init__(self) -> None:
        self.total = 0
        self.this_morning = 0
        self.yesterday_morning = 0
        # All their room from the start: a broker's memory is not to grow for ten minutes.
        self._times_ms = array("q", bytes(8 * SAMPLES))
        self._totals = array("q", bytes(8 * SAMPLES))
        self._sampled = 0

    def sample(self, now_ms: int) -> None:
        """Note the total at ``now_ms``, on the monotonic clock; call it every second."""
        at = self._sampled % SAMPLES
        self._times_ms[at], self._totals[at] = now_ms, self.total
        self._sampled += 1

    def begin_day(self) -> None:
        """Note that a day has begun."""
        self.yesterday_morning, self.this_morning = self.this_morning, self.total

    def per_second(self) -> tuple[float, ...]:
        """Give the averages over the last 10, 60 and 600 seconds, as far as the samples go."""
        samples = [number % SAMPLES for number in range(max(self._sampled - SAMPLES, 0), self._sampled)]
        if len(samples) < 2:
            return tuple(0.0 for _ in SPANS_S)
        now_ms, total = self._times_ms[samples[-1]], self._totals[samples[-1]]
        averages = []
        for span in SPANS_S:
            then = next(at for at in samples if self._times_ms[at] >= now_ms - span * 1000)
            took_ms = now_ms - self._times_ms[then]
            averages.append((total - self._totals[then]) * 1000 / took_ms if took_ms else 0.0)
        return tuple(averages)

    def text(self) -> str:
        """Give the averages as RocketMQ's runtime info has them: ``a b c``."""
        return sum_text(self)


class Rates:
    """All counts of one broker.

    Attributes:
        stored: messages stored.
        stored_bytes: bytes of their records.
        refused: messages that could not be stored.
        found: pulls that gave messages.
        missed: pulls that gave none.
        given: messages given to consumers.
        put_times: how long sends took.
        pull_rows: pulls that were read as rows, by which body of the leaf operations read them.
        pull_commands: pulls that came as commands: in an unusual spelling, or to a peer that lags behind.
        rare_pulls: pulls that the leaf operations did not answer or hold: refused, or answered by a reading.
    """

    def __init__(self, clock: Clock) -> None:
        self.stored = Rate()
        self.stored_bytes = Rate()
        self.refused = Rate()
        self.found = Rate()
        self.missed = Rate()
        self.given = Rate()
        self.put_times = PutTimes(clock)
        self.pull_rows: Counter[str] = Counter()
        self.pull_commands = 0
        self.rare_pulls = 0
        self._clock = clock
        self._day = self._today()

    def sample(self) -> None:
        """Note all totals; call it every second."""
        now_ms, today = self._clock.monotonic_ms(), self._today()
        for rate in (self.stored, self.stored_bytes, self.refused, self.found, self.missed, self.given):
            rate.sample(now_ms)
            if today != self._day:
                rate.begin_day()
        self._day = today
        self.put_times.sample()

    def _today(self) -> tuple[int, ...]:
        return time.localtime(self._clock.now_ms() // 1000)[:3]


def sum_text(*rates: Rate) -> str:
    """Give the averages of several counts together, as RocketMQ's runtime info has them: ``a b c``."""
    return " ".join(
        str(sum(averages)) for averages in zip(*[rate.per_second() for rate in rates], strict=True)
    )
