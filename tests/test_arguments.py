"""Arguments are checked where they are given: the error names them, what was given, and what is wanted."""

import pytest

from cometmq.arguments import (
    DATA,
    FLAG,
    FUNCTION,
    SECONDS,
    SHOWN_MAX,
    TEXT,
    TEXTS,
    ArgumentKind,
    check,
    instance_of,
    number,
    one_of,
    or_none,
    several,
    shown,
)
from cometmq.errors import CometMQError, IllegalArgument, IllegalType, SettingsError


@pytest.mark.parametrize(
    ("kind", "right"),
    [
        (TEXT, ["", "a"]),
        (DATA, [b"", bytearray(1), memoryview(b"")]),
        (FLAG, [True, False]),
        (FUNCTION, [len, lambda: None, str]),
        (SECONDS, [0, 1.5]),
        (TEXTS, [(), ["a"], {"a"}, ("a", "b")]),
        (number(), [-1, 0, 10**9]),
        (number(3), [3, 4]),
        (or_none(number(3)), [None, 3]),
        (one_of("a", "b"), ["a", "b"]),
        (instance_of(int, str), [1, "a"]),
        (several(number(1), "ints"), [[1, 2]]),
    ],
)
def test_what_fits_is_taken(kind: ArgumentKind, right: list[object]) -> None:
    for value in right:
        check(kind, it=value)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (TEXT, b"a", r"it b'a' \(bytes\): give a str$"),
        (TEXT, None, r"it None \(NoneType\): give a str$"),
        (DATA, "a", r"it 'a' \(str\): give bytes, such as text.encode\(\)"),
        (FLAG, 1, r"it 1 \(int\): give True or False"),
        (FUNCTION, 1, r"give a function"),
        (SECONDS, "1", r"give a number"),
        (TEXTS, "abc", r"it 'abc' \(str\): give strs, as a tuple or a list"),
        (TEXTS, ("a", 1), r"it \('a', 1\) \(tuple\): give strs"),
        (number(), 1.0, r"it 1.0 \(float\): give an int$"),
        (number(), True, r"it True \(bool\): give an int$"),
        (or_none(number(1)), "1", r"it '1' \(str\): give an int of at least 1, or None"),
        (instance_of(list, tuple), 1, r"it 1 \(int\): give a list or a tuple"),
    ],
)
def test_another_type_is_refused_with_what_is_wanted(kind: ArgumentKind, value: object, text: str) -> None:
    for error in (IllegalType, TypeError, SettingsError):
        with pytest.raises(error, match=text):
            check(kind, it=value)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (number(1), 0, "it 0: give an int of at least 1"),
        (or_none(number(0)), -1, "it -1: give an int of at least 0, or None"),
        (SECONDS, -0.5, "it -0.5: give a number of at least 0"),
        (several(number(1), "ints"), [1, 0], r"it \[1, 0\]: give ints"),
    ],
)
def test_another_value_is_refused_with_what_is_wanted(kind: ArgumentKind, value: object, text: str) -> None:
    for error in (IllegalArgument, ValueError, CometMQError):
        with pytest.raises(error, match=text):
            check(kind, it=value)


def test_a_long_value_is_cut() -> None:
    assert shown("a" * 50) == repr("a" * 50)
    assert len(shown("a" * 500)) == SHOWN_MAX + 1
