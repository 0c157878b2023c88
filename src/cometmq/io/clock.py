"""Time, injected: nothing in the store or the decision layers reads the system's clock itself."""

import time
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

_monotonic_ns: Final[Callable[[], int]] = (
    partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME)
    if hasattr(time, "CLOCK_BOOTTIME")
    else time.monotonic_ns
)


class Clock(Protocol):
    """Where time comes from."""

    def now_ms(self) -> int:
        """Give the wall clock, ms since the epoch: what is stored with messages."""
        ...

    def monotonic_ms(self) -> int:
        """Return a clock that nobody sets, ms: what leases, silence and all other waiting is measured by."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        """Give the wall clock, ms since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Return the monotonic clock, ms; it goes on while the machine sleeps, where the system can tell."""
        return _monotonic_ns() // 1_000_000


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
