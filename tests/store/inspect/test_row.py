from cometmq.store.inspect.row import time_field


def test_a_time_that_no_calendar_has_stays_a_number() -> None:
    assert time_field(8, "store_time", 1_700_000_000_123).text == "1700000000123 (2023-11-14T22:13:20.123Z)"
    for time_ms in (0, -5, 2**62):
        assert time_field(8, "store_time", time_ms) == (8, "store_time", time_ms, "")
