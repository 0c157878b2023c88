"""Check the arguments of public functions where they are passed, not deep within.

::

    check(TEXT, name_servers=name_servers, group=group)
    check(or_none(number(0)), linger_ms=linger_ms)

An error names the argument, its value, its type, and what to give.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple

from cometmq.errors import IllegalArgument, IllegalType

SHOWN_MAX: Final = 60
"""Longest text of a value in an error, in characters."""


class ArgumentKind(NamedTuple):
    """A kind of arguments: the test that they must pass, and its name.

    Attributes:
        wanted: the kind in words, for an error that ends in "give …".
        is_type: checks the type.
        is_value: checks the value, if the type is right.
    """

    wanted: str
    is_type: Callable[[Any], bool]
    is_value: Callable[[Any], bool] = lambda _: True


def check(kind: ArgumentKind, **arguments: object) -> None:
    """Check arguments, which are passed by name.

    Raises:
        IllegalType: one has the wrong type (also a ``TypeError``).
        IllegalArgument: one has a value that is not allowed (also a ``ValueError``).
    """
    for name, value in arguments.items():
        if not kind.is_type(value):
            raise IllegalType(mismatch(name, value, kind.wanted))
        if not kind.is_value(value):
            raise IllegalArgument(f"{name} {shown(value)}: give {kind.wanted}")


def mismatch(name: str, value: object, wanted: str) -> str:
    """Return the text of an error about a value of the wrong type."""
    return f"{name} {shown(value)} ({type(value).__name__}): give {wanted}"


def shown(value: object) -> str:
    """Return the ``repr`` of a value for an error; a long one is cut."""
    text = repr(value)
    return text if len(text) <= SHOWN_MAX else text[:SHOWN_MAX] + "…"


def number(least: int | None = None) -> ArgumentKind:
    """Return the kind of whole numbers, optionally with a minimum."""
    if least is None:
        return ArgumentKind("an int", _is_int)
    return ArgumentKind(f"an int of at least {least}", _is_int, lambda value: value >= least)


def instance_of(*types: type) -> ArgumentKind:
    """Return the kind of instances of the classes."""
    return ArgumentKind(
        " or ".join(f"a {one.__name__}" for one in types), lambda value: isinstance(value, types)
    )


def one_of(*texts: str) -> ArgumentKind:
    """Return the kind of some texts."""
    return ArgumentKind(f"one of {', '.join(texts)}", TEXT.is_type, lambda value: value in texts)


def or_none(kind: ArgumentKind) -> ArgumentKind:
    """Return the kind of values that may also be None."""
    return ArgumentKind(
        f"{kind.wanted}, or None",
        lambda value: value is None or kind.is_type(value),
        lambda value: value is None or kind.is_value(value),
    )


def several(kind: ArgumentKind, plural: str) -> ArgumentKind:
    """Return the kind of collections whose elements have a kind; a str does not count as a collection."""
    return ArgumentKind(
        f"{plural}, as a tuple or a list",
        lambda value: _is_collection(value) and all(map(kind.is_type, value)),
        lambda value: all(map(kind.is_value, value)),
    )


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_collection(value: object) -> bool:
    return isinstance(value, Collection) and not isinstance(value, str | bytes | bytearray | Mapping)


TEXT: Final = ArgumentKind("a str", lambda value: isinstance(value, str))
DATA: Final = ArgumentKind(
    "bytes, such as text.encode()", lambda value: isinstance(value, bytes | bytearray | memoryview)
)
COUNT: Final = number(0)
FLAG: Final = ArgumentKind("True or False", lambda value: isinstance(value, bool))
FUNCTION: Final = ArgumentKind("a function", callable)
NUMBER: Final = ArgumentKind("a number", lambda value: isinstance(value, float) or _is_int(value))
SECONDS: Final = ArgumentKind("a number of at least 0", NUMBER.is_type, lambda value: value >= 0)
TEXTS: Final = several(TEXT, "strs")
