"""Exceptions by which a handler decides on a message; any other exception acts like ``Retry()``."""

from typing import Final

from cometmq.arguments import ArgumentKind, check, number, or_none
from cometmq.format.delay_level import LEVEL_MAX

DELAY_LEVEL: Final = ArgumentKind(
    f"an int from 0 to {LEVEL_MAX}, the level of 2 h, which is the longest delay of a retry",
    number().is_type,
    lambda value: 0 <= value <= LEVEL_MAX,
)


class Retry(Exception):
    """The message is delivered again later.

    Attributes:
        delay_level: the broker's delay level (1 is 1 s … 18 is 2 h); 0 for one that grows with each retry.
        suspend_ms: for an ordered topic, how long its queue pauses; None for the consumer's setting.
    """

    def __init__(self, *, delay_level: int = 0, suspend_ms: int | None = None) -> None:
        check(DELAY_LEVEL, delay_level=delay_level)
        check(or_none(number(0)), suspend_ms=suspend_ms)
        super().__init__(f"again after delay level {delay_level}" if delay_level else "again later")
        self.delay_level = delay_level
        self.suspend_ms = suspend_ms


class PutOff(Retry):
    """Another consumer is handling the message now: it is delivered again, though nothing failed.

    An ordered queue pauses as long as its consumer's setting says, and does not count it as a retry.
    """


class DeadLetter(Exception):
    """The message can never be handled: it is sent to the dead letters, topic ``%DLQ%group``, at once."""
