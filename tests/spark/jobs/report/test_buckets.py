import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.spark.jobs.report.buckets import (
    BUCKETS_MIN,
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    NO_BUCKETS,
    STEPS_MS,
    TIME_MAX,
    TIME_MIN,
    Buckets,
    buckets,
)

BUCKETS_MAX = 59
MOMENT = 1_769_850_000_000
"""2026-01-31 09:00 UTC."""

times = st.integers(TIME_MIN, TIME_MAX)
spans = st.integers(0, 40).flatmap(lambda bits: st.integers(0, 2**bits))  # of any order of size


@given(times, spans)
def test_there_are_enough_of_a_round_length_and_no_more_than_can_be_seen(first: int, span_ms: int) -> None:
    last = min(first + span_ms, TIME_MAX)
    chosen = buckets(first, last)
    assert BUCKETS_MIN <= chosen.count <= BUCKETS_MAX
    assert chosen.step_ms in STEPS_MS and chosen.start % chosen.step_ms == 0
    assert chosen.index(first) == 0
    if last - first >= BUCKETS_MIN:  # else a bucket of 1 ms is too long
        assert chosen.index(last) == chosen.count - 1


@given(times, spans, spans)
def test_each_time_is_in_the_bucket_that_begins_last_before_it(
    first: int, span_ms: int, more_ms: int
) -> None:
    last = min(first + span_ms, TIME_MAX)
    chosen = buckets(first, last)
    index = chosen.index(first + more_ms)
    if index is None:
        assert first + more_ms > last
    else:
        assert chosen.begin(index) <= first + more_ms < chosen.begin(index + 1)
    assert chosen.index(chosen.start - 1) is None
    assert chosen.index(chosen.begin(chosen.count)) is None


@pytest.mark.parametrize(
    ("span_ms", "expected"),
    [
        (0, Buckets(MOMENT, 1, 24)),
        (HOUR_MS, Buckets(MOMENT, 2 * MINUTE_MS, 31)),
        (2 * HOUR_MS + 1, Buckets(MOMENT, 5 * MINUTE_MS, 25)),
        (DAY_MS - 1, Buckets(MOMENT, HOUR_MS, 24)),
        (3 * DAY_MS, Buckets(MOMENT, 3 * HOUR_MS, 25)),
        (30 * DAY_MS, Buckets(MOMENT - 9 * HOUR_MS, DAY_MS, 31)),
    ],
)
def test_lengths_are_those_of_clocks_and_calendars(span_ms: int, expected: Buckets) -> None:
    assert buckets(MOMENT, MOMENT + span_ms) == expected


def test_where_there_is_no_time_there_is_no_bucket() -> None:
    assert buckets(None, None) is NO_BUCKETS
    assert NO_BUCKETS.index(0) is None
