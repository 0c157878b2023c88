"""The store's clock, which detects steps of the wall clock, so that delays and ages stay right.

Delays and ages start at a store time on the disk, and NTP or an administrator may set the wall clock, by an
hour or by a year, while a message waits. Absolute times (a timed message that is due at 12:00) follow the
wall clock; elapsed time follows the monotonic clock.

Each reading of the wall clock is compared with the monotonic clock: if they have diverged by STEP_MS or more
since the last reading, the wall clock was set. Each append reads the clock first, so records before the log's
end at that moment are from before the step. The time since a record was stored::

    passed = now - store time - steps.since(offset of the record)

Steps are known for the life of a process. After a restart, a record stored "in the future" shows that the
clock was set back meanwhile; what waits for it then waits no longer.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from cometmq.io.clock import Clock
from cometmq.logs import get_logger

STEP_MS: Final = 1_000
"""Difference between the movements of the two clocks that counts as a step."""
STEPS_MAX: Final = 100
"""How many steps are kept, the latest ones."""

_log = get_logger(__name__)


class ClockSteps:
    """A clock that detects steps of its wall clock.

    Args:
        end_offset: returns the end offset of the CommitLog.

    Attributes:
        monotonic_ms: returns the monotonic clock, ms.
        begin_offset: records before it were stored by earlier processes, whose clock is unknown.
    """

    def __init__(self, clock: Clock, end_offset: Callable[[], int]) -> None:
        self._clock = clock
        self.monotonic_ms = clock.monotonic_ms
        self._end_offset = end_offset
        self._ahead_ms = clock.now_ms() - clock.monotonic_ms()
        self.begin_offset = end_offset()
        self._steps: deque[tuple[int, int]] = deque(maxlen=STEPS_MAX)

    def now_ms(self) -> int:
        """Return the wall clock, ms since the epoch."""
        now = self._clock.now_ms()
        if abs(now - self._clock.monotonic_ms() - self._ahead_ms) >= STEP_MS:
            now = self._check_step()
        return now

    def since(self, physical_offset: int) -> int:
        """Return by how many ms the wall clock was set ahead, in all, since a record was stored."""
        return sum(ms for end_offset, ms in self._steps if end_offset > physical_offset)

    def _check_step(self) -> int:
        """Record a step, unless the process was only suspended between reading the two clocks; return now."""
        now = self._clock.now_ms()
        ahead_ms = now - self._clock.monotonic_ms()
        step_ms, self._ahead_ms = ahead_ms - self._ahead_ms, ahead_ms
        if abs(step_ms) >= STEP_MS:
            self._steps.append((self._end_offset(), step_ms))
            _log.warning(
                "the wall clock was set %s by %.1f s: new messages and timed messages follow the new time; "
                "delays and the ages of files are not changed by it",
                "ahead" if step_ms > 0 else "back",
                abs(step_ms) / 1000,
            )
        return now
