from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import IllegalName, MessageIllegal
from cometmq.filter.tag import parse
from cometmq.format import properties
from cometmq.format.sent import check, properties_of
from cometmq.message import Message


@pytest.mark.parametrize("tags", [" a ", "a ", "\ta", "a||b", "||", "*", " ", "\u3000a", "a\x1f", "a\u00a0"])
def test_tags_that_no_filter_can_name_are_refused_with_the_remedy(tags: str) -> None:
    with pytest.raises(MessageIllegal, match="no filter can name them; give one tag"):
        check(Message("Orders", b"x", tags=tags), body_size_max=4)


@given(st.text(min_size=1))
def test_tags_that_are_taken_are_those_that_an_expression_names(tags: str) -> None:
    try:
        check(Message("Orders", b"x", tags=tags), body_size_max=4)
    except MessageIllegal:
        assert "||" in tags or tags == "*" or not tags.strip() or parse(tags) != frozenset([tags])
    else:
        assert parse(tags) == frozenset([tags])
        assert parse(f"other || {tags}") == frozenset(["other", tags])


@pytest.mark.parametrize("tags", ["a", "a b", "\x1b[2J", "a|b", "*a", "тег", "a,b", "**"])
def test_other_tags_are_taken(tags: str) -> None:
    check(Message("Orders", b"x", tags=tags), body_size_max=4)


def test_tags_and_keys_become_properties_beside_those_of_the_sender() -> None:
    message = Message("Orders", b"x", tags="paid", keys=("a", "b"), properties={"color": "red"})
    data = properties_of(message, "UNIQ_KEY\x01id\x02")
    assert data == b"color\x01red\x02KEYS\x01a b\x02TAGS\x01paid\x02UNIQ_KEY\x01id\x02"
    assert properties_of(Message("Orders", b"x"), "") == b""


def test_a_delay_level_and_a_sharding_key_become_properties() -> None:
    message = Message("Orders", b"x", delay_level=3, sharding_key="ann")
    assert properties_of(message, "") == b"DELAY\x013\x02__SHARDINGKEY\x01ann\x02"


@pytest.mark.parametrize(
    ("message", "data"),
    [
        (Message("Orders", b"x", delay_ms=1_500), b"TIMER_DELAY_MS\x011500\x02"),
        (Message("Orders", b"x", deliver_time=1_795_000_000_000), b"TIMER_DELIVER_MS\x011795000000000\x02"),
    ],
)
def test_a_time_becomes_a_property(message: Message, data: bytes) -> None:
    check(message, body_size_max=4)
    assert message.is_delayed and not Message("Orders", b"x").is_delayed
    assert properties_of(message, "") == data


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (Message("Orders", b"x", delay_ms=-1), "delay_ms -1, deliver_time 0: give 0 for none"),
        (Message("Orders", b"x", deliver_time=-1), "deliver_time -1: give 0 for none"),
        (Message("Orders", b"x", delay_ms=1, deliver_time=2), "delay_ms 1, deliver_time 2: give one of them"),
        (
            Message("Orders", b"x", delay_level=1, delay_ms=1),
            "delay level 1, delay_ms 1, .*: give one of them",
        ),
        (Message("Orders", b"x", delay_level=-1), "delay level -1: give 0 for none"),
        (Message("Orders", b"x", sharding_key=""), "sharding key is empty: give None"),
    ],
)
def test_a_delay_and_a_sharding_key_must_be_ones(message: Message, said: str) -> None:
    with pytest.raises(MessageIllegal, match=said):
        check(message, body_size_max=4)


def test_a_body_is_taken_up_to_the_limit() -> None:
    check(Message("Orders", b"1234"), body_size_max=4)
    with pytest.raises(MessageIllegal, match="body of 5 bytes: at most 4 are allowed"):
        check(Message("Orders", b"12345"), body_size_max=4)


def test_keys_that_are_one_text_are_taken_for_a_slip() -> None:
    fields: dict[str, Any] = {"keys": "42"}
    with pytest.raises(MessageIllegal, match=r"keys '42': give them as a tuple, \('42',\)"):
        check(Message("Orders", b"x", **fields), body_size_max=4)


@pytest.mark.parametrize("name", sorted(properties.RESERVED)[:3])
def test_names_that_rocketmq_gave_a_meaning_are_refused(name: str) -> None:
    with pytest.raises(MessageIllegal, match="choose another name"):
        check(Message("Orders", b"x", properties={name: "1"}), body_size_max=4)


def test_a_topic_must_be_one() -> None:
    with pytest.raises(IllegalName):
        check(Message("a/b", b"x"), body_size_max=4)
