import contextlib
import json
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import FormatError
from cometmq.filter import sql92, sql92_grammar
from cometmq.filter.conditions import IllegalExpression, Term
from cometmq.filter.sql92 import OutcomeCache
from cometmq.format.java.java_numbers import NoNumber

GOLDEN = Path(__file__).parents[1] / "golden" / "sql92.json"
LETTERS = {True: "T", False: "F", None: "N"}


def answer(expression: str, properties: dict[str, str]) -> str:
    try:
        return LETTERS[sql92.compile(expression).evaluate(properties)]
    except NoNumber:
        return "E"


def test_each_answer_is_that_of_rocketmqs_own_filter() -> None:
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    different = {}
    for expression, expected in golden["answers"].items():
        try:
            answers = "".join(answer(expression, properties) for properties in golden["properties"])
        except IllegalExpression:
            answers = "refused"
        if answers != expected:
            different[expression] = (expected, answers)
    assert different == {}
    assert len(golden["answers"]) > 1_000


@pytest.mark.parametrize(
    ("expression", "place"),
    [
        ("a > 5 AND b > 'x'", "at character 15: cannot be compared by >: only numbers have an order"),
        ("a = 5 AND ;", "at character 11: ';' begins no word or sign"),
        ("a = OR", "at character 5: 'OR' is not expected"),
        ("a IN ('x',", "the filter ends too early"),
        ("", "the filter ends too early"),
        ("a BETWEEN 5 AND 1", "at character 11: BETWEEN 5 AND 1: the lower one comes first"),
        (
            "a = 99999999999999999999",
            "at character 5: 99999999999999999999 is outside -9223372036854775808 to 9223372036854775807",
        ),
        ("a > 0.0", "at character 5: 0.0 is out of range"),
        (f"a > {'1' * 400}.0", f"at character 5: {'1' * 50} is out of range"),
        ("a = NULL", "at character 5: NULL equals nothing: write IS NULL"),
        ("TRUE = 5", "at character 8: a truth value is compared with a truth value only"),
        ("5 IN ('5')", "at character 1: only a property can stand before IN"),
        ("a AND 5", "at character 7: neither true nor false"),
    ],
)
def test_a_mistake_is_named_with_its_place(expression: str, place: str) -> None:
    with pytest.raises(IllegalExpression) as raised:
        sql92.compile(expression)
    assert place in str(raised.value)


def test_a_filter_has_a_longest_length_and_a_deepest_nesting() -> None:
    names = " OR ".join(f"a = {number}" for number in range(500))
    assert sql92.compile(names).matches({"a": "499"})
    with pytest.raises(IllegalExpression, match="at most 65536 characters"):
        sql92.compile(names + " " * sql92.LENGTH_MAX)
    assert sql92.compile("(" * 900 + "a = 1" + ")" * 900).matches({"a": "1"})
    with pytest.raises(IllegalExpression, match="nested more than 100 deep"):
        sql92.compile("NOT " * 101 + "a")
    with pytest.raises(IllegalExpression, match="nested more than 100 deep"):
        sql92.compile("a = b" + " = TRUE" * 100)


def test_a_filter_has_a_largest_number_of_words_and_texts() -> None:
    texts = ", ".join(f"'{number}'" for number in range(4_000))
    assert sql92.compile(f"a IN ({texts})").matches({"a": "3999"})
    limits = "at most 2000 words, names, numbers and signs, and 4000 texts"
    for too_much in (f"a IN ({texts}, 'x')", " OR ".join(["a = 1"] * 501), "a = " + "-" * 65_000 + "1"):
        with pytest.raises(IllegalExpression, match=limits):
            sql92.compile(too_much)


