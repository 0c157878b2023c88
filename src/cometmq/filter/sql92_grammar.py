"""The parser of SQL92 filters: compiles a text by the grammar in ``sql92.lark``.

It is imported when the first filter is compiled: importing Lark takes a tenth of the time of a broker's
imports. Clients decide how long a filter is, and the broker parses it in its event loop: so the time grows no
faster than linearly with the length, and the most expensive parts are counted and limited.
"""

import re
from functools import cache
from typing import Final, cast

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedToken, v_args
from lark.parsers.lalr_interactive_parser import InteractiveParser

from cometmq.filter import conditions
from cometmq.filter.conditions import IllegalExpression, Term, ValueKind

END: Final = "$END"

WORDS_MAX: Final = 2_000
"""Most words, names, numbers and signs of a filter: parsing takes some ten microseconds for each."""
TEXTS_MAX: Final = 4_000
"""Most quoted texts, as in a long list after IN: parsing them takes less."""

_LIST_TOKENS: Final = frozenset(("STRING", "COMMA"))

_WORDS: Final = {word: f"_{word}" for word in ("OR", "AND", "NOT", "BETWEEN", "IN", "IS")} | {
    "CONTAINS": "TEXT_TEST",
    "STARTSWITH": "TEXT_TEST",
    "ENDSWITH": "TEXT_TEST",
    "TRUE": "TRUE",
    "FALSE": "FALSE",
    "NULL": "NULL",
}


def parse(expression: str) -> Term:
    """Compile the longest filter at the beginning of a text. Raises IllegalExpression."""
    reader = _parser().parse_interactive(without_comments(expression))
    try:
        _read_all(reader)
        term = reader.feed_eof()
    except UnexpectedCharacters as error:
        raise IllegalExpression(
            f"at character {cast('int', error.pos_in_stream) + 1}: {error.char!r} begins no word or sign"
        ) from None
    except UnexpectedToken as error:
        term = _without_the_rest(reader, error.token)
    assert isinstance(term, Term)
    return term


def without_comments(expression: str) -> str:
    """Replace comments by blanks, so that the positions of everything else stay the same.

    The last line has no comments that begin with ``--``: such a comment needs a line end, as in RocketMQ. The
    lexer cannot know that, and would search for the line end again from each minus sign.
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
    """Return blanks for a complete comment, and anything else unchanged: quoted text, an open comment."""
    text = found[0]
    is_comment = text.startswith("--") or (text.startswith("/*") and text.endswith("*/") and len(text) > 3)
    return " " * len(text) if is_comment else text


def _read_all(reader: InteractiveParser) -> None:
    """Feed all tokens to the parser. Raises IllegalExpression if there are too many."""
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
    """Return the filter before an unexpected token, if it is complete. Raises IllegalExpression otherwise."""
    if token.type == END:
        raise IllegalExpression("the filter ends too early") from None
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
    """Set the token type of the grammar's keywords; other words stay names."""
    return token.update(type=_WORDS.get(token.upper(), token.type))


def _at(token: Token) -> int:
    assert token.start_pos is not None
    return token.start_pos + 1


def _unquoted(token: Token) -> str:
    return token[1:-1].replace("''", "'")


@v_args(inline=True)
class _Meaning(Transformer[Token, Term]):
    """Compile each rule of the grammar to a term of the filter."""

    equal = staticmethod(conditions.equal)
    inverted = staticmethod(conditions.inverted)
    between = staticmethod(conditions.between)
    not_between = staticmethod(conditions.not_between)

    def start(self, term: Term) -> Term:
        return term

    def any_of(self, *terms: Term) -> Term:
        return conditions.any_of(terms)

    def all_of(self, *terms: Term) -> Term:
        return conditions.all_of(terms)

    def not_equal(self, left: Term, right: Term) -> Term:
        return conditions.inverted(conditions.equal(left, right))

    def is_null(self, term: Term, null: Token) -> Term:
        return conditions.same(term, self.null(null))

    def is_not_null(self, term: Term, null: Token) -> Term:
        return conditions.inverted(self.is_null(term, null))

    def ordered(self, left: Term, sign: Token, right: Term) -> Term:
        return conditions.ordered(left, str(sign), right)

    def text_test(self, term: Term, name: Token, wanted: Token) -> Term:
        return conditions.text_test(term, name.upper(), _unquoted(wanted), inverse=False)

    def not_text_test(self, term: Term, name: Token, wanted: Token) -> Term:
        return conditions.text_test(term, name.upper(), _unquoted(wanted), inverse=True)

    def one_of(self, term: Term, *texts: Token) -> Term:
        return conditions.one_of(term, [_unquoted(text) for text in texts], inverse=False)

    def none_of(self, term: Term, *texts: Token) -> Term:
        return conditions.one_of(term, [_unquoted(text) for text in texts], inverse=True)

    def negated(self, term: Term) -> Term:
        return conditions.negated(term)

    def property(self, name: Token) -> Term:
        return conditions.property_of(str(name), _at(name))

    def string(self, text: Token) -> Term:
        return conditions.literal(ValueKind.TEXT, _unquoted(text), _at(text))

    def whole(self, digits: Token) -> Term:
        return conditions.whole(str(digits), _at(digits))

    def fraction(self, digits: Token) -> Term:
        return conditions.fraction(str(digits), _at(digits))

    def true(self, word: Token) -> Term:
        return conditions.literal(ValueKind.BOOLEAN, True, _at(word))

    def false(self, word: Token) -> Term:
        return conditions.literal(ValueKind.BOOLEAN, False, _at(word))

    def null(self, word: Token) -> Term:
        return conditions.literal(ValueKind.UNKNOWN, None, _at(word))
