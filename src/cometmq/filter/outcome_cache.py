"""A cache of what texts were parsed to, or of the error that parsing raised.

The same filter comes with each heartbeat and each pull, and parsing a wrong one takes as long as a right one.
So both outcomes are cached, within limits, since clients decide which texts there are.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from cometmq.errors import FormatError

ResultT = TypeVar("ResultT")


class OutcomeCache(Generic[ResultT]):
    """Call ``make`` once for each text, and keep its result or its error within limits.

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
