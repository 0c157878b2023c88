import pytest

from cometmq.errors import FormatError
from cometmq.filter.conditions import IllegalExpression
from cometmq.filter.outcome_cache import OutcomeCache


def counting(*, count_max: int = 3, length_max: int = 100) -> tuple[OutcomeCache[str], list[str]]:
    made: list[str] = []

    def make(text: str) -> str:
        made.append(text)
        if "wrong" in text:
            raise IllegalExpression(f"no {text}")
        return text.upper()

    return OutcomeCache(make, count_max=count_max, length_max=length_max), made


def test_each_text_is_made_once_be_it_right_or_wrong() -> None:
    remembered, made = counting()
    for _ in range(2):
        assert remembered("right") == "RIGHT"
        with pytest.raises(IllegalExpression, match="no wrong"):
            remembered("wrong")
    assert made == ["right", "wrong"]


def test_an_error_is_raised_as_a_new_one_each_time() -> None:
    remembered, _ = counting()
    errors = []
    for _ in range(2):
        with pytest.raises(FormatError) as raised:
            remembered("wrong")
        errors.append(raised.value)
    assert errors[0] is not errors[1]


def test_what_was_not_asked_for_the_longest_time_is_forgotten_first() -> None:
    remembered, made = counting(count_max=2)
    for text in ("a", "b", "a", "c", "a", "b"):
        remembered(text)
    assert made == ["a", "b", "c", "b"]


def test_the_length_of_all_texts_has_a_limit_and_a_longer_one_is_not_remembered() -> None:
    remembered, _ = counting(count_max=100, length_max=10)
    for text in ("x" * 11, "a" * 6, "b" * 5):
        remembered(text)
    assert [text in remembered for text in ("x" * 11, "a" * 6, "b" * 5)] == [False, False, True]
    remembered("c" * 5)
    assert "b" * 5 in remembered
