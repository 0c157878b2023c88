"""Times of sends, from their arrival to their responses, as operators' tools show them.

Source: RocketMQ ``store/StoreStatsService.java`` (names and bounds of the classes; a minute each).
"""

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Final, TypeVar

from cometmq.io.clock import Clock

OutcomeT = TypeVar("OutcomeT")

SPAN_MS: Final = 60_000
LIMIT_MS: Final = 10_000
"""Longer times are counted as one class."""
CLASSES: Final = {
    "<=0ms": 0,
    "0~10ms": 10,
    "10~50ms": 50,
    "50~100ms": 100,
    "100~200ms": 200,
    "200~500ms": 500,
    "500ms~1s": 1_000,
    "1~2s": 2_000,
    "2~3s": 3_000,
    "3~4s": 4_000,
    "4~5s": 5_000,
    "5~10s": LIMIT_MS,
    "10s~": LIMIT_MS + 1,
}
"""Name → the longest time, ms, that it stands for."""


class PutTimes:
    """Counts messages by the time that their send took.

    Attributes:
        longest_ms: the longest time since the start.
        begin: returns the start of a send, ms on the monotonic clock.
    """

    def __init__(self, clock: Clock) -> None:
        self.longest_ms = 0
        self.begin: Callable[[], int] = clock.monotonic_ms
        self._clock = clock
        self._began_ms = clock.monotonic_ms()
        self._times: Counter[int] = Counter()
        self._last: Counter[int] = Counter()
        self._before: Counter[int] = Counter()  # of all former minutes

    def since(self, begun_ms: int) -> int:
        """Return the time since ``begin`` returned ``begun_ms``, ms."""
        return self._clock.monotonic_ms() - begun_ms

    def end(self, begun_ms: int, count: int) -> None:
        """Record that ``count`` messages are answered now."""
        self.note(self.since(begun_ms), count)

    def note(self, took_ms: int, count: int) -> None:
        """Record the time of ``count`` messages."""
        if took_ms > self.longest_ms:
            self.longest_ms = took_ms
        self._times[took_ms if took_ms <= LIMIT_MS else LIMIT_MS + 1] += count

    def ending(
        self, begun_ms: int, count: int, done: Callable[[OutcomeT], None]
    ) -> Callable[[OutcomeT], None]:
        """Return a callback that calls ``done`` and then ``end``."""

        def answer(outcome: OutcomeT) -> None:
            done(outcome)
            self.end(begun_ms, count)

        return answer

    def sample(self) -> None:
        """Start a new minute when the last one is over; call it every second."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._began_ms >= SPAN_MS:
            self._began_ms = now_ms
            self._before.update(self._times)
            self._last, self._times = self._times, Counter()

    def all(self) -> Counter[int]:
        """Return the numbers of messages since the start by the time that they took, ms."""
        return self._before + self._times

    def distribution(self) -> str:
        """Return the counts of the last minute's messages by time: ``[<=0ms]:12 [0~10ms]:3 …``."""
        counts = [
            sum(count for took_ms, count in self._last.items() if low < took_ms <= high)
            for low, high in pairwise((-1, *CLASSES.values()))
        ]
        return "".join(f"[{name}]:{count} " for name, count in zip(CLASSES, counts, strict=True))

    def within(self, share: float) -> str:
        """Return the time, ms as text, within which a share of the last minute's messages was answered."""
        left = self._last.total() * share
        for took_ms, count in sorted(self._last.items()):
            left -= count
            if left <= 0:
                return f"{took_ms:.2f}"
        return "0.00"