def calls_of(expression: str) -> int:
    """Count the calls that compiling takes."""
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        with contextlib.suppress(IllegalExpression):
            sql92.compile(expression)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize(
    "part", ["-", "- ", "(", "NOT ", "+", "a = 1 OR ", "a = b AND ", "/*", "--x\n", "'", "1.", "=1"]
)
def test_the_work_of_reading_grows_no_faster_than_the_length(part: str) -> None:
    sql92.compile("warm = 1")
    once, twice = (calls_of("a = " + part * (count // len(part)) + "1") for count in (1_000, 2_000))
    assert twice <= 2.5 * once + 1_000
    assert calls_of("a = " + part * (60_000 // len(part)) + "2") < 700 * sql92_grammar.WORDS_MAX


def test_many_minus_signs_are_read_in_no_time() -> None:
    # Calls do not show how long a pattern looks for its end: it took 26 s of the processor.
    before = time.process_time()
    with pytest.raises(IllegalExpression):
        sql92.compile("a = " + "-" * 65_000 + "2")
    assert time.process_time() - before < 5


def test_why_a_filter_is_wrong_is_found_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    parse = sql92_grammar.parse

    def counted(text: str) -> Term:
        read.append(text)
        return parse(text)

    monkeypatch.setattr(sql92_grammar, "parse", counted)
    wrong = "size > 'found out once'"
    assert not sql92.is_ready(wrong)
    for _ in range(3):
        with pytest.raises(IllegalExpression, match="at character 8: cannot be compared by >"):
            sql92.compile(wrong)
    assert read == [wrong]
    assert sql92.is_ready(wrong)


def test_what_is_unknown_or_fails_matches_nothing() -> None:
    large = sql92.compile("size > 5")
    assert large.matches({"size": "6"})
    assert not large.matches({"size": "5"})
    assert not large.matches({"size": "big"})
    assert not large.matches({})
    assert not sql92.compile("size > 5 OR color = 'red'").matches({"size": "big", "color": "red"})


def test_a_filter_is_compiled_once() -> None:
    assert sql92.compile("a = 1") is sql92.compile("a = 1")


# A tiny evaluator of trees, and the same trees as text. Comparisons are of integers only.

Tree = tuple[object, ...]


@st.composite
def comparisons(draw: st.DrawFn) -> Tree:
    name, number = draw(st.sampled_from("abc")), draw(st.integers(0, 3))
    kind = draw(st.sampled_from(["=", "<>", ">", ">=", "<", "<=", "null", "in", "between"]))
    return (kind, name, number)


trees = st.recursive(
    comparisons(),
    lambda inner: st.one_of(
        st.tuples(st.just("not"), inner),
        st.tuples(st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=4)),
    ),
    max_leaves=12,
)


def as_text(tree: Tree) -> str:
    match tree:
        case ("not", tuple(inner)):
            return f"NOT ({as_text(inner)})"
        case ("and" | "or" as word, list(parts)):
            return f" {word} ".join(f"({as_text(part)})" for part in parts)
        case ("null", name, _):
            return f"{name} IS NULL"
        case ("in", name, number):
            return f"{name} in ('{number}', 'other')"
        case ("between", name, number):
            return f"{name} BETWEEN 1 AND {max(1, int(str(number)))}"
        case (sign, name, number):
            return f"{name}{sign}{number}"
    raise AssertionError(tree)


def value_of(tree: Tree, properties: dict[str, int]) -> bool | None:
    match tree:
        case ("not", tuple(inner)):
            value = value_of(inner, properties)
            return None if value is None else not value
        case ("and" | "or" as word, list(parts)):
            values = {value_of(part, properties) for part in parts}
            decisive = word == "or"
            if decisive in values:
                return decisive
            return None if None in values else not decisive
        case (str(kind), str(name), int(wanted)):
            number = properties.get(name)
            if kind == "null":
                return number is None
            if number is None:
                return None
            return {
                "=": number == wanted,
                "in": number == wanted,
                "<>": number != wanted,
                ">": number > wanted,
                ">=": number >= wanted,
                "<": number < wanted,
                "<=": number <= wanted,
                "between": 1 <= number <= max(1, wanted),
            }[kind]
    raise AssertionError(tree)


@given(trees, st.dictionaries(st.sampled_from("abc"), st.integers(0, 3)))
def test_any_expression_means_what_its_tree_means(tree: Tree, properties: dict[str, int]) -> None:
    texts = {name: str(number) for name, number in properties.items()}
    assert sql92.compile(as_text(tree)).evaluate(texts) is value_of(tree, properties)


@given(st.text("abANDORT()<>=' 15.-+,;\n", max_size=20))
def test_any_text_is_compiled_or_refused(text: str) -> None:
    try:
        compiled = sql92.compile(text)
    except IllegalExpression:
        return
    assert compiled.matches({"a": "5"}) in (True, False)


def counting(*, count_max: int = 3, length_max: int = 100) -> tuple[OutcomeCache[str], list[str]]:
    made: list[str] = []

    def make(text: str) -> str:
        made.append(text)
        if "wrong" in text:
            raise IllegalExpression(f"no {text}")
        return text.upper()

    return OutcomeCache(make, count_max=count_max, length_max=length_max), made


def test_each_text_is_made_once_be_it_right_or_wrong() -> None:
    remembered, made = counting()
    for _ in range(2):
        assert remembered("right") == "RIGHT"
        with pytest.raises(IllegalExpression, match="no wrong"):
            remembered("wrong")
    assert made == ["right", "wrong"]


def test_an_error_is_raised_as_a_new_one_each_time() -> None:
    remembered, _ = counting()
    errors = []
    for _ in range(2):
        with pytest.raises(FormatError) as raised:
            remembered("wrong")
        errors.append(raised.value)
    assert errors[0] is not errors[1]


def test_what_was_not_asked_for_the_longest_time_is_forgotten_first() -> None:
    remembered, made = counting(count_max=2)
    for text in ("a", "b", "a", "c", "a", "b"):
        remembered(text)
    assert made == ["a", "b", "c", "b"]


def test_the_length_of_all_texts_has_a_limit_and_a_longer_one_is_not_remembered() -> None:
    remembered, _ = counting(count_max=100, length_max=10)
    for text in ("x" * 11, "a" * 6, "b" * 5):
        remembered(text)
    assert [text in remembered for text in ("x" * 11, "a" * 6, "b" * 5)] == [False, False, True]
    remembered("c" * 5)
    assert "b" * 5 in remembered
