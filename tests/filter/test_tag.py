import pytest

from cometmq.errors import FormatError
from cometmq.filter import tag


@pytest.mark.parametrize("expression", [None, "", "*"])
def test_star_or_nothing_wants_every_message(expression: str | None) -> None:
    assert tag.parse(expression) is None
    assert tag.codes(tag.parse(expression)) is None


def test_tags_are_trimmed_and_empty_ones_dropped() -> None:
    assert tag.parse(" TagA ||TagB|| || TagA") == frozenset({"TagA", "TagB"})


@pytest.mark.parametrize("expression", ["||", "||||"])
def test_an_expression_of_separators_only_is_refused(expression: str) -> None:
    with pytest.raises(FormatError, match="names no tag"):
        tag.parse(expression)


def test_a_blank_tag_matches_nothing() -> None:
    assert tag.codes(tag.parse(" || ")) == frozenset()


def test_codes_are_java_hashes() -> None:
    assert tag.codes({"TagA", "TagB"}) == frozenset({2598919, 2598920})


def test_an_expression_has_most_tags_and_a_longest_length() -> None:
    most = "||".join(f"tag{number}" for number in range(tag.TAGS_MAX))
    parsed = tag.parse(most)
    assert parsed is not None
    assert len(parsed) == tag.TAGS_MAX
    for too_long in (most + "||", "a" * (tag.LENGTH_MAX + 1), "||" * 1_700_000):
        with pytest.raises(FormatError, match="the limits are 65536 and 2000: subscribe to"):
            tag.parse(too_long)
