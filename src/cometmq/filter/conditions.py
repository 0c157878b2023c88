"""What the parts of an SQL92 filter mean: each becomes a function of a message's properties, once.

A value is text, a number, true, false or unknown (None). Properties are text, so what a comparison has to
convert is known when it is made, and so is nearly every mistake. RocketMQ's rules, which are not SQL's:

================================  =====================================================================
``a = 5``, ``a > 5``              ``a`` is read as the type of the literal: Integer, Long or Double; if it
                                  is no such number, the whole filter fails and the message is left out
``a > b``                         both are read as Doubles
``a > 'x'``, ``a > TRUE``         refused: only numbers have an order
``a = b``                         the same text, or both missing
``a = 5``, ``a`` missing          unknown; but ``5 = a`` is false then, and ``5 <> a`` true
``TRUE = a``                      fails; ``a = TRUE`` is true for the text ``true`` in any case
``a CONTAINS 'x'``, ``a``         false, and so is ``a NOT CONTAINS 'x'``; the like for an empty text
missing
``a`` as a condition              false, or unknown if it is missing: no property is a truth value
``-a``                            unknown: a property is no number by itself
================================  =====================================================================

Source: RocketMQ ``filter/expression/*.java``.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import Final, NamedTuple

from cometmq.errors import FormatError
from cometmq.format.java_numbers import NoNumber, order, to_double, to_integer, to_long

Value = str | int | float | bool | None
Evaluate = Callable[[Mapping[str, str]], Value]
Truth = Callable[[Mapping[str, str]], bool | None]

NESTING_MAX: Final = 100
"""How deep parts may be nested: a client decides about it, and each level is a call."""


class IllegalExpression(FormatError):
    """A filter that means nothing: says where and why."""


class Kind(Enum):
    """What a value is, unless it is unknown."""

    TEXT = auto()
    INTEGER = auto()
    LONG = auto()
    DOUBLE = auto()
    BOOLEAN = auto()
    UNKNOWN = auto()


NUMBERS: Final = (Kind.INTEGER, Kind.LONG, Kind.DOUBLE)
_READ: Final[dict[Kind, Callable[[str], float]]] = {
    Kind.INTEGER: to_integer,
    Kind.LONG: to_long,
    Kind.DOUBLE: to_double,
}
ORDERS: Final[dict[str, Callable[[int], bool]]] = {
    ">": lambda sign: sign > 0,
    ">=": lambda sign: sign >= 0,
    "<": lambda sign: sign < 0,
    "<=": lambda sign: sign <= 0,
}
TEXT_TESTS: Final[dict[str, Callable[[str, str], bool]]] = {
    "CONTAINS": lambda text, wanted: wanted in text,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


class Role(Enum):
    """What a part can be used for."""

    LITERAL = auto()
    PROPERTY = auto()
    CONDITION = auto()
    NEGATED = auto()


class Part(NamedTuple):
    """A part of a filter.

    Attributes:
        evaluate: gives its value for a message's properties.
        at: where it begins in the text, counted from 1.
        depth: how many parts are nested in it.
        value: of a literal.
    """

    kind: Kind
    role: Role
    evaluate: Evaluate
    at: int
    depth: int = 1
    value: Value = None

    @property
    def is_condition(self) -> bool:
        """Whether it is true, false or unknown by its form."""
        return self.role is Role.CONDITION or (
            self.role is Role.LITERAL and self.kind in (Kind.BOOLEAN, Kind.UNKNOWN)
        )


def literal(kind: Kind, value: Value, at: int) -> Part:
    """Stand for itself."""
    return Part(kind, Role.LITERAL, lambda _: value, at, value=value)


def property_of(name: str, at: int) -> Part:
    """Give a message's property, unknown if it has none of this name."""
    return Part(Kind.TEXT, Role.PROPERTY, lambda properties: properties.get(name), at)


