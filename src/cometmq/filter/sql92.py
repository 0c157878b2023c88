"""SQL92 filters: ``color IN ('red', 'blue') AND size > 3``, over the properties of a message.

The grammar is in ``sql92.lark`` and ``sql92_grammar``, the meaning of its parts in ``conditions``. Like
RocketMQ's parser, this one parses the longest expression at the beginning of the text and ignores any words
after it.
(RocketMQ: SelectorParser.jj, SqlFilter.java.)
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final, Generic, NamedTuple, TypeVar

from cometmq.errors import FormatError
from cometmq.filter import conditions
from cometmq.filter.conditions import IllegalExpression, Truth
from cometmq.format.java.java_numbers import NoNumber

LENGTH_MAX: Final = 65_536
"""Longest filter in characters: clients decide about it, and parsing takes the broker's time."""

REMEMBERED_MAX: Final = 1_000
"""Most filters that are kept compiled, or with their error, ..."""
REMEMBERED_LENGTH_MAX: Final = 262_144
"""... and most characters of all of them together."""

ResultT = TypeVar("ResultT")


class Sql92(NamedTuple):
    """A compiled filter.

    Attributes:
        evaluate: returns true, false or None (unknown) for a message's properties; raises NoNumber.
    """

    expression: str
    evaluate: Truth

    def matches(self, properties: Mapping[str, str]) -> bool:
        """Return whether the filter accepts a message with these properties; not if unknown or failing."""
        try:
            return self.evaluate(properties) is True
        except NoNumber:
            return False


def compile(expression: str) -> Sql92:  # noqa: A001  as re.compile
    """Compile a filter, or return the cached one. Raises IllegalExpression, which names the place."""
    if len(expression) > LENGTH_MAX:
        raise IllegalExpression(f"a filter has at most {LENGTH_MAX} characters, this one {len(expression)}")
    return _compiled(expression)


def prepare() -> None:
    """Build the parser in advance, which takes 0.1 s, so that the first client's filter need not wait."""
    _compiled("prepared = 1")


def is_ready(expression: str) -> bool:
    """Return whether ``compile`` has an expression's outcome cached, so that it takes no time."""
    return expression in _compiled


def _compile(expression: str) -> Sql92:
    from cometmq.filter import sql92_grammar  # noqa: PLC0415 - it imports Lark, which few brokers need

    try:
        return Sql92(expression, conditions.condition(sql92_grammar.parse(expression)))
    except IllegalExpression as error:
        raise IllegalExpression(f"Invalid MessageSelector {_shown(expression)}: {error}") from None


class OutcomeCache(Generic[ResultT]):
    """Call ``make`` once for each text, and keep its result or its error within limits.

    The same filter comes with each heartbeat and each pull, and parsing a wrong one takes as long as a right
    one. The limits are there since clients decide which texts there are.

    Args:
        make: parses a text; raises FormatError for an illegal one.
        count_max: most texts that are kept.
        length_max: most characters of all kept texts together; a longer text is not kept.
    """

    def __init__(self, make: Callable[[str], ResultT], *, count_max: int, length_max: int) -> None:
        self._make = make
        self._count_max = count_max
        self._length_max = length_max
        self._length = 0
        self._outcomes: OrderedDict[str, ResultT | FormatError] = OrderedDict()

    def __contains__(self, text: str) -> bool:
        return text in self._outcomes

    def __call__(self, text: str) -> ResultT:
        """Return the result of ``make`` for a text. Raises FormatError as it does."""
        outcome = self._outcomes.get(text)
        if outcome is None:
            outcome = self._outcome(text)
            self._remember(text, outcome)
        else:
            self._outcomes.move_to_end(text)
        if isinstance(outcome, FormatError):
            raise type(outcome)(str(outcome))
        return outcome

    def _outcome(self, text: str) -> ResultT | FormatError:
        try:
            return self._make(text)
        except FormatError as error:
            return type(error)(str(error))  # without the traceback, which would keep the frames alive

    def _remember(self, text: str, outcome: ResultT | FormatError) -> None:
        if len(text) > self._length_max:
            return
        self._outcomes[text] = outcome
        self._length += len(text)
        while len(self._outcomes) > self._count_max or self._length > self._length_max:
            oldest, _ = self._outcomes.popitem(last=False)
            self._length -= len(oldest)


_compiled: Final = OutcomeCache(_compile, count_max=REMEMBERED_MAX, length_max=REMEMBERED_LENGTH_MAX)


def _shown(expression: str) -> str:
    return repr(expression if len(expression) <= 100 else expression[:100] + "…")
