"""How long sends take, from when they are taken to their answers: what operators' tools show of it.

Source: RocketMQ ``store/StoreStatsService.java`` (names and bounds of the classes; a minute each).
"""

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Final

from cometmq.io.clock import Clock

Done = Callable[[str | None], None]

SPAN_MS: Final = 60_000
LIMIT_MS: Final = 10_000
"""What took longer counts as long."""
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
    """Counts sends by their times.

    Attributes:
        longest_ms: the longest time since the start.
    """

    def __init__(self, clock: Clock) -> None:
        self.longest_ms = 0
        self._clock = clock
        self._began_ms = clock.monotonic_ms()
        self._times: Counter[int] = Counter()
        self._last: Counter[int] = Counter()

    def begin(self) -> int:
        """Give what ``end`` needs to know."""
        return self._clock.monotonic_ms()

    def since(self, begun_ms: int) -> int:
        """Give the time since ``begin`` gave that, ms."""
        return self._clock.monotonic_ms() - begun_ms

    def end(self, begun_ms: int, count: int) -> None:
        """Note that ``count`` messages were answered."""
        self.note(self.since(begun_ms), count)

    def note(self, took_ms: int, count: int) -> None:
        """Note that ``count`` messages took so long."""
        if took_ms > self.longest_ms:
            self.longest_ms = took_ms
        self._times[took_ms if took_ms <= LIMIT_MS else LIMIT_MS + 1] += count

    def ending(self, begun_ms: int, count: int, done: Done) -> Done:
        """Give what calls ``done`` and notes that ``count`` messages were answered."""

        def answer(unsafe: str | None) -> None:
            done(unsafe)
            self.end(begun_ms, count)

        return answer

    def sample(self) -> None:
        """Begin a new minute when the last one is over; call it every second."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._began_ms >= SPAN_MS:
            self._began_ms = now_ms
            self._last, self._times = self._times, Counter()

    def distribution(self) -> str:
        """Tell how many messages of the last minute took how long: ``[<=0ms]:12 [0~10ms]:3 …``."""
        counts = [
            sum(count for took_ms, count in self._last.items() if low < took_ms <= high)
            for low, high in pairwise((-1, *CLASSES.values()))
        ]
        return "".join(f"[{name}]:{count} " for name, count in zip(CLASSES, counts, strict=True))

    def within(self, share: float) -> str:
        """Tell in how many ms this share of the last minute's messages was answered, as text."""
        wanted = self._last.total() * share
        for took_ms, count in sorted(self._last.items()):
            wanted -= count
            if wanted <= 0:
                return f"{took_ms:.2f}"
        return "0.00"
