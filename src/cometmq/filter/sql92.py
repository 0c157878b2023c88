"""SQL92 filters: ``color IN ('red', 'blue') AND size > 3``, over the properties of a message.

The grammar is in ``sql92.lark`` and ``sql92_grammar``, what its parts mean in ``conditions``. As RocketMQ's
parser does, this one takes the longest expression that the text begins with: words behind it mean nothing.
(RocketMQ: SelectorParser.jj, SqlFilter.java.)
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from cometmq.filter import conditions
from cometmq.filter.conditions import IllegalExpression, Truth
from cometmq.filter.remembered import Remembered
from cometmq.format.java_numbers import NoNumber

LENGTH_MAX: Final = 65_536
"""Longest filter in characters: a client decides about it, and reading it takes the broker's time."""

REMEMBERED_MAX: Final = 1_000
"""Most filters that are kept ready, be they right or wrong, ..."""
REMEMBERED_LENGTH_MAX: Final = 262_144
"""... and most characters that they have in all."""


class Sql92(NamedTuple):
    """A filter, ready to be asked.

    Attributes:
        evaluate: gives true, false or None (unknown) for a message's properties; raises NoNumber.
    """

    expression: str
    evaluate: Truth

    def matches(self, properties: Mapping[str, str]) -> bool:
        """Tell whether a message with these properties is wanted: not if that is unknown or fails."""
        try:
            return self.evaluate(properties) is True
        except NoNumber:
            return False


def compile(expression: str) -> Sql92:  # noqa: A001  as re.compile
    """Make a filter, or find it. Raises IllegalExpression, which names the place."""
    if len(expression) > LENGTH_MAX:
        raise IllegalExpression(f"a filter has at most {LENGTH_MAX} characters, this one {len(expression)}")
    return _compiled(expression)


def prepare() -> None:
    """Make the parser, which takes a tenth of a second, so that no client's first filter does."""
    _compiled("prepared = 1")


def is_ready(expression: str) -> bool:
    """Return whether ``compile`` remembers what becomes of an expression, so that it takes no time."""
    return expression in _compiled


def _compile(expression: str) -> Sql92:
    from cometmq.filter import sql92_grammar  # noqa: PLC0415 - it imports Lark, which few brokers need

    try:
        return Sql92(expression, conditions.condition(sql92_grammar.parse(expression)))
    except IllegalExpression as error:
        raise IllegalExpression(f"Invalid MessageSelector {_shown(expression)}: {error}") from None


_compiled: Final = Remembered(_compile, count_max=REMEMBERED_MAX, length_max=REMEMBERED_LENGTH_MAX)


def _shown(expression: str) -> str:
    return repr(expression if len(expression) <= 100 else expression[:100] + "…")
