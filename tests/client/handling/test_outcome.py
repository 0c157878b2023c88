import pytest

from cometmq.client.handling.outcome import Retry


def test_a_retry_says_when() -> None:
    assert (Retry().delay_level, Retry().suspend_ms, str(Retry())) == (0, None, "again later")
    assert str(Retry(delay_level=3)) == "again after delay level 3"


@pytest.mark.parametrize("level", [-1, 19, 99])
def test_a_level_that_no_broker_has_is_refused(level: int) -> None:
    with pytest.raises(ValueError, match=f"delay_level {level}: give an int from 0 to 18"):
        Retry(delay_level=level)
