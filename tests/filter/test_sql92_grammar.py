"""What is read of a filter, and when; what filters mean is in ``test_sql92``."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def blanked_by_hand(text: str) -> str:
    """Blank comments character by character, as RocketMQ's lexer takes them."""
    out, at = "", 0
    while at < len(text):
        rest = text[at:]
        end = 1
        if rest.startswith("'") and "'" in rest[1:]:
            end = rest.index("'", 1) + 1
            while rest[end : end + 1] == "'" and "'" in rest[end + 1 :]:
                end = rest.index("'", end + 1) + 1
            out += rest[:end]
        elif rest.startswith("/*"):
            end = rest.find("*/", 2) + 2
            if end < 2:
                return out + rest
            out += " " * end
        elif rest.startswith("--") and ("\n" in rest or "\r" in rest):
            end = min(rest.index(sign) for sign in "\n\r" if sign in rest)
            out += " " * end
        else:
            out += rest[0]
        at += end
    return out


@given(st.text("'-/*\n\r a1", max_size=30))
def test_comments_are_blanks_and_nothing_else_moves(text: str) -> None:
    assert sql92_grammar.without_comments(text) == blanked_by_hand(text)


@pytest.mark.parametrize(
    ("text", "blanked"),
    [
        ("a --b\n= 1", "a    \n= 1"),
        ("a = --1", "a = --1"),
        ("a = '--' --'\r\n", "a = '--'    \r\n"),
        ("/* a\n */b/**/", "       \nb    ".replace("       \n", "    \n   ").replace("\n", " ")),
        ("/* --\n", "/* --\n"),
        ("'it''s' --x", "'it''s' --x"),
    ],
)
def test_a_comment_by_minus_signs_needs_a_line_end(text: str, blanked: str) -> None:
    assert sql92_grammar.without_comments(text) == blanked
