"""What is read of a filter, and when; what filters mean is in ``test_sql92``."""

import subprocess
import sys

import pytest

from cometmq.filter import sql92_grammar
from cometmq.filter.conditions import IllegalExpression

FIRST_FILTER = """
import sys
from cometmq.filter import sql92
assert "lark" not in sys.modules
sql92.compile("a > 1")
assert "lark" in sys.modules
"""


def test_what_is_no_filter_is_told_with_its_place() -> None:
    with pytest.raises(IllegalExpression, match="at character 3: ';' begins no word or sign"):
        sql92_grammar.parse("a ;")
    with pytest.raises(IllegalExpression, match="ends too early"):
        sql92_grammar.parse("a =")


def test_the_parser_is_imported_for_the_first_filter() -> None:
    subprocess.run([sys.executable, "-c", FIRST_FILTER], check=True)
