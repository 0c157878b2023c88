import pytest

from cometmq.console.filters import check_filter
from cometmq.errors import FormatError


@pytest.mark.parametrize(
    ("tags", "sql"), [("", ""), ("paid || open", ""), ("", "region = 'eu' AND total > 5")]
)
def test_a_filter_that_can_be_compiled_is_accepted(tags: str, sql: str) -> None:
    check_filter(tags, sql)


@pytest.mark.parametrize(("tags", "sql", "told"), [("||", "", "tag"), ("", "region =", "ends too early")])
def test_another_is_refused_with_the_reason(tags: str, sql: str, told: str) -> None:
    with pytest.raises(FormatError, match=told):
        check_filter(tags, sql)
