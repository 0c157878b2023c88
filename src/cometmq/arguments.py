"""Checking the arguments of public functions, where they are given and not deep within.

::

    check(TEXT, name_servers=name_servers, group=group)
    check(or_none(number(0)), linger_ms=linger_ms)

An error names the argument, what was given, its type, and what is wanted.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple

from cometmq.errors import IllegalArgument, IllegalType

SHOWN_MAX: Final = 60
"""So many characters of a value are shown."""


class ArgumentKind(NamedTuple):
    """What an argument may be.

    Attributes:
        wanted: the same in words, behind "give".
        is_type: checks the type.
        is_value: checks the value, once the type is right.
    """

    wanted: str
    is_type: Callable[[Any], bool]
    is_value: Callable[[Any], bool] = lambda _: True


def check(kind: ArgumentKind, **arguments: object) -> None:
    """Check arguments, which are given by their names.

    Raises:
        IllegalType: one is of another type (also a ``TypeError``).
        IllegalArgument: one has a value that cannot be (also a ``ValueError``).
    """
    for name, value in arguments.items():
        if not kind.is_type(value):
            raise IllegalType(mismatch(name, value, kind.wanted))
        if not kind.is_value(value):
            raise IllegalArgument(f"{name} {shown(value)}: give {kind.wanted}")


def mismatch(name: str, value: object, wanted: str) -> str:
    """Return the text of an error about a value of another type than is wanted."""
    return f"{name} {shown(value)} ({type(value).__name__}): give {wanted}"


def shown(value: object) -> str:
    """Return a value as errors show it: a long one is cut."""
    text = repr(value)
    return text if len(text) <= SHOWN_MAX else text[:SHOWN_MAX] + "…"


def number(least: int | None = None) -> ArgumentKind:
    """Return the kind of whole numbers, of at least ``least``."""
    if least is None:
        return ArgumentKind("an int", _is_int)
    return ArgumentKind(f"an int of at least {least}", _is_int, lambda value: value >= least)


def instance_of(*types: type) -> ArgumentKind:
    """Return the kind of the instances of some classes."""
    return ArgumentKind(
        " or ".join(f"a {one.__name__}" for one in types), lambda value: isinstance(value, types)
    )


def or_none(kind: ArgumentKind) -> ArgumentKind:
    """Return the kind of a value that may be left out."""
    return ArgumentKind(
        f"{kind.wanted}, or None",
        lambda value: value is None or kind.is_type(value),
        lambda value: value is None or kind.is_value(value),
    )


def several(kind: ArgumentKind, plural: str) -> ArgumentKind:
    """Return the kind of collections of values; a str, which is one of letters, is none."""
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
