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


@pytest.mark.parametrize(("tags", "sql"), [("*", "a > 1"), ("", "a > 1"), (None, "a > 1"), ("a || b", None)])
def test_a_filter_is_tags_or_sql(tags: str | None, sql: str | None) -> None:
    tag.check_filter(tags, sql)


def test_a_filter_of_both_is_refused_with_one_that_does_what_was_meant() -> None:
    with pytest.raises(
        ValueError, match="tags 'paid || due' and sql 'size > 3': give only one".replace("|", r"\|")
    ) as refused:
        tag.check_filter("paid || due", "size > 3")
    assert str(refused.value).endswith("TAGS IN ('due', 'paid') AND (size > 3)")


@pytest.mark.parametrize("sql", ["", " "])
def test_an_empty_condition_is_refused(sql: str) -> None:
    with pytest.raises(ValueError, match="give a condition, such as"):
        tag.check_filter("*", sql)


@pytest.mark.parametrize("tags", [" ", " || ", "a || *", "||"])
def test_tags_that_would_match_no_message_are_refused(tags: str) -> None:
    with pytest.raises(FormatError):
        tag.check_filter(tags, None)
