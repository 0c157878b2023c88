"""The semantics of SQL92 filters: each term is compiled once to a function of a message's properties.

A value is text, a number, true, false or unknown (None). Properties are text, so the conversions of a
comparison are known when it is compiled, and so is nearly every mistake. RocketMQ's rules, which are not
SQL's:

================================  =====================================================================
``a = 5``, ``a > 5``              ``a`` is parsed as the type of the literal: Integer, Long or Double; if it
                                  is not such a number, the whole filter fails and rejects the message
``a > b``                         both are parsed as Doubles
``a > 'x'``, ``a > TRUE``         refused: only numbers have an order
``a = b``                         the same text, or both missing
``a = 5``, ``a`` missing          unknown; but ``5 = a`` is false then, and ``5 <> a`` true
``TRUE = a``                      fails; ``a = TRUE`` is true for the text ``true`` in any case
``a CONTAINS 'x'``, ``a``         false, and so is ``a NOT CONTAINS 'x'``; the same for an empty text
missing
``a`` as a condition              false, or unknown if it is missing: no property is a truth value
``-a``                            unknown: a property is not a number by itself
================================  =====================================================================

Source: RocketMQ ``filter/expression/*.java``.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import Final, NamedTuple

from cometmq.errors import FormatError
from cometmq.format.java.java_numbers import NoNumber, order, to_double, to_integer, to_long

Value = str | int | float | bool | None
Evaluate = Callable[[Mapping[str, str]], Value]
Truth = Callable[[Mapping[str, str]], bool | None]

NESTING_MAX: Final = 100
"""Deepest nesting: clients choose it, and each level is a nested call."""


class IllegalExpression(FormatError):
    """A filter that cannot be compiled; the text says where and why."""


class ValueKind(Enum):
    """The type of a value."""

    TEXT = auto()
    INTEGER = auto()
    LONG = auto()
    DOUBLE = auto()
    BOOLEAN = auto()
    UNKNOWN = auto()


NUMBERS: Final = (ValueKind.INTEGER, ValueKind.LONG, ValueKind.DOUBLE)
_READ: Final[dict[ValueKind, Callable[[str], float]]] = {
    ValueKind.INTEGER: to_integer,
    ValueKind.LONG: to_long,
    ValueKind.DOUBLE: to_double,
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
    """The role of a term, which decides where it can be used."""

    LITERAL = auto()
    PROPERTY = auto()
    CONDITION = auto()
    NEGATED = auto()


class Term(NamedTuple):
    """A compiled term of a filter.

    Attributes:
        evaluate: returns its value for a message's properties.
        at: where it begins in the text, in characters counted from 1.
        depth: number of levels nested in it.
        value: the value of a literal.
    """

    kind: ValueKind
    role: Role
    evaluate: Evaluate
    at: int
    depth: int = 1
    value: Value = None

    @property
    def is_condition(self) -> bool:
        """Whether its form alone says that its value is true, false or unknown."""
        return self.role is Role.CONDITION or (
            self.role is Role.LITERAL and self.kind in (ValueKind.BOOLEAN, ValueKind.UNKNOWN)
        )


def literal(kind: ValueKind, value: Value, at: int) -> Term:
    """Build a literal."""
    return Term(kind, Role.LITERAL, lambda _: value, at, value=value)


def property_of(name: str, at: int) -> Term:
    """Build a reference to a message's property, whose value is unknown if the property is missing."""
    return Term(ValueKind.TEXT, Role.PROPERTY, lambda properties: properties.get(name), at)


def whole(text: str, at: int) -> Term:
    """Parse a whole number: an Integer if it is small enough, else a Long."""
    try:
        number = to_long(text.rstrip("lL"))
    except NoNumber as error:
        raise _illegal(at, str(error)) from None
    return literal(ValueKind.INTEGER if number < 2**31 else ValueKind.LONG, number, at)


def fraction(text: str, at: int) -> Term:
    """Parse a Double; like RocketMQ, refuse 0.0 and numbers that are too large."""
    number = to_double(text)
    if not 0 < number < float("inf"):
        raise _illegal(at, f"{text[:50]} is out of range: a fraction must be more than 0.0, and finite")
    return literal(ValueKind.DOUBLE, number, at)


def negated(term: Term) -> Term:
    """Negate a number; a minus before anything else makes an unknown value."""
    evaluate = term.evaluate
    if term.kind not in NUMBERS:
        return Term(ValueKind.UNKNOWN, Role.NEGATED, lambda _: None, term.at, _depth(term.at, term))
    number = evaluate({})
    assert isinstance(number, int | float)
    value = -number
    return Term(term.kind, Role.NEGATED, lambda _: value, term.at, _depth(term.at, term))


def condition(term: Term) -> Truth:
    """Compile a term to a condition. Raises IllegalExpression if it cannot be one."""
    if term.is_condition:
        return term.evaluate  # type: ignore[return-value]  # its form says that it is true, false or None
    if term.role is Role.PROPERTY:
        evaluate = term.evaluate
        return lambda properties: None if evaluate(properties) is None else False
    raise _illegal(term.at, "neither true nor false: compare it with something")


def any_of(terms: Sequence[Term]) -> Term:
    """Build an OR: true if a term is true; else unknown if a term is unknown."""
    return _condition(_chain([condition(term) for term in terms], ends_it=True), *terms)


def all_of(terms: Sequence[Term]) -> Term:
    """Build an AND: false if a term is false; else unknown if a term is unknown."""
    return _condition(_chain([condition(term) for term in terms], ends_it=False), *terms)


