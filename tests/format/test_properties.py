import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import MessageIllegal
from cometmq.format import properties

names = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1)
values = st.text(st.characters(codec="utf-8", exclude_characters="\x02"), min_size=1)


@given(st.dictionaries(names, values))
def test_what_is_encoded_is_decoded(by_name: dict[str, str]) -> None:
    assert properties.decode(properties.encode(by_name)) == by_name


@given(st.text(st.sampled_from("ab\x01\x02"), max_size=30))
def test_reads_like_rocketmqs_parser(text: str) -> None:
    assert properties.decode(text.encode()) == read_like_rocketmq(text)


def read_like_rocketmq(text: str) -> dict[str, str]:
    """Read by indexes, step by step, as MessageDecoder.string2messageProperties is specified."""
    by_name = {}
    start = 0
    while start < len(text):
        end = text.find("\x02", start)
        end = len(text) if end < 0 else end
        middle = text.find("\x01", start)
        if end - start >= 3 and start < middle < end - 1:
            by_name[text[start:middle]] = text[middle + 1 : end]
        start = end + 1
    return by_name


@given(st.binary())
def test_decoding_never_fails(data: bytes) -> None:
    properties.decode(memoryview(data))


@pytest.mark.parametrize(
    ("data", "by_name"),
    [
        (b"", {}),
        (b"a\x01b\x02", {"a": "b"}),
        (b"a\x01b", {"a": "b"}),
        (b"a\x01b\x01c\x02", {"a": "b\x01c"}),
        (b"a\x01\x01\x02", {"a": "\x01"}),
        (b"a\x01\x02b\x01c\x02", {"b": "c"}),
        (b"\x01b\x02", {}),
        (b"ab\x02\x02\x02c\x01d\x02", {"c": "d"}),
        (b"a\x01first\x02a\x01last\x02", {"a": "last"}),
        (b"a\x01first\x02a\x01\x02", {"a": "first"}),
        ("k\x01ключ 西\x02".encode(), {"k": "ключ 西"}),
        (b"k\x01\xff\xc3\x02", {"k": "\ufffd\ufffd"}),
    ],
)
def test_reads_leniently(data: bytes, by_name: dict[str, str]) -> None:
    assert properties.decode(data) == by_name


@pytest.mark.parametrize("by_name", [{"a\x01": "b"}, {"a\x02": "b"}, {"a": "b\x02"}])
def test_refuses_separators_that_would_be_read_otherwise(by_name: dict[str, str]) -> None:
    with pytest.raises(MessageIllegal, match="separator"):
        properties.encode(by_name)


def test_length_limit_is_in_bytes() -> None:
    assert len(properties.encode({"k": "я" * 16382})) == properties.MAX_LENGTH
    with pytest.raises(MessageIllegal, match="take 32768 bytes, the limit is 32767"):
        properties.encode({"k": "я" * 16382 + "x"})


def test_half_a_surrogate_pair_is_written_as_java_does() -> None:
    assert properties.encode({"k": "a\ud800b"}) == b"k\x01a?b\x02"


def test_keys_are_split_on_single_blanks() -> None:
    assert properties.split_keys("k1  k2 k\t3 ") == ["k1", "k2", "k\t3"]
    assert properties.split_keys("") == []


def test_reserved_names_are_those_of_the_java_client() -> None:
    assert len(properties.RESERVED) == 50
    assert {properties.TAGS, properties.KEYS, properties.UNIQ_KEY} <= properties.RESERVED
    assert properties.CHECK_IMMUNITY_TIME not in properties.RESERVED


@given(
    st.lists(st.sampled_from(["a", "b", "ab", "\x01", "\x02", "é", "\udcff"]), max_size=12),
    st.sampled_from(["a", "b", "ab"]),
)
def test_the_value_of_one_is_that_of_all(pieces: list[str], name: str) -> None:
    data = "".join(pieces).encode("utf-8", "surrogateescape")
    assert properties.value_of(data, name) == properties.decode(data).get(name)
