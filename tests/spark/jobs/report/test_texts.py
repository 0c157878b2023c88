import pytest

from cometmq.spark.jobs.report.buckets import DAY_MS, HOUR_MS, MINUTE_MS
from cometmq.spark.jobs.report.texts import breakable, counted, rate_text, size_text, span_text, time_text


@pytest.mark.parametrize(
    ("each_ms", "text"),
    [
        (HOUR_MS, "09:00"),
        (90_000, "09:00:00"),
        (1_000, "09:00:00"),
        (200, "09:00:00.999"),
        (1, "09:00:00.999"),
    ],
)
def test_times_are_utc_and_as_precise_as_they_need_be(each_ms: int, text: str) -> None:
    assert time_text(1_769_850_000_999, each_ms) == f"<time>2026-01-31 {text}</time>"


def test_what_is_counted_is_one_or_many() -> None:
    assert [counted(count, "topic") for count in (0, 1, 1_234)] == ["0 topics", "1 topic", "1,234 topics"]


@pytest.mark.parametrize(
    ("span_ms", "text"),
    [
        (0, "0 ms"),
        (200, "200 ms"),
        (5 * MINUTE_MS, "5 min"),
        (HOUR_MS + 7, "1 h"),
        (65_432, "1 min 5 s"),
        (3 * DAY_MS + 4 * HOUR_MS + MINUTE_MS, "3 d 4 h"),
        (1_000 * DAY_MS, "1,000 d"),
    ],
)
def test_spans_have_their_two_largest_units(span_ms: int, text: str) -> None:
    assert span_text(span_ms) == text


@pytest.mark.parametrize(
    ("count", "span_ms", "text"),
    [
        (1_234_000, 1_000_000, "1,234/s"),
        (25, 10_000, "2.5/s"),
        (90, 60_000 * 90, "1/min"),
        (32, 10 * HOUR_MS, "3.2/h"),
        (1, 4 * DAY_MS, "0.2/d"),
    ],
)
def test_rates_have_a_unit_in_which_they_are_one_at_least(count: int, span_ms: int, text: str) -> None:
    assert rate_text(count, span_ms) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1,023 B"), (1536, "1.5 KiB"), (2**30 * 700, "700 GiB"), (2**62, "4,096 PiB")],
)
def test_sizes_are_binary(size: int, text: str) -> None:
    assert size_text(size) == text


def test_names_break_behind_separators_and_are_escaped() -> None:
    assert breakable("eu_west.<b>1") == "eu_<wbr>west.<wbr>&lt;<wbr>b&gt;<wbr>1"
    assert breakable("orders") == "orders"
    assert breakable("%größe%") == "%<wbr>größe%"