def whole(text: str, at: int) -> Part:
    """Read a whole number: an Integer if it is small enough, else a Long."""
    try:
        number = to_long(text.rstrip("lL"))
    except NoNumber as error:
        raise _illegal(at, str(error)) from None
    return literal(Kind.INTEGER if number < 2**31 else Kind.LONG, number, at)


def fraction(text: str, at: int) -> Part:
    """Read a Double; RocketMQ takes none that is 0.0 or too large for one."""
    number = to_double(text)
    if not 0 < number < float("inf"):
        raise _illegal(at, f"{text} is out of range: a fraction must be more than 0.0, and finite")
    return literal(Kind.DOUBLE, number, at)


def negated(part: Part, at: int) -> Part:
    """Put a minus before a number; before anything else it makes an unknown."""
    evaluate = part.evaluate
    if part.kind not in NUMBERS:
        return Part(Kind.UNKNOWN, Role.NEGATED, lambda _: None, at, _depth(at, part))
    number = evaluate({})
    assert isinstance(number, int | float)
    value = -number
    return Part(part.kind, Role.NEGATED, lambda _: value, at, _depth(at, part))


def condition(part: Part) -> Truth:
    """Use a part as a condition."""
    if part.is_condition:
        return part.evaluate  # type: ignore[return-value]  # its form says that it is true, false or None
    if part.role is Role.PROPERTY:
        evaluate = part.evaluate
        return lambda properties: None if evaluate(properties) is None else False
    raise _illegal(part.at, "neither true nor false: compare it with something")


def any_of(parts: Sequence[Part]) -> Part:
    """Say OR: true if one is; unknown if none is and one is unknown."""
    return _condition(_chain([condition(part) for part in parts], ends_it=True), *parts)


def all_of(parts: Sequence[Part]) -> Part:
    """Say AND: false if one is; unknown if none is and one is unknown."""
    return _condition(_chain([condition(part) for part in parts], ends_it=False), *parts)


def inverted(part: Part) -> Part:
    """Say NOT; what is unknown stays so."""
    truth = condition(part)

    def evaluate(properties: Mapping[str, str]) -> bool | None:
        value = truth(properties)
        return None if value is None else not value

    return _condition(evaluate, part)


def equal(left: Part, right: Part) -> Part:
    """Compare two values for being the same."""
    for part in (left, right):
        if part.role is Role.LITERAL and part.kind is Kind.UNKNOWN:
            raise _illegal(part.at, "NULL equals nothing: write IS NULL")
    if left.role is right.role is Role.LITERAL and left.is_condition and not right.is_condition:
        raise _illegal(right.at, "cannot be compared with a truth value")
    return same(left, right)


def same(left: Part, right: Part) -> Part:
    """Compare two values for being the same, unknown included: what IS NULL does."""
    first, second, compare = left.evaluate, right.evaluate, _comparison(left, right)

    def evaluate(properties: Mapping[str, str]) -> bool | None:
        one, other = first(properties), second(properties)
        if one is None:
            return True if other is None else None
        return other is not None and compare(one, other) == 0

    return _condition(evaluate, left, right)


def ordered(left: Part, sign: str, right: Part) -> Part:
    """Compare two numbers."""
    for part in (left, right):
        if part.is_condition or (part.role is Role.LITERAL and part.kind not in NUMBERS):
            raise _illegal(part.at, f"cannot be compared by {sign}: only numbers have an order")
    first, second, holds = left.evaluate, right.evaluate, ORDERS[sign]
    compare = _as_doubles if left.kind is right.kind is Kind.TEXT else _comparison(left, right)

    def evaluate(properties: Mapping[str, str]) -> bool | None:
        one = first(properties)
        if one is None or (other := second(properties)) is None:
            return None
        return holds(compare(one, other))

    return _condition(evaluate, left, right)


