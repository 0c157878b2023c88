"""Numbers as Java parses and orders them, so that filters and properties mean the same as in RocketMQ.

Java distinguishes the number types: ``3000000000`` is not an Integer, ``1.0`` is not a Long, `` 1.0 `` and
``0x1p3`` are Doubles, ``1_0`` is none of them.
(Java: ``Integer.parseInt``, ``Long.parseLong``, ``Double.valueOf``, ``Double.compareTo``.)
"""

import math
import re
from typing import Final

from cometmq.errors import FormatError

INTEGER_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1

_LONG_DIGITS: Final = len(str(LONG_MAX))
_CHUNK: Final = 1_000
"""Leading zeros are read in chunks of this many digits: reading all at once would take quadratic time."""

_WHOLE: Final = re.compile(r"[+-]?\d+")
_DECIMAL: Final = re.compile(r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)")
_HEXADECIMAL: Final = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?"
)
_BLANKS: Final = "".join(map(chr, range(33)))


class NoNumber(FormatError):
    """Text that is not a number of the expected type."""


def to_integer(text: str) -> int:
    """Parse a Java Integer. Raises NoNumber."""
    return _whole(text, INTEGER_MAX)


def to_long(text: str) -> int:
    """Parse a Java Long. Raises NoNumber."""
    return _whole(text, LONG_MAX)


def to_double(text: str) -> float:
    """Parse a Java Double. Raises NoNumber."""
    trimmed = text.strip(_BLANKS)
    if _DECIMAL.fullmatch(trimmed):
        return float(trimmed.rstrip("fFdD"))
    if found := _HEXADECIMAL.fullmatch(trimmed):
        try:
            return float.fromhex(found[1])
        except OverflowError:
            return -math.inf if trimmed.startswith("-") else math.inf
    raise NoNumber(f"{text[:50]!r} is not a number")


def order(left: float, right: float) -> int:
    """Compare two whole numbers, or two doubles as Java sorts them: -0.0 before 0.0, NaN last.

    Returns -1, 0 or 1.
    """
    if left < right:
        return -1
    if left > right:
        return 1
    above, below = _rank(left), _rank(right)
    return (above > below) - (above < below)


def _whole(text: str, largest: int) -> int:
    if not _WHOLE.fullmatch(text) or max(text) > "\uffff":
        raise NoNumber(f"{text[:50]!r} is not a whole number")
    digits = text.lstrip("+-")
    head, tail = digits[:-_LONG_DIGITS], digits[-_LONG_DIGITS:]
    number = -int(tail) if text.startswith("-") else int(tail)
    if not -largest - 1 <= number <= largest or not _is_zero(head):
        raise NoNumber(f"{text[:50]} is outside {-largest - 1} to {largest}")
    return number


def _is_zero(digits: str) -> bool:
    """Check whether all digits are zeros, also those of other scripts."""
    return all(int(digits[at : at + _CHUNK]) == 0 for at in range(0, len(digits), _CHUNK))


def _rank(number: float) -> int:
    """Return the order of numbers that ``<`` and ``>`` find equal."""
    if math.isnan(number):
        return 2
    return 1 if math.copysign(1, number) > 0 else 0