def inverted(term: Term) -> Term:
    """Build a NOT; the opposite of unknown is unknown."""
    truth = condition(term)

    def evaluate(properties: Mapping[str, str]) -> bool | None:
        value = truth(properties)
        return None if value is None else not value

    return _condition(evaluate, term)


def equal(left: Term, right: Term) -> Term:
    """Build a test for equality."""
    for term in (left, right):
        if term.role is Role.LITERAL and term.kind is ValueKind.UNKNOWN:
            raise _illegal(term.at, "NULL equals nothing: write IS NULL")
    if left.role is right.role is Role.LITERAL and left.is_condition and not right.is_condition:
        raise _illegal(right.at, "a truth value is compared with a truth value only: write TRUE or FALSE")
    return same(left, right)


def same(left: Term, right: Term) -> Term:
    """Build a test for equality in which two unknown values are equal, as IS NULL needs it."""
    first, second, compare = left.evaluate, right.evaluate, _comparison(left, right)

    def evaluate(properties: Mapping[str, str]) -> bool | None:
        one, other = first(properties), second(properties)
        if one is None:
            return True if other is None else None
        return other is not None and compare(one, other) == 0

    return _condition(evaluate, left, right)


def ordered(left: Term, sign: str, right: Term) -> Term:
    """Build a comparison of two numbers by ``sign``."""
    for term in (left, right):
        if term.is_condition or (term.role is Role.LITERAL and term.kind not in NUMBERS):
            raise _illegal(
                term.at,
                f"cannot be compared by {sign}: only numbers have an order, others are compared by = or <>",
            )
    first, second, holds = left.evaluate, right.evaluate, ORDERS[sign]
    compare = _as_doubles if left.kind is right.kind is ValueKind.TEXT else _comparison(left, right)

    def evaluate(properties: Mapping[str, str]) -> bool | None:
        one = first(properties)
        if one is None or (other := second(properties)) is None:
            return None
        return holds(compare(one, other))

    return _condition(evaluate, left, right)


def between(term: Term, low: Term, high: Term) -> Term:
    """Build a BETWEEN; both ends belong to the range."""
    if low.role is high.role is Role.LITERAL and low.kind in NUMBERS and high.kind in NUMBERS:
        compare = _comparison(high, low)
        if compare(high.value, low.value) < 0:
            raise _illegal(low.at, f"BETWEEN {low.value} AND {high.value}: the lower one comes first")
    return all_of([ordered(term, ">=", low), ordered(term, "<=", high)])


def not_between(term: Term, low: Term, high: Term) -> Term:
    """Build a NOT BETWEEN; both ends belong to the excluded range."""
    return any_of([ordered(term, "<", low), ordered(term, ">", high)])


def one_of(term: Term, texts: Sequence[str], *, inverse: bool) -> Term:
    """Build an IN or NOT IN, which looks a property up in a list; unknown if the property is missing."""
    if term.role is not Role.PROPERTY:
        raise _illegal(term.at, "only a property can stand before IN: compare other values by =")
    first, wanted = term.evaluate, frozenset(texts)

    def evaluate(properties: Mapping[str, str]) -> bool | None:
        text = first(properties)
        return None if text is None else (text in wanted) is not inverse

    return _condition(evaluate, term)


def text_test(term: Term, name: str, wanted: str, *, inverse: bool) -> Term:
    """Build a test of a text, such as CONTAINS; false for anything but text, also if ``inverse``."""
    first, holds = term.evaluate, TEXT_TESTS[name]

    def evaluate(properties: Mapping[str, str]) -> bool:
        text = first(properties)
        return isinstance(text, str) and wanted != "" and holds(text, wanted) is not inverse

    return _condition(evaluate, term)


def _condition(evaluate: Truth, *terms: Term) -> Term:
    at = terms[0].at
    return Term(ValueKind.BOOLEAN, Role.CONDITION, evaluate, at, _depth(at, *terms))


def _chain(truths: Sequence[Truth], *, ends_it: bool) -> Truth:
    """Chain conditions that are evaluated in turn until one returns ``ends_it``."""

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


def _comparison(left: Term, right: Term) -> Callable[[Value, Value], int]:
    """Return the comparison of values of these types: less than 0, 0, more than 0; it may raise NoNumber."""
    one, other = left.kind, right.kind
    if one is ValueKind.TEXT and other in _READ:
        read = _READ[other]
        return lambda text, number: order(read(text), number)  # type: ignore[arg-type]  # of these kinds
    if other is ValueKind.TEXT and one in _READ:
        read = _READ[one]
        return lambda number, text: order(number, read(text))  # type: ignore[arg-type]  # of these kinds
    if one in _READ and other in _READ:
        real = ValueKind.DOUBLE in (one, other)
        return _order_as_doubles if real else order  # type: ignore[return-value]  # of these kinds
    if one is ValueKind.TEXT and other is ValueKind.BOOLEAN:
        return lambda text, truth: (str(text).lower() == "true") - bool(truth)
    if one is ValueKind.BOOLEAN and other is ValueKind.TEXT:
        return _fail
    if one is other:
        return lambda value, another: 0 if value == another else 1
    return lambda _, __: -1


def _as_doubles(left: Value, right: Value) -> int:
    return order(to_double(str(left)), to_double(str(right)))


def _order_as_doubles(left: float, right: float) -> int:
    return order(float(left), float(right))


def _fail(_: Value, text: Value) -> int:
    raise NoNumber(f"{text!r} is not a truth value")


def _depth(at: int, *terms: Term) -> int:
    depth = 1 + max(term.depth for term in terms)
    if depth > NESTING_MAX:
        raise _illegal(at, f"nested more than {NESTING_MAX} deep")
    return depth


def _illegal(at: int, why: str) -> IllegalExpression:
    return IllegalExpression(f"at character {at}: {why}")
