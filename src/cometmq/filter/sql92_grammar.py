"""The grammar of SQL92 filters at work: from a text to what it means.

It is imported when the first filter is compiled: Lark takes a tenth of the time that a broker's imports do.
"""

from functools import cache
from typing import Final, cast

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedToken, v_args
from lark.parsers.lalr_interactive_parser import InteractiveParser

from cometmq.filter import conditions
from cometmq.filter.conditions import IllegalExpression, Kind, Part

END: Final = "$END"

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
    reader = _parser().parse_interactive(expression)
    try:
        for _ in reader.iter_parse():
            pass
        part = reader.feed_eof()
    except UnexpectedCharacters as error:
        raise IllegalExpression(
            f"at character {cast('int', error.pos_in_stream) + 1}: {error.char!r} begins no word or sign"
        ) from None
    except UnexpectedToken as error:
        part = _without_the_rest(reader, error.token)
    assert isinstance(part, Part)
    return part


def _without_the_rest(reader: InteractiveParser, token: Token) -> object:
    """Take what came before an unexpected word, if it is whole."""
    if token.type == END:
        raise IllegalExpression("it ends too early") from None
    if END not in reader.accepts():
        raise IllegalExpression(f"at character {_at(token)}: {str(token)!r} is not expected") from None
    return reader.feed_eof()


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
