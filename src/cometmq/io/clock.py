"""The clock as an interface: the store and the decision layers never read the system's clock themselves."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, Protocol

_monotonic_ns: Final[Callable[[], int]] = (
    partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME)
    if hasattr(time, "CLOCK_BOOTTIME")
    else time.monotonic_ns
)


_BOOT_ID_PATH: Final = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Return the id of the machine's current boot, since which the monotonic clock runs; empty if unknown."""
    try:
        return _BOOT_ID_PATH.read_text().strip()
    except OSError:
        return ""


class Clock(Protocol):
    """A source of wall-clock and monotonic time."""

    def now_ms(self) -> int:
        """Return the wall-clock time, ms since the epoch: the time that is stored with messages."""
        ...

    def monotonic_ms(self) -> int:
        """Return the monotonic time in ms, which nobody can set: the base of leases, timeouts and waits."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Return the wall-clock time, ms since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Return the monotonic time in ms; on Linux it also advances while the machine sleeps."""
        return _monotonic_ns() // 1_000_000


class ManualClock:
    """A clock for tests, which moves only by its methods."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = 0

    def now_ms(self) -> int:
        """Return the wall-clock time, ms since the epoch."""
        return self._now_ms

    def monotonic_ms(self) -> int:
        """Return the monotonic time in ms."""
        return self._monotonic_ms

    def advance(self, ms: int) -> None:
        """Advance both clocks by ``ms`` milliseconds."""
        self._now_ms += ms
        self._monotonic_ms += ms

    def set_wall(self, now_ms: int) -> None:
        """Set the wall clock, as an administrator or NTP would; the monotonic clock stays."""
        self._now_ms = now_ms
