import pytest

from cometmq.admin.readable import body_text, duration_text, time_text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"plain", "plain"),
        ("größer\tals\r\n".encode(), "größer\tals\r\n"),
        (b"", ""),
        (b"\xff\xfe", None),
        (b"\x1b[2J", None),
        (b"a\x00b", None),
    ],
)
def test_a_body_is_text_if_people_can_read_it(body: bytes, text: str | None) -> None:
    assert body_text(body) == text


def test_times_are_utc_and_one_that_no_calendar_has_stays_a_number() -> None:
    assert time_text(0) == "1970-01-01T00:00:00.000Z"
    assert time_text(1_600_000_000_123) == "2020-09-13T12:26:40.123Z"
    for beyond in (2**63 - 1, -(2**63), 300_000_000_000_000):
        assert time_text(beyond) == str(beyond)


@pytest.mark.parametrize(
    ("length_ms", "text"),
    [(-1, "0s"), (999, "0s"), (61_000, "1m 1s"), (3_600_000, "1h"), (90_061_000, "1d 1h")],
)
def test_a_length_of_time_is_told_by_its_largest_units(length_ms: int, text: str) -> None:
    assert duration_text(length_ms) == text
