import re

import pytest

from cometmq.errors import SettingsError
from cometmq.spark import values
from cometmq.spark.values import OptionTexts


def test_options_are_found_in_any_case_and_read_once_trimmed() -> None:
    texts = OptionTexts({"LIMIT": " 7 "}, ("limit", "path"))
    assert "limit" in texts and "path" not in texts
    assert texts["limit"] == "7"
    assert texts.read("limit", values.number, 1) == 7
    assert texts.read("path", values.number, 1) == 1


@pytest.mark.parametrize(
    ("name", "answer"), [("limitt", "did you mean limit?"), ("frobnicate", "use some of limit, path")]
)
def test_an_unknown_option_is_refused_with_a_hint(name: str, answer: str) -> None:
    with pytest.raises(SettingsError, match=answer):
        OptionTexts({name: "1"}, ("limit", "path"))


SESSION = {
    "spark.rocketmq.limit": " 7 ",
    "spark.rocketmq.Path": "a",
    "spark.rocketmq.tags": "of another kind",
}


def test_an_option_of_the_session_holds_where_none_is_given_and_is_passed_over_elsewhere() -> None:
    texts = OptionTexts({"LIMIT": "8"} | SESSION, ("limit", "path"))
    assert (texts["limit"], texts["path"]) == ("8", "a")
    assert "path" not in OptionTexts(SESSION, ("limit", "path"), not_here=("path",))


def test_an_alternative_counts_more_than_an_option_of_the_session() -> None:
    texts = OptionTexts(
        {"paths": "b"} | SESSION, ("limit", "path", "paths"), alternatives=[("path", "paths")]
    )
    assert (texts["limit"], texts["paths"], "path" in texts) == ("7", "b", False)


def test_true_and_false_are_read_in_any_case_and_nothing_else_is() -> None:
    assert values.flag("on", "True") and not values.flag("on", "FALSE")
    with pytest.raises(SettingsError, match="option on yes: give true or false"):
        values.flag("on", "yes")


def test_numbers_have_a_least() -> None:
    assert values.number("n", "4", 4) == 4
    with pytest.raises(SettingsError, match="option n 3: give a whole number from 4"):
        values.number("n", "3", 4)


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [("4096", 4096), ("1m", 1 << 20), ("1M", 1 << 20), ("128 MB", 128 << 20), ("2g", 2 << 30), ("3kb", 3072)],
)
def test_sizes_have_the_units_of_spark(text: str, bytes_: int) -> None:
    assert values.size("n", text) == bytes_


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("900", 900), ("15m", 900), ("15 min", 900), ("2H", 7200), ("1d", 86_400)],
)
def test_times_have_the_units_of_spark(text: str, seconds: int) -> None:
    assert values.seconds("n", text) == seconds


@pytest.mark.parametrize("text", ["", "m", "1.5m", "-1", "1 x", "10ms", "1m1", "9" * 200 + "m"])
def test_other_units_are_refused_with_the_remedy(text: str) -> None:
    with pytest.raises(SettingsError, match=r"^option n .*: give (bytes, or a number with k, m|a whole)"):
        values.size("n", text)
    with pytest.raises(SettingsError, match=r"^option n .*: give (seconds, or a number with s|a whole)"):
        values.seconds("n", text)


def test_a_key_is_one_text_without_blanks() -> None:
    assert values.key("key", "order,7") == "order,7"
    for text in ("", "a b"):
        with pytest.raises(SettingsError, match="give one key, which holds no blank"):
            values.key("key", text)


def test_a_number_of_thousands_of_digits_is_refused_as_any_other() -> None:
    with pytest.raises(SettingsError, match="give a whole number from 1 to"):
        values.number("n", "9" * 5_000)


def test_the_documented_names_of_sparks_are_those_that_are_ignored() -> None:
    documented = re.findall(r"^([a-z]\w+)  +\S", values.__doc__ or "", re.MULTILINE)
    assert documented[0] == "name"
    assert tuple(documented[1:]) == values.SPARKS_OWN