def between(part: Part, low: Part, high: Part) -> Part:
    """Compare with both ends of a range, which belong to it."""
    if low.role is high.role is Role.LITERAL and low.kind in NUMBERS and high.kind in NUMBERS:
        compare = _comparison(high, low)
        if compare(high.value, low.value) < 0:
            raise _illegal(low.at, f"BETWEEN {low.value} AND {high.value}: the lower one comes first")
    return all_of([ordered(part, ">=", low), ordered(part, "<=", high)])


def not_between(part: Part, low: Part, high: Part) -> Part:
    """Compare with both ends of a range, which do not belong to what is wanted."""
    return any_of([ordered(part, "<", low), ordered(part, ">", high)])


def one_of(part: Part, texts: Sequence[str], *, inverse: bool) -> Part:
    """Look a property up in a list; unknown if it is missing."""
    if part.role is not Role.PROPERTY:
        raise _illegal(part.at, "IN looks up a property only")
    first, wanted = part.evaluate, frozenset(texts)

    def evaluate(properties: Mapping[str, str]) -> bool | None:
        text = first(properties)
        return None if text is None else (text in wanted) is not inverse

    return _condition(evaluate, part)


def text_test(part: Part, name: str, wanted: str, *, inverse: bool) -> Part:
    """Look for ``wanted`` in a text; false for anything else, whether inverse or not."""
    first, holds = part.evaluate, TEXT_TESTS[name]

    def evaluate(properties: Mapping[str, str]) -> bool:
        text = first(properties)
        return isinstance(text, str) and wanted != "" and holds(text, wanted) is not inverse

    return _condition(evaluate, part)


def _condition(evaluate: Truth, *parts: Part) -> Part:
    at = parts[0].at
    return Part(Kind.BOOLEAN, Role.CONDITION, evaluate, at, _depth(at, *parts))


def _chain(truths: Sequence[Truth], *, ends_it: bool) -> Truth:
    """Ask one after the other until one gives ``ends_it``."""

    def evaluate(properties: Mapping[str, str]) -> bool | None:
        result: bool | None = not ends_it
        for truth in truths:
            value = truth(properties)
            if value is ends_it:
                return ends_it
            if value is None:
                result = None
        return result

    return evaluate


def _comparison(left: Part, right: Part) -> Callable[[Value, Value], int]:
    """Give how two values of these kinds are compared: less than 0, 0, more than 0; it raises NoNumber."""
    one, other = left.kind, right.kind
    if one is Kind.TEXT and other in _READ:
        read = _READ[other]
        return lambda text, number: order(read(text), number)  # type: ignore[arg-type]  # of these kinds
    if other is Kind.TEXT and one in _READ:
        read = _READ[one]
        return lambda number, text: order(number, read(text))  # type: ignore[arg-type]  # of these kinds
    if one in _READ and other in _READ:
        real = Kind.DOUBLE in (one, other)
        return _order_as_doubles if real else order  # type: ignore[return-value]  # of these kinds
    if one is Kind.TEXT and other is Kind.BOOLEAN:
        return lambda text, truth: (str(text).lower() == "true") - bool(truth)
    if one is Kind.BOOLEAN and other is Kind.TEXT:
        return _fail
    if one is other:
        return lambda value, another: 0 if value == another else 1
    return lambda _, __: -1


def _as_doubles(left: Value, right: Value) -> int:
    return order(to_double(str(left)), to_double(str(right)))


def _order_as_doubles(left: float, right: float) -> int:
    return order(float(left), float(right))


def _fail(_: Value, text: Value) -> int:
    raise NoNumber(f"{text!r} is no truth value")


def _depth(at: int, *parts: Part) -> int:
    depth = 1 + max(part.depth for part in parts)
    if depth > NESTING_MAX:
        raise _illegal(at, f"nested more than {NESTING_MAX} deep")
    return depth


def _illegal(at: int, why: str) -> IllegalExpression:
    return IllegalExpression(f"at character {at}: {why}")
