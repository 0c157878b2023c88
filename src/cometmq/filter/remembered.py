"""What was made of texts that come again and again, and why nothing could be made of others.

The same filter comes with each heartbeat and each pull, and reading a wrong one takes as long as a right one.
So both outcomes are remembered, in bounds: clients decide what texts there are.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from cometmq.errors import FormatError

Made = TypeVar("Made")


class Remembered(Generic[Made]):
    """Calls ``make`` once for each text, as long as there is room for what came of it.

    Args:
        make: raises FormatError for a text that means nothing.
        count_max: most texts that are remembered.
        length_max: most characters that they have in all; a longer text is not remembered.
    """

    def __init__(self, make: Callable[[str], Made], *, count_max: int, length_max: int) -> None:
        self._make = make
        self._count_max = count_max
        self._length_max = length_max
        self._length = 0
        self._outcomes: OrderedDict[str, Made | FormatError] = OrderedDict()

    def __contains__(self, text: str) -> bool:
        return text in self._outcomes

    def __call__(self, text: str) -> Made:
        """Return what ``make`` makes of a text. Raises FormatError as it does."""
        outcome = self._outcomes.get(text)
        if outcome is None:
            outcome = self._outcome(text)
            self._remember(text, outcome)
        else:
            self._outcomes.move_to_end(text)
        if isinstance(outcome, FormatError):
            raise type(outcome)(str(outcome))
        return outcome

    def _outcome(self, text: str) -> Made | FormatError:
        try:
            return self._make(text)
        except FormatError as error:
            return type(error)(str(error))  # without the traceback, which would keep the frames alive

    def _remember(self, text: str, outcome: Made | FormatError) -> None:
        if len(text) > self._length_max:
            return
        self._outcomes[text] = outcome
        self._length += len(text)
        while len(self._outcomes) > self._count_max or self._length > self._length_max:
            oldest, _ = self._outcomes.popitem(last=False)
            self._length -= len(oldest)
