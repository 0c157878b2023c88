"""Time, injected: nothing in the store or the decision layers reads the system's clock itself."""

import time
from typing import Protocol


class Clock(Protocol):
    """Where time comes from."""

    def now_ms(self) -> int:
        """Give the wall clock, ms since the epoch: what is stored with messages."""
        ...

    def monotonic_ms(self) -> int:
        """Give a clock that never goes back, ms: what intervals are measured by."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        """Give the wall clock, ms since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Give the monotonic clock, ms."""
        return time.monotonic_ns() // 1_000_000


class ManualClock:
    """A clock that moves only when told to: for tests."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = 0

    def now_ms(self) -> int:
        """Give the wall clock, ms since the epoch."""
        return self._now_ms

    def monotonic_ms(self) -> int:
        """Give the monotonic clock, ms."""
        return self._monotonic_ms

    def advance(self, ms: int) -> None:
        """Let ``ms`` milliseconds pass on both clocks."""
        self._now_ms += ms
        self._monotonic_ms += ms

    def set_wall(self, now_ms: int) -> None:
        """Turn the wall clock, as an administrator or NTP would; intervals are not touched."""
        self._now_ms = now_ms
