import pytest
from tests.interop import patience
from tests.interop.patience import FACTORS, TimesTooShort, wait_until, with_longer_times


def test_what_nobody_reports_is_asked_for_until_it_holds() -> None:
    answers = iter([0, 0, 1])
    wait_until(lambda: next(answers))
    assert list(answers) == []


def test_what_never_holds_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "PATIENCE_S", 0.2)
    with pytest.raises(AssertionError):
        wait_until(lambda: False)


@pytest.mark.parametrize("needed", FACTORS)
def test_times_are_doubled_until_they_are_long_enough(needed: int) -> None:
    tried: list[int] = []

    def attempt(factor: int) -> str:
        tried.append(factor)
        if factor < needed:
            raise TimesTooShort
        return f"done in {factor}"

    assert with_longer_times(attempt) == f"done in {needed}"
    assert tried == [factor for factor in FACTORS if factor <= needed]


def test_a_test_fails_if_even_the_longest_times_are_too_short() -> None:
    def attempt(_: int) -> None:
        raise TimesTooShort

    with pytest.raises(TimesTooShort):
        with_longer_times(attempt)


def test_a_failure_is_not_tried_again() -> None:
    tried: list[int] = []

    def attempt(factor: int) -> None:
        tried.append(factor)
        raise AssertionError("a message came early")

    with pytest.raises(AssertionError, match="early"):
        with_longer_times(attempt)
    assert tried == [1]
