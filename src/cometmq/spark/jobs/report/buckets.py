"""Divide a time range into equal buckets for charts: of a round length, and at least 24."""

from typing import Final

import msgspec

BUCKETS_MIN: Final = 24

SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

STEPS_MS: Final = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(count * SECOND_MS for count in (1, 2, 5, 10, 15, 30)),
    *(count * MINUTE_MS for count in (1, 2, 5, 10, 15, 30)),
    *(count * HOUR_MS for count in (1, 2, 3, 6, 12)),
    *(count * DAY_MS for count in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)),
)
"""Possible lengths; none is more than 2.5 times the one before."""

TIME_MIN: Final = 978_307_200_000
TIME_MAX: Final = 4_102_444_800_000
"""2001-01-01 and 2100-01-01, ms since the epoch: other store times come from a broken clock or a flipped bit.
One message with such a time would put all others into a single bucket."""


class Buckets(msgspec.Struct, frozen=True):
    """Adjacent buckets, each beginning at a multiple of its length (UTC).

    Attributes:
        start: begin of the first one, ms since the epoch.
        step_ms: length of each.
        count: number of buckets; 0 if there is no time range.
    """

    start: int
    step_ms: int
    count: int

    def index(self, time: int) -> int | None:
        """Return the index of a time's bucket; None if it is in none."""
        index = (time - self.start) // self.step_ms
        return index if 0 <= index < self.count else None

    def begin(self, index: int) -> int:
        """Return the begin of a bucket, ms since the epoch."""
        return self.start + index * self.step_ms


NO_BUCKETS: Final = Buckets(0, HOUR_MS, 0)


def buckets(first: int | None, last: int | None) -> Buckets:
    """Choose the longest buckets of which ``first`` to ``last`` touch ``BUCKETS_MIN`` or more, up to 59.

    A range too short for buckets of 1 ms gets ``BUCKETS_MIN`` of these, the last of which are empty. Times
    are in ms since the epoch, from ``TIME_MIN`` to ``TIME_MAX``; None if there are none.
    """
    if first is None or last is None:
        return NO_BUCKETS
    step = max((step for step in STEPS_MS if last // step - first // step + 1 >= BUCKETS_MIN), default=1)
    return Buckets(first // step * step, step, max(last // step - first // step + 1, BUCKETS_MIN))
