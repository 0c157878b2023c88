from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.format.java.java_hash import index_key_hash, java_hash, tags_code, topic_hash

any_text = st.text(st.characters(codec=None), max_size=40)


def java_hash_by_definition(text: str) -> int:
    utf16 = text.encode("utf-16-be", "surrogatepass")
    units = (int.from_bytes(utf16[at : at + 2], "big") for at in range(0, len(utf16), 2))
    *_, value = accumulate(units, lambda value, unit: (31 * value + unit) % 2**32, initial=0)
    return value - 2**32 if value >= 2**31 else value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("TagA", 2598919),
        ("TagB", 2598920),
        ("TopicA#k1", -1903240649),
        ("polygenelubricants", -(2**31)),
        ("标签0", 26572473),
        ("😀", 1772899),
    ],
)
def test_gives_what_java_gives(text: str, value: int) -> None:
    assert java_hash(text) == value


@given(any_text)
def test_agrees_with_the_definition(text: str) -> None:
    assert java_hash(text) == java_hash_by_definition(text)


@pytest.mark.parametrize("length", [511, 512, 513, 2000])
@pytest.mark.parametrize("letter", ["z", "я", "😀"])
def test_agrees_with_the_definition_on_long_texts(letter: str, length: int) -> None:
    assert java_hash(letter * length) == java_hash_by_definition(letter * length)


@given(any_text, any_text)
def test_index_hash_is_that_of_topic_and_key_joined(topic: str, key: str) -> None:
    assert index_key_hash(topic, key) == abs(java_hash(f"{topic}#{key}")) % 2**31


def test_index_hash_of_keys_that_a_broker_indexed() -> None:
    assert index_key_hash("TopicA", "k1") == 1903240649
    assert index_key_hash("TopicA", "k2") == 1903240648


def test_index_hash_is_zero_where_java_has_no_absolute_value() -> None:
    key = key_that_makes_least_number("T#")
    assert java_hash(f"T#{key}") == -(2**31)
    assert index_key_hash("T", key) == 0


def key_that_makes_least_number(prefix: str) -> str:
    """Solve for the UTF-16 units: two free ones are enough to reach any hash."""
    goal = (2**31 - java_hash_by_definition(prefix) * 31**7) % 2**32
    digits = []
    for _ in range(6):
        goal, digit = divmod(goal, 31)
        digits.append(digit)
    return "".join(map(chr, [goal, *reversed(digits)]))


def test_no_tags_have_code_zero() -> None:
    assert tags_code(None) == tags_code("") == 0
    assert tags_code("TagA") == 2598919


@given(any_text)
def test_a_topic_s_hash_is_that_of_its_name(topic: str) -> None:
    assert topic_hash(topic) == java_hash(topic)
