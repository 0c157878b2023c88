import numpy as np
import pytest

from cometmq.errors import SettingsError
from cometmq.format.delay_level import DELAY_MS_MAX, DelayLevels, may_be_due

DEFAULT = DelayLevels.parse()


def test_rocketmq_has_18_levels_from_a_second_to_two_hours() -> None:
    assert DEFAULT.max_level == 18
    assert DEFAULT.delays_ms[:5] == (1_000, 5_000, 10_000, 30_000, 60_000)
    assert DEFAULT.delays_ms[-1] == 7_200_000


def test_days_are_a_unit_too() -> None:
    assert DelayLevels.parse("2d 1h").delays_ms == (172_800_000, 3_600_000)


def test_ten_years_are_the_longest_delay() -> None:
    assert DelayLevels.parse("3650d").delays_ms == (DELAY_MS_MAX,)
    with pytest.raises(SettingsError, match="'3651d' is too long: give at most 3650d"):
        DelayLevels.parse("1s 3651d")


@pytest.mark.parametrize(
    ("delay_ms", "expected"),
    [
        (0, True),
        (3_000, True),
        (DELAY_MS_MAX, True),
        (DELAY_MS_MAX + 1_000, False),
        (-1_000, False),
        (3_001, False),
    ],
)
def test_a_message_may_be_due_whole_seconds_after_it_was_stored(delay_ms: int, expected: bool) -> None:
    stored = 1_700_000_000_123
    assert may_be_due(stored + delay_ms, stored) == expected
    assert may_be_due(np.array([stored + delay_ms]), np.array([stored])).tolist() == [expected]


def test_no_bit_that_flips_leaves_a_time_when_a_message_may_be_due() -> None:
    stored = 1_700_000_000_123
    for delay_ms in DEFAULT.delays_ms:
        assert not any(may_be_due((stored + delay_ms) ^ 1 << bit, stored) for bit in range(63))


@pytest.mark.parametrize("text", ["", " ", "1s ", "1s  2s", "1", "s", "1w", "-1s", "1s,2s", "1.5h", "١s"])
def test_refuses_what_is_no_list_of_delays(text: str) -> None:
    with pytest.raises(SettingsError, match="messageDelayLevel"):
        DelayLevels.parse(text)


@pytest.mark.parametrize(
    ("delay", "level"),
    [
        ("1", 1),
        ("+3", 3),
        ("03", 3),
        ("18", 18),
        ("19", 18),
        ("2147483647", 18),
        ("0" * 40 + "1", 1),
        ("0", 0),
        ("-1", 0),
    ],
)
def test_level_is_at_most_the_highest(delay: str, level: int) -> None:
    assert DEFAULT.level(delay) == level


@pytest.mark.parametrize("delay", ["", "x", "1 ", "1_0", "1.0", "٣", "2147483648", "9" * 5000])
def test_what_is_no_number_chooses_no_level(delay: str) -> None:
    assert DEFAULT.level(delay) == 0


def test_deliver_time_counts_from_the_store_time() -> None:
    assert DEFAULT.deliver_time(1, 1_700_000_000_000) == 1_700_000_001_000
    assert DEFAULT.deliver_time(18, 5) == 7_200_005
