import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import MessageIllegal
from cometmq.format.property_numbers import check, is_true, number, number_or

NO_INTEGER = [
    "4Pinpoint",
    "abc",
    " 3",
    "3 ",
    "1.0",
    "1e1",
    "1_0",
    "0x1",
    "+",
    "2147483648",
    "-2147483649",
    "9" * 99,
]


@pytest.mark.parametrize("value", NO_INTEGER)
def test_a_value_that_is_no_number_of_its_type_is_refused_with_its_property(value: str) -> None:
    with pytest.raises(MessageIllegal) as refused:
        check({"TAGS": "A", "DELAY": value})
    assert f"property DELAY = {value[:40]!r}: give a whole number from -2147483648 to 2147483647" in str(
        refused.value
    )
    assert number_or("DELAY", value, 7) == 7


@pytest.mark.parametrize(
    "name",
    [
        "TIMER_DELAY_SEC",
        "TIMER_DELAY_MS",
        "TIMER_DELIVER_MS",
        "CHECK_IMMUNITY_TIME_IN_SECONDS",
        "TRAN_PREPARED_QUEUE_OFFSET",
    ],
)
def test_a_long_has_64_bits(name: str) -> None:
    check({name: "9223372036854775807"})
    with pytest.raises(MessageIllegal, match=f"property {name} = '9223372036854775808': give a whole number"):
        check({name: "9223372036854775808"})


@pytest.mark.parametrize(
    ("value", "read"), [("0" * 40 + "1", 1), ("+3", 3), ("-2", -2), ("\u0663", 3), ("2147483647", 2**31 - 1)]
)
def test_a_number_is_read_as_java_reads_it(value: str, read: int) -> None:
    check({"DELAY": value})
    assert number("DELAY", value) == number_or("DELAY", value, 0) == read


def test_a_missing_number_is_the_default() -> None:
    check({})
    assert number_or("DELAY", None, 5) == 5


@given(st.integers(-(2**31), 2**31 - 1), st.integers(0, 30))
def test_zeros_before_a_number_mean_nothing(value: int, zeros: int) -> None:
    sign, digits = ("-", str(-value)) if value < 0 else ("", str(value))
    assert number("DELAY", f"{sign}{'0' * zeros}{digits}") == value


@pytest.mark.parametrize(("value", "flag"), [("true", True), ("TRUE", True), ("false", False), ("1", False)])
def test_a_flag_is_true_in_any_case_of_letters_and_else_false(value: str, flag: bool) -> None:
    assert is_true(value) is flag
    assert not is_true(None)
