"""The broker's traffic: totals, and averages over the last 10, 60 and 600 seconds."""

import time
from array import array
from collections import Counter
from typing import Final

from cometmq.broker.state.put_times import PutTimes
from cometmq.io.clock import Clock

SPANS_S: Final = (10, 60, 600)
SAMPLES: Final = SPANS_S[-1] + 1
"""Most samples of a rate that are kept; a new one replaces the oldest."""


class Rate:
    """One count that only grows.

    Attributes:
        total: since the start.
        this_morning: the total when the day began, local time.
        yesterday_morning: … when yesterday began.
    """

    def __init__(self) -> None:
        self.total = 0
        self.this_morning = 0
        self.yesterday_morning = 0
        # Allocated in full at the start: a broker's memory must not grow for ten minutes.
        self._times_ms = array("q", bytes(8 * SAMPLES))
        self._totals = array("q", bytes(8 * SAMPLES))
        self._sampled = 0

    def sample(self, now_ms: int) -> None:
        """Record the total at ``now_ms``, on the monotonic clock; call it every second."""
        at = self._sampled % SAMPLES
        self._times_ms[at], self._totals[at] = now_ms, self.total
        self._sampled += 1

    def begin_day(self) -> None:
        """Record the total at the beginning of a day."""
        self.yesterday_morning, self.this_morning = self.this_morning, self.total

    def per_second(self) -> tuple[float, ...]:
        """Return the averages over the last 10, 60 and 600 seconds, or over all samples if they are fewer."""
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
        """Format the averages as in RocketMQ's runtime info: ``a b c``."""
        return sum_text(self)


class Rates:
    """All counts of one broker.

    Attributes:
        stored: messages stored.
        stored_bytes: bytes of their records.
        refused: messages that could not be stored.
        found: pulls answered with messages.
        missed: pulls answered without messages.
        delivered: messages sent to consumers.
        sent_back: messages that consumers sent back for another delivery, by ``topic@group``.
        put_times: times of sends.
        send_rows: usual sends, by the body of the leaf operation that encoded them.
        rare_sends: sends that it left, and that were checked as commands.
        pull_rows: pulls that were read as rows, by the body of the leaf operations that read them.
        pull_commands: pulls that were decoded as commands: in an unusual form, or from a congested peer.
        rare_pulls: pulls that the leaf operations did not answer or hold: refused, or answered by a reading.
        query_rows, query_commands: the same of queries for messages by key and by id.
        rare_queries: queries that were answered by a reading.
        ack_rows, ack_commands: acknowledgements of popped messages, counted as pulls are.
    """

    def __init__(self, clock: Clock) -> None:
        self.stored = Rate()
        self.stored_bytes = Rate()
        self.refused = Rate()
        self.found = Rate()
        self.missed = Rate()
        self.delivered = Rate()
        self.sent_back: Counter[str] = Counter()
        self.put_times = PutTimes(clock)
        self.send_rows: Counter[str] = Counter()
        self.rare_sends = 0
        self.pull_rows: Counter[str] = Counter()
        self.pull_commands = 0
        self.rare_pulls = 0
        self.query_rows: Counter[str] = Counter()
        self.query_commands = 0
        self.rare_queries = 0
        self.ack_rows: Counter[str] = Counter()
        self.ack_commands = 0
        self._clock = clock
        self._day = self._today()

    def sample(self) -> None:
        """Record all totals; call it every second."""
        now_ms, today = self._clock.monotonic_ms(), self._today()
        for rate in (self.stored, self.stored_bytes, self.refused, self.found, self.missed, self.delivered):
            rate.sample(now_ms)
            if today != self._day:
                rate.begin_day()
        self._day = today
        self.put_times.sample()

    def _today(self) -> tuple[int, ...]:
        return time.localtime(self._clock.now_ms() // 1000)[:3]


def sum_text(*rates: Rate) -> str:
    """Format the sums of several rates' averages as in RocketMQ's runtime info: ``a b c``."""
    return " ".join(
        str(sum(averages)) for averages in zip(*[rate.per_second() for rate in rates], strict=True)
    )
