"""Arguments are checked where they are given: the error names them, what was given, and what is wanted."""

import pytest

from cometmq import arguments
from cometmq.errors import CometMQError, IllegalArgument, IllegalType, SettingsError


@pytest.mark.parametrize(
    ("kind", "right"),
    [
        (arguments.TEXT, ["", "a"]),
        (arguments.DATA, [b"", bytearray(1), memoryview(b"")]),
        (arguments.FLAG, [True, False]),
        (arguments.FUNCTION, [len, lambda: None, str]),
        (arguments.SECONDS, [0, 1.5]),
        (arguments.TEXTS, [(), ["a"], {"a"}, ("a", "b")]),
        (arguments.number(), [-1, 0, 10**9]),
        (arguments.number(3), [3, 4]),
        (arguments.or_none(arguments.number(3)), [None, 3]),
        (arguments.one_of("a", "b"), ["a", "b"]),
        (arguments.instance_of(int, str), [1, "a"]),
        (arguments.several(arguments.number(1), "ints"), [[1, 2]]),
    ],
)
def test_what_fits_is_taken(kind: arguments.ArgumentKind, right: list[object]) -> None:
    for value in right:
        arguments.check(kind, it=value)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (arguments.TEXT, b"a", r"it b'a' \(bytes\): give a str$"),
        (arguments.TEXT, None, r"it None \(NoneType\): give a str$"),
        (arguments.DATA, "a", r"it 'a' \(str\): give bytes, such as text.encode\(\)"),
        (arguments.FLAG, 1, r"it 1 \(int\): give True or False"),
        (arguments.FUNCTION, 1, r"give a function"),
        (arguments.SECONDS, "1", r"give a number"),
        (arguments.TEXTS, "abc", r"it 'abc' \(str\): give strs, as a tuple or a list"),
        (arguments.TEXTS, ("a", 1), r"it \('a', 1\) \(tuple\): give strs"),
        (arguments.number(), 1.0, r"it 1.0 \(float\): give an int$"),
        (arguments.number(), True, r"it True \(bool\): give an int$"),
        (arguments.or_none(arguments.number(1)), "1", r"it '1' \(str\): give an int of at least 1, or None"),
        (arguments.instance_of(list, tuple), 1, r"it 1 \(int\): give a list or a tuple"),
    ],
)
def test_another_type_is_refused_with_what_is_wanted(
    kind: arguments.ArgumentKind, value: object, text: str
) -> None:
    for error in (IllegalType, TypeError, SettingsError):
        with pytest.raises(error, match=text):
            arguments.check(kind, it=value)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (arguments.number(1), 0, "it 0: give an int of at least 1"),
        (arguments.or_none(arguments.number(0)), -1, "it -1: give an int of at least 0, or None"),
        (arguments.SECONDS, -0.5, "it -0.5: give a number of at least 0"),
        (arguments.several(arguments.number(1), "ints"), [1, 0], r"it \[1, 0\]: give ints"),
    ],
)
def test_another_value_is_refused_with_what_is_wanted(
    kind: arguments.ArgumentKind, value: object, text: str
) -> None:
    for error in (IllegalArgument, ValueError, CometMQError):
        with pytest.raises(error, match=text):
            arguments.check(kind, it=value)


def test_a_long_value_is_cut() -> None:
    assert arguments.shown("a" * 50) == repr("a" * 50)
    assert len(arguments.shown("a" * 500)) == arguments.SHOWN_MAX + 1
