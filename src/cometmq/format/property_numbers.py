"""Properties whose value is a number or a flag, parsed as Java parses them.

Java's ``Integer.parseInt`` and ``Long.parseLong`` accept a sign, leading zeros and digits of any script, but
no blanks, fractions or exponents. ``Boolean.parseBoolean`` accepts ``true`` in any case as true, and reads
anything else as false.

A producer's value that is not a number, or too large for its type, is refused: RocketMQ fails with an error
that does not name the property, or ignores it. In stored messages such a value counts as absent.
"""

from collections.abc import Callable, Mapping
from typing import Final

from cometmq.errors import MessageIllegal
from cometmq.format import properties
from cometmq.format.java.java_numbers import INTEGER_MAX, LONG_MAX, NoNumber, to_integer, to_long

_READ: Final[dict[str, Callable[[str], int]]] = {
    properties.DELAY: to_integer,
    properties.TIMER_DELAY_SEC: to_long,
    properties.TIMER_DELAY_MS: to_long,
    properties.TIMER_DELIVER_MS: to_long,
    properties.CHECK_IMMUNITY_TIME: to_long,
    properties.TRANSACTION_CHECK_TIMES: to_integer,
    properties.TRANSACTION_PREPARED_QUEUE_OFFSET: to_long,
}
_MAX: Final[dict[Callable[[str], int], int]] = {to_integer: INTEGER_MAX, to_long: LONG_MAX}
_SHOWN_LENGTH: Final = 40


def check(named: Mapping[str, str]) -> None:
    """Check the properties that must be numbers. Raises MessageIllegal with the property and its value."""
    for name in _READ.keys() & named.keys():
        number(name, named[name])


def number(name: str, value: str) -> int:
    """Return the number in a property. Raises MessageIllegal if it is not a number of its type."""
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
    """Return the number in a stored property; ``default`` if it is missing or not a number."""
    if value is None:
        return default
    try:
        return _READ[name](value)
    except NoNumber:
        return default


def is_true(value: str | None) -> bool:
    """Return whether a flag property is set."""
    return value is not None and value.lower() == "true"
