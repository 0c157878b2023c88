"""The grammar of SQL92 filters at work: from a text to what it means.

It is imported when the first filter is compiled: Lark takes a tenth of the time that a broker's imports do.
A client decides how long a filter is, and the broker's loop reads it: the time that this takes grows with the
length and no faster, and what costs the most is counted against a limit.
"""

import re
from functools import cache
from typing import Final, cast

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedToken, v_args
from lark.parsers.lalr_interactive_parser import InteractiveParser

from cometmq.filter import conditions
from cometmq.filter.conditions import IllegalExpression, Kind, Part

END: Final = "$END"

WORDS_MAX: Final = 2_000
"""Most words, names, numbers and signs of a filter: the parser takes some ten microseconds for each."""
TEXTS_MAX: Final = 4_000
"""Most texts in quotes, as in a long list after IN: they take less."""

_LIST_TOKENS: Final = frozenset(("STRING", "COMMA"))

_WORDS: Final = {word: f"_{word}" for word in ("OR", "AND", "NOT", "BETWEEN", "IN", "IS")} | {
    "CONTAINS": "TEXT_TEST",
    "STARTSWITH": "TEXT_TEST",
    "ENDSWITH": "TEXT_TEST",
    "TRUE": "TRUE",
    "FALSE": "FALSE",
    "NULL": "NULL",
}


def parse(expression: str) -> Part:
    """Give what the longest filter means that a text begins with. Raises IllegalExpression."""
    reader = _parser().parse_interactive(without_comments(expression))
    try:
        _read_all(reader)
        part = reader.feed_eof()
    except UnexpectedCharacters as error:
        raise IllegalExpression(
            f"at character {cast('int', error.pos_in_stream) + 1}: {error.char!r} begins no word or sign"
        ) from None
    except UnexpectedToken as error:
        part = _without_the_rest(reader, error.token)
    assert isinstance(part, Part)
    return part


def without_comments(expression: str) -> str:
    """Return the filter with blanks in place of its comments, so that all else stays where it is.

    The last line has no comments that begin with ``--``: such a comment needs a line end, as in RocketMQ. The
    lexer cannot know that, and would look for the line end anew from each minus sign.
    """
    last_line = max(expression.rfind("\n"), expression.rfind("\r")) + 1
    end = 0
    pieces = []
    for comment in _TEXT_OR_COMMENT.finditer(expression):
        begin = comment.start()
        if begin >= last_line and expression.startswith("--", begin):
            pieces.append(expression[end:begin])
            pieces.append(_TEXT_OR_LONG_COMMENT.sub(_blanked, expression[begin:]))
            return "".join(pieces)
        pieces += expression[end:begin], _blanked(comment)
        end = comment.end()
    return "".join((*pieces, expression[end:]))


def _blanked(found: re.Match[str]) -> str:
    """Return blanks for a comment, and anything else as it is: a text in quotes, a comment without an end."""
    text = found[0]
    is_comment = text.startswith("--") or (text.startswith("/*") and text.endswith("*/") and len(text) > 3)
    return " " * len(text) if is_comment else text


def _read_all(reader: InteractiveParser) -> None:
    """Read all tokens. Raises IllegalExpression if there are too many."""
    words = texts = 0
    for token in reader.iter_parse():
        if token.type in _LIST_TOKENS:
            texts += token.type == "STRING"
        else:
            words += 1
        if words > WORDS_MAX or texts > TEXTS_MAX:
            raise IllegalExpression(
                f"at character {_at(token)}: a filter has at most {WORDS_MAX} words, names, numbers and "
                f"signs, and {TEXTS_MAX} texts: write name IN ('a', 'b') instead of many comparisons"
            )


def _without_the_rest(reader: InteractiveParser, token: Token) -> object:
    """Take what came before an unexpected word, if it is whole."""
    if token.type == END:
        raise IllegalExpression("it ends too early") from None
    if END not in reader.accepts():
        raise IllegalExpression(f"at character {_at(token)}: {str(token)!r} is not expected") from None
    return reader.feed_eof()


_TEXT: Final = r"'(?:''|[^'])*'"
_LONG_COMMENT: Final = r"/\*(?:.*?\*/|.*)"
_TEXT_OR_COMMENT: Final = re.compile(rf"{_TEXT}|{_LONG_COMMENT}|--[^\n\r]*", re.DOTALL)
_TEXT_OR_LONG_COMMENT: Final = re.compile(rf"{_TEXT}|{_LONG_COMMENT}", re.DOTALL)


@cache
def _parser() -> Lark:
    return Lark.open(
        "sql92.lark",
        rel_to=__file__,
        parser="lalr",
        lexer="basic",
        lexer_callbacks={"ID": _word},
        transformer=_Meaning(),
    )


def _word(token: Token) -> Token:
    """Tell the grammar's words from names."""
    return token.update(type=_WORDS.get(token.upper(), token.type))


def _at(token: Token) -> int:
    assert token.start_pos is not None
    return token.start_pos + 1


def _unquoted(token: Token) -> str:
    return token[1:-1].replace("''", "'")


@v_args(inline=True)
class _Meaning(Transformer[Token, Part]):
    """Makes a part of each rule."""

    equal = staticmethod(conditions.equal)
    inverted = staticmethod(conditions.inverted)
    between = staticmethod(conditions.between)
    not_between = staticmethod(conditions.not_between)

    def start(self, part: Part) -> Part:
        return part

    def any_of(self, *parts: Part) -> Part:
        return conditions.any_of(parts)

    def all_of(self, *parts: Part) -> Part:
        return conditions.all_of(parts)

    def not_equal(self, left: Part, right: Part) -> Part:
        return conditions.inverted(conditions.equal(left, right))

    def is_null(self, part: Part, null: Token) -> Part:
        return conditions.same(part, self.null(null))

    def is_not_null(self, part: Part, null: Token) -> Part:
        return conditions.inverted(self.is_null(part, null))

    def ordered(self, left: Part, sign: Token, right: Part) -> Part:
        return conditions.ordered(left, str(sign), right)

    def text_test(self, part: Part, name: Token, wanted: Token) -> Part:
        return conditions.text_test(part, name.upper(), _unquoted(wanted), inverse=False)

    def not_text_test(self, part: Part, name: Token, wanted: Token) -> Part:
        return conditions.text_test(part, name.upper(), _unquoted(wanted), inverse=True)

    def one_of(self, part: Part, *texts: Token) -> Part:
        return conditions.one_of(part, [_unquoted(text) for text in texts], inverse=False)

    def none_of(self, part: Part, *texts: Token) -> Part:
        return conditions.one_of(part, [_unquoted(text) for text in texts], inverse=True)

    def negated(self, part: Part) -> Part:
        return conditions.negated(part, part.at)

    def property(self, name: Token) -> Part:
        return conditions.property_of(str(name), _at(name))

    def string(self, text: Token) -> Part:
        return conditions.literal(Kind.TEXT, _unquoted(text), _at(text))

    def whole(self, digits: Token) -> Part:
        return conditions.whole(str(digits), _at(digits))

    def fraction(self, digits: Token) -> Part:
        return conditions.fraction(str(digits), _at(digits))

    def true(self, word: Token) -> Part:
        return conditions.literal(Kind.BOOLEAN, True, _at(word))

    def false(self, word: Token) -> Part:
        return conditions.literal(Kind.BOOLEAN, False, _at(word))

    def null(self, word: Token) -> Part:
        return conditions.literal(Kind.UNKNOWN, None, _at(word))
