import pytest

from cometmq.filter import conditions
from cometmq.filter.conditions import IllegalExpression, Term, ValueKind
from cometmq.format.java.java_numbers import NoNumber

A = conditions.property_of("a", 1)


def whole(number: int) -> Term:
    return conditions.whole(str(number), 5)


def test_a_missing_property_is_unknown_to_its_left_and_different_to_its_right() -> None:
    assert conditions.equal(A, whole(5)).evaluate({}) is None
    assert conditions.equal(whole(5), A).evaluate({}) is False


def test_one_unknown_leaves_a_chain_unknown_until_a_part_decides() -> None:
    unknown, true, false = (
        conditions.literal(ValueKind.UNKNOWN, None, 1),
        conditions.literal(ValueKind.BOOLEAN, True, 1),
        conditions.literal(ValueKind.BOOLEAN, False, 1),
    )
    assert conditions.all_of([unknown, true]).evaluate({}) is None
    assert conditions.all_of([unknown, false]).evaluate({}) is False
    assert conditions.any_of([unknown, false]).evaluate({}) is None
    assert conditions.any_of([unknown, true]).evaluate({}) is True
    assert conditions.inverted(unknown).evaluate({}) is None


def test_a_property_is_no_truth_value() -> None:
    assert conditions.condition(A)({"a": "true"}) is False
    assert conditions.condition(A)({}) is None
    with pytest.raises(IllegalExpression, match="at character 5: neither true nor false"):
        conditions.condition(whole(1))


def test_the_size_of_a_literal_says_what_the_property_must_be() -> None:
    text = {"a": "3000000000"}
    assert conditions.ordered(A, ">", whole(2**31)).evaluate(text) is True
    with pytest.raises(NoNumber):
        conditions.ordered(A, ">", whole(2**31 - 1)).evaluate(text)
    assert conditions.ordered(A, ">", conditions.fraction("1.5", 5)).evaluate(text) is True


def test_only_numbers_are_negated() -> None:
    assert conditions.negated(whole(5)).evaluate({}) == -5
    assert conditions.negated(A).evaluate({"a": "5"}) is None
