import math

import pytest

from cometmq.format.java.java_numbers import NoNumber, order, to_double, to_integer, to_long


@pytest.mark.parametrize("text", ["0", "+7", "-7", "007", "2147483647", "-2147483648", "\u0665"])
def test_an_integer_is_digits_and_a_sign(text: str) -> None:
    assert to_integer(text) == to_long(text) == int(text)


@pytest.mark.parametrize("text", ["", "+", "5.0", " 5", "5 ", "1_0", "5L", "0x5", "five", "\U0001d7d3"])
def test_anything_else_is_no_whole_number(text: str) -> None:
    with pytest.raises(NoNumber, match="is not a whole number"):
        to_long(text)


@pytest.mark.parametrize("zero", ["0", "\u0660"])
def test_zeros_before_a_number_mean_nothing_however_many(zero: str) -> None:
    zeros = zero * 30_000
    assert (to_integer(zeros + "7"), to_long("-" + zeros + "7"), to_integer(zeros)) == (7, -7, 0)
    with pytest.raises(NoNumber, match="is outside"):
        to_long("1" + zeros)


def test_a_number_of_many_digits_is_beyond_what_a_long_holds() -> None:
    with pytest.raises(NoNumber, match="9999 is outside -9223372036854775808 to 9223372036854775807"):
        to_long("9" * 50_000)


def test_an_integer_has_32_bits_and_a_long_64() -> None:
    with pytest.raises(NoNumber, match="2147483648 is outside -2147483648 to 2147483647"):
        to_integer("2147483648")
    assert to_long("2147483648") == 2**31
    assert to_long("-9223372036854775808") == -(2**63)
    with pytest.raises(NoNumber, match="is outside -9223372036854775808 to"):
        to_long("9223372036854775808")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5", 5.0),
        ("5.", 5.0),
        (".5", 0.5),
        (" 5e3\t", 5000.0),
        ("5f", 5.0),
        ("5.5D", 5.5),
        ("0x1.8p1", 3.0),
        ("-0X.8P-1d", -0.25),
        ("Infinity", math.inf),
        ("-Infinity", -math.inf),
        ("1e999", math.inf),
        ("0x1p99999", math.inf),
        ("-0x1p99999", -math.inf),
    ],
)
def test_a_double_is_what_java_reads_as_one(text: str, number: float) -> None:
    assert to_double(text) == number


@pytest.mark.parametrize("text", ["", "inf", "nan", "1_0", "0x10", "5 5", "5ff", "e5", ".", "\u0665"])
def test_no_other_text_is_a_double(text: str) -> None:
    with pytest.raises(NoNumber, match="is not a number"):
        to_double(text)


def test_doubles_are_sorted_as_java_sorts_them() -> None:
    numbers = [-math.inf, -1.0, -0.0, 0.0, 1.0, math.inf, math.nan]
    for low, left in enumerate(numbers):
        for high, right in enumerate(numbers):
            assert order(left, right) == (low > high) - (low < high)
    assert order(2**63 - 1, 2**63 - 2) == 1
