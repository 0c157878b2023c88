import pytest

from cometmq.errors import SettingsError
from cometmq.format.delay_level import DelayLevels

DEFAULT = DelayLevels.parse()


def test_rocketmq_has_18_levels_from_a_second_to_two_hours() -> None:
    assert DEFAULT.max_level == 18
    assert DEFAULT.delays_ms[:5] == (1_000, 5_000, 10_000, 30_000, 60_000)
    assert DEFAULT.delays_ms[-1] == 7_200_000


def test_days_are_a_unit_too() -> None:
    assert DelayLevels.parse("2d 1h").delays_ms == (172_800_000, 3_600_000)


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
