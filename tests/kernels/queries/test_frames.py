"""The kernel that reads queries: what it takes, and what numbers it makes of that."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.querying import BY_ID, BY_KEY, ROOM, UNIQUE_COUNT, Reader, by_id, by_key, frame, ops_of

from cometmq import kernels
from cometmq.format.java.java_hash import index_key_hash, java_hash
from cometmq.kernels.ops import Ops
from cometmq.kernels.queries.frames import BY_ID_CODE, BY_KEY_CODE
from cometmq.kernels.queries.rows import (
    BEGIN_TIME,
    COUNT,
    END_TIME,
    FILES,
    FOUND,
    FRAME_AT,
    FRAME_END,
    IS_BINARY,
    IS_BY_KEY,
    IS_UNIQUE,
    KEY_HASH,
    KEY_SIZE,
    LOOKING,
    MAX_COUNT,
    NUMBER,
    STATE,
    TEXTS_SIZE,
    TOPIC_SIZE,
)
from cometmq.wire.codes import RequestCode


@pytest.fixture
def reader(compiled: Ops) -> Reader:
    return Reader(ops_of(compiled))


def test_the_codes_are_rocketmqs() -> None:
    assert (BY_KEY_CODE, BY_ID_CODE) == (RequestCode.QUERY_MESSAGE, RequestCode.VIEW_MESSAGE_BY_ID)


@pytest.mark.parametrize("binary", [False, True])
def test_a_query_by_key_becomes_numbers(reader: Reader, binary: bool) -> None:
    data = by_key(binary=binary)
    assert reader.read(b"x" + data, 1) == (1 + len(data), 1 + len(data))
    assert reader.row(FRAME_AT, FRAME_END, NUMBER, IS_BINARY) == [1, 1 + len(data), 5, binary]
    assert reader.row(IS_BY_KEY, KEY_HASH) == [1, index_key_hash("T", "k1")]
    assert reader.row(MAX_COUNT, BEGIN_TIME, END_TIME) == [32, 5, 2**63 - 1]
    assert reader.row(STATE, FILES, COUNT) == [LOOKING, 0, 0]


@pytest.mark.parametrize("binary", [False, True])
def test_a_query_by_id_is_found_already(reader: Reader, binary: bool) -> None:
    assert reader.reads(by_id(1 << 40, binary=binary))
    assert reader.row(IS_BINARY, IS_BY_KEY, STATE, COUNT) == [binary, 0, FOUND, 1]
    assert reader.offsets[0, 0] == 1 << 40


@given(
    topic=st.text(st.characters(codec="ascii", exclude_categories=["Cc"], exclude_characters='"\\')),
    key=st.text(st.characters(codec="ascii", exclude_categories=["Cc"], exclude_characters='"\\')),
)
def test_keys_are_hashed_as_the_index_does(topic: str, key: str) -> None:
    reader = Reader(ops_of(kernels.load()))
    assert reader.reads(by_key({"topic": topic, "key": key}))
    assert reader.row(KEY_HASH) == [index_key_hash(topic, key)]


def test_topic_and_key_are_kept_to_be_compared_if_there_is_room(reader: Reader) -> None:
    assert reader.reads(by_key({"topic": "Orders", "key": "k1", "_UNIQUE_KEY_QUERY": "true"}))
    assert reader.row(TOPIC_SIZE, KEY_SIZE, IS_UNIQUE) == [6, 2, 1]
    assert reader.texts[:8].tobytes() == b"Ordersk1"
    assert reader.reads(by_key({"key": "k" * (TEXTS_SIZE - 1)}))
    assert not reader.reads(by_key({"key": "k" * TEXTS_SIZE}))


def test_a_hash_that_has_no_absolute_value_is_0(reader: Reader) -> None:
    assert java_hash("T#jllgvmc") == -(2**31)
    assert reader.reads(by_key({"key": "jllgvmc"}))
    assert reader.row(KEY_HASH) == [index_key_hash("T", "jllgvmc")] == [0]


@pytest.mark.parametrize(
    ("text", "count"), [("true", UNIQUE_COUNT), ("false", 32), ("True", None), ("1", None), ("", None)]
)
def test_a_unique_key_has_a_count_of_its_own(reader: Reader, text: str, count: int | None) -> None:
    assert reader.reads(by_key({"_UNIQUE_KEY_QUERY": text})) == (count is not None)
    if count is not None:
        assert reader.row(MAX_COUNT) == [count]


@pytest.mark.parametrize("name", ["topic", "key", "maxNum", "beginTimestamp", "endTimestamp"])
@pytest.mark.parametrize("binary", [False, True])
def test_what_must_be_there_must_be_there(reader: Reader, name: str, binary: bool) -> None:
    kept = {field: value for field, value in BY_KEY.items() if field != name}
    assert not reader.reads(frame(RequestCode.QUERY_MESSAGE, kept, binary=binary))


def test_without_a_word_on_it_a_key_is_not_unique(reader: Reader) -> None:
    kept = {field: value for field, value in BY_KEY.items() if field != "_UNIQUE_KEY_QUERY"}
    assert reader.reads(frame(RequestCode.QUERY_MESSAGE, kept))
    assert reader.row(MAX_COUNT) == [32]


@pytest.mark.parametrize("field", ["maxNum", "beginTimestamp", "endTimestamp"])
@pytest.mark.parametrize("text", ["", "x", "01", "9223372036854775808", "9223372036854775806", "-"])
def test_numbers_must_be_numbers(reader: Reader, field: str, text: str) -> None:
    assert not reader.reads(by_key({field: text}))


@pytest.mark.parametrize("offset", ["", "x", "9" * 19, "1.0"])
def test_an_offset_must_be_a_number(reader: Reader, offset: str) -> None:
    assert not reader.reads(by_id(offset))
    assert not reader.reads(frame(RequestCode.VIEW_MESSAGE_BY_ID, {}))


@pytest.mark.parametrize("key", ["ü", 'q"', "back\\", "\x01"])
def test_keys_that_are_no_plain_texts_are_left(reader: Reader, key: str) -> None:
    assert not reader.reads(by_key({"key": key}))


def test_other_frames_are_left(reader: Reader) -> None:
    usual = by_key()
    for other in (
        frame(RequestCode.GET_MAX_OFFSET, BY_KEY),
        frame(RequestCode.GET_MAX_OFFSET, BY_ID),
        frame(RequestCode.QUERY_MESSAGE, BY_KEY, flag=1),
        frame(RequestCode.VIEW_MESSAGE_BY_ID, BY_ID, flag=2),
        frame(RequestCode.VIEW_MESSAGE_BY_ID, BY_ID, body=b"x"),
    ):
        assert reader.read(other) == (0, len(other))
        assert reader.read(usual + other + other + usual) == (len(usual), len(usual + other + other))
        assert reader.read(usual + other + usual[:-1]) == (len(usual), len(usual + other + usual) - 1)
    assert reader.read(usual + usual, end=len(usual)) == (len(usual), len(usual))


def test_no_more_are_read_than_there_is_room_for(reader: Reader) -> None:
    usual = by_id()
    assert reader.read(usual * 20) == (ROOM * len(usual), ROOM * len(usual))
