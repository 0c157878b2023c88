import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.admin.readable import time_text
from cometmq.admin.times import TIME_MAX, TimeRange, parse_duration, parse_range
from cometmq.errors import SettingsError

DAY = 1_795_219_200_000  # 2026-11-21T00:00:00Z


@pytest.mark.parametrize(
    ("text", "begin", "end"),
    [
        ("1795245165556", 1_795_245_165_556, 1_795_245_165_556),
        ("2026-11-21T07:12:45.556Z", 1_795_245_165_556, 1_795_245_165_556),
        ("2026-11-21 07:12:45.556", 1_795_245_165_556, 1_795_245_165_556),
        ("2026-11-21T15:12:45.556+08:00", 1_795_245_165_556, 1_795_245_165_556),
        ("2026-11-21T07:12:45", 1_795_245_165_000, 1_795_245_165_999),
        ("2026-11-21T07:12", 1_795_245_120_000, 1_795_245_179_999),
        ("2026-11-21", DAY, DAY + 86_399_999),
        ("2026-11-21..2026-11-22", DAY, DAY + 2 * 86_400_000 - 1),
        ("2026-11-21T07:12..", 1_795_245_120_000, TIME_MAX),
        ("..2026-11-21T07:12", 0, 1_795_245_179_999),
        ("..", 0, TIME_MAX),
    ],
)
def test_a_time_stands_for_all_that_it_does_not_say(text: str, begin: int, end: int) -> None:
    assert parse_range(text) == TimeRange(begin, end)


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "2026-13-01", "2026-11-21T25:00", "2026-11", "12:00", "5..x", "9" * 16, "2026-W01-1"],
)
def test_what_is_no_time_is_refused_with_examples(text: str) -> None:
    with pytest.raises(SettingsError, match=r"2026-11-21T07:12:45\.556Z"):
        parse_range(text)


def test_a_range_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(SettingsError, match="ends before it begins"):
        parse_range("2026-11-22..2026-11-21")


@given(st.integers(0, 253_402_300_799_999))
def test_a_time_that_was_printed_is_read_back(time_ms: int) -> None:
    assert parse_range(time_text(time_ms)) == TimeRange(time_ms, time_ms)
    assert parse_range(str(time_ms)) == TimeRange(time_ms, time_ms)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("72h", 72 * 3_600_000),
        ("3d", 259_200_000),
        ("30m", 1_800_000),
        ("10s", 10_000),
        ("500ms", 500),
        ("0h", 0),
    ],
)
def test_a_length_of_time_has_a_unit(text: str, ms: int) -> None:
    assert parse_duration("--age", text) == ms


@pytest.mark.parametrize("text", ["", "72", "h", "-1h", "1.5h", "1h30m", "1 h", "٣h", "1w"])
def test_what_is_no_length_of_time_is_refused_with_the_remedy(text: str) -> None:
    with pytest.raises(SettingsError, match=r"--age: .* is not a duration: write 72h"):
        parse_duration("--age", text)
