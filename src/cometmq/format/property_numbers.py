"""Properties whose value is a number or a flag: read as Java reads it.

Java's ``Integer.parseInt`` and ``Long.parseLong`` take a sign, zeros before the number and digits of any
script, but no blanks, fractions or exponents. ``Boolean.parseBoolean`` takes ``true`` in any case of letters
for true, and anything else for false.

A producer's number that is none, or too large for its type, is refused: where RocketMQ reads it, it fails
with an error that names no property, or reads it as none. What a store holds is read as far as it goes.
"""

from collections.abc import Callable, Mapping
from typing import Final

from cometmq.errors import MessageIllegal
from cometmq.format.java_numbers import INTEGER_MAX, LONG_MAX, NoNumber, to_integer, to_long
from cometmq.format.properties import (
    CHECK_IMMUNITY_TIME,
    DELAY,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TRANSACTION_CHECK_TIMES,
    TRANSACTION_PREPARED_QUEUE_OFFSET,
)

_READ: Final[dict[str, Callable[[str], int]]] = {
    DELAY: to_integer,
    TIMER_DELAY_SEC: to_long,
    TIMER_DELAY_MS: to_long,
    TIMER_DELIVER_MS: to_long,
    CHECK_IMMUNITY_TIME: to_long,
    TRANSACTION_CHECK_TIMES: to_integer,
    TRANSACTION_PREPARED_QUEUE_OFFSET: to_long,
}
_MAX: Final[dict[Callable[[str], int], int]] = {to_integer: INTEGER_MAX, to_long: LONG_MAX}
_SHOWN_LENGTH: Final = 40


def check(named: Mapping[str, str]) -> None:
    """Check the properties that are numbers. Raises MessageIllegal, with the property and its value."""
    for name in _READ.keys() & named.keys():
        number(name, named[name])


def number(name: str, value: str) -> int:
    """Return the number that a property holds. Raises MessageIllegal if it is none of its type."""
    read = _READ[name]
    try:
        return read(value)
    except NoNumber:
        largest = _MAX[read]
        raise MessageIllegal(
            f"property {name} = {value[:_SHOWN_LENGTH]!r}: "
            f"give a whole number from {-largest - 1} to {largest}"
        ) from None


def number_or(name: str, value: str | None, default: int) -> int:
    """Return the number that a stored property holds; ``default`` if it is missing or none."""
    if value is None:
        return default
    try:
        return _READ[name](value)
    except NoNumber:
        return default


def is_true(value: str | None) -> bool:
    """Return whether a property is a flag that is set."""
    return value is not None and value.lower() == "true"
