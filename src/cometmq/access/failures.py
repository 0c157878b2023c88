"""Counts, for each address, the requests of nobody that is known: forged, unsigned, of unknown users."""

from collections import Counter
from collections.abc import Callable
from typing import Final

FAILURES_MAX: Final = 100
"""How many failed requests an address may have in a window, unless a setting says otherwise."""
WINDOW_MS: Final = 60_000
"""How long failures are counted before the count begins again."""
ADDRESSES_MAX: Final = 10_000
"""Most addresses that are counted; with one more all counts begin again."""


class Failures:
    """The failed requests of each address, in a window of time.

    Args:
        most: how many an address may have before it is suspect; 0 for any number.
        now_ms: returns a monotonic time, in ms.
    """

    def __init__(self, most: int, now_ms: Callable[[], int]) -> None:
        self.most = most
        self._now_ms = now_ms
        self._counts: Counter[str] = Counter()
        self._begun_ms = now_ms()

    def add(self, address: str) -> None:
        """Count a failed request from an IP address."""
        self._begin_again()
        self._counts[address] += 1
        if len(self._counts) > ADDRESSES_MAX:
            self._counts.clear()

    def is_suspect(self, address: str) -> bool:
        """Return whether an address has more failures in this window than it may have."""
        self._begin_again()
        return 0 < self.most < self._counts[address]

    def _begin_again(self) -> None:
        now = self._now_ms()
        if now - self._begun_ms >= WINDOW_MS:
            self._begun_ms = now
            self._counts.clear()
