"""The store's clock, and when its wall clock was set: so that nothing waits by a time that has moved.

What waits, waits for a time that lies on the disk beside a record: when a delayed message is due, how old a
half message or a file is. Such a time is one of the wall clock, which an administrator or NTP may set, by an
hour or by a year, while the message waits. The wall clock is believed for what it writes, and for
appointments (a timed message that is due at 12:00), but not for how much time has passed: that says the
monotonic clock.

So each look at the wall clock is held against the monotonic clock. If the two part by STEP_MS or more between
two looks, the wall clock was set. Since each append looks at it first, it is known which records were stored
before a step: those that lie before the end of the log of then. Their times, moved by the step, are times of
the clock as it goes now::

    passed = now - store time - steps.since(offset of the record)

Steps are known for the life of a process. Of those between two lives a reader sees at most that a record was
stored in the future; what waits then waits no longer.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from cometmq.io.clock import Clock

STEP_MS: Final = 1_000
"""The wall clock was set if it moved by so much more, or less, than the monotonic clock."""
STEPS_MAX: Final = 100
"""So many steps are remembered, the latest ones."""

_log = logging.getLogger(__name__)


class ClockSteps:
    """A clock that notices when its wall clock is set.

    Args:
        end_offset: gives where the CommitLog ends.

    Attributes:
        begin_offset: records before it were stored by processes before this one, by whatever clock.
    """

    def __init__(self, clock: Clock, end_offset: Callable[[], int]) -> None:
        self._clock = clock
        self._end_offset = end_offset
        self._ahead_ms = clock.now_ms() - clock.monotonic_ms()
        self.begin_offset = end_offset()
        self._steps: deque[tuple[int, int]] = deque(maxlen=STEPS_MAX)

    def now_ms(self) -> int:
        """Return the wall clock, ms since the epoch."""
        now = self._clock.now_ms()
        if abs(now - self._clock.monotonic_ms() - self._ahead_ms) >= STEP_MS:
            now = self._look_again()
        return now

    def monotonic_ms(self) -> int:
        """Return the monotonic clock, ms."""
        return self._clock.monotonic_ms()

    def since(self, physical_offset: int) -> int:
        """Return by how many ms the wall clock was set ahead, in all, since a record was stored."""
        return sum(ms for end_offset, ms in self._steps if end_offset > physical_offset)

    def _look_again(self) -> int:
        """Record a step, unless the process only stood still between its looks at the two clocks."""
        now = self._clock.now_ms()
        ahead_ms = now - self._clock.monotonic_ms()
        step_ms, self._ahead_ms = ahead_ms - self._ahead_ms, ahead_ms
        if abs(step_ms) >= STEP_MS:
            self._steps.append((self._end_offset(), step_ms))
            _log.warning(
                "the wall clock was set %s by %.1f s: messages get the new time; how long they have waited, "
                "and how old files are, is counted on without it, and timed messages come by the new time",
                "ahead" if step_ms > 0 else "back",
                abs(step_ms) / 1000,
            )
        return now
