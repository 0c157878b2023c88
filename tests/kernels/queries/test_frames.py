"""What is read of frames of queries, by both bodies; and what only the compiled one leaves."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.querying import BY_ID, BY_KEY, ROOM, Reader, by_id, by_key, frame

from cometmq.format.java.java_hash import index_key_hash, java_hash
from cometmq.kernels.ops import Ops
from cometmq.kernels.queries.rows import TEXTS_SIZE, UNIQUE_COUNT, QueryState
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import with_prefix


@pytest.fixture
def reader(ops: Ops) -> Reader:
    return Reader(ops)


@pytest.fixture
def compiled_reader(compiled: Ops) -> Reader:
    return Reader(compiled)


@pytest.mark.parametrize("binary", [False, True])
def test_a_query_by_key_becomes_numbers(reader: Reader, binary: bool) -> None:
    data = by_key(binary=binary)
    assert reader.read(b"x" + data, 1) == (1 + len(data), 1 + len(data))
    assert reader.row("frame", "opaque", "is_binary") == [0, 5, binary]
    assert reader.row("is_by_key", "key_hash") == [1, index_key_hash("T", "k1")]
    assert reader.row("max_count", "begin_time", "end_time") == [32, 5, 2**63 - 1]
    assert reader.row("state", "files", "count") == [QueryState.LOOKING, 0, 0]


@pytest.mark.parametrize("binary", [False, True])
def test_a_query_by_id_is_found_already(reader: Reader, binary: bool) -> None:
    assert reader.reads(by_id(1 << 40, binary=binary))
    assert reader.row("is_binary", "is_by_key", "state", "count") == [binary, 0, QueryState.FOUND, 1]
    assert reader.queries.offsets[0, 0] == 1 << 40


@given(
    topic=st.text(st.characters(codec="ascii", exclude_categories=["Cc"], exclude_characters='"\\')),
    key=st.text(st.characters(codec="ascii", exclude_categories=["Cc"], exclude_characters='"\\')),
)
def test_keys_are_hashed_as_the_index_does(ops: Ops, topic: str, key: str) -> None:
    reader = Reader(ops)
    assert reader.reads(by_key({"topic": topic, "key": key}))
    assert reader.row("key_hash") == [index_key_hash(topic, key)]


def test_topic_and_key_are_kept_to_be_compared_if_there_is_room(reader: Reader) -> None:
    assert reader.reads(by_key({"topic": "Orders", "key": "k1", "_UNIQUE_KEY_QUERY": "true"}))
    assert reader.row("topic_size", "key_size", "is_unique") == [6, 2, 1]
    assert reader.queries.texts[:8].tobytes() == b"Ordersk1"
    assert reader.reads(by_key({"key": "k" * (TEXTS_SIZE - 1)}))
    assert not reader.reads(by_key({"key": "k" * TEXTS_SIZE}))


def test_a_hash_that_has_no_absolute_value_is_0(reader: Reader) -> None:
    assert java_hash("T#jllgvmc") == -(2**31)
    assert reader.reads(by_key({"key": "jllgvmc"}))
    assert reader.row("key_hash") == [index_key_hash("T", "jllgvmc")] == [0]


@pytest.mark.parametrize(("text", "is_unique"), [("true", True), ("false", False)])
def test_a_unique_key_has_a_count_of_its_own(reader: Reader, text: str, is_unique: bool) -> None:
    assert reader.reads(by_key({"_UNIQUE_KEY_QUERY": text, "maxNum": "7"}))
    assert reader.row("max_count", "is_unique") == [UNIQUE_COUNT if is_unique else 7, is_unique]


@pytest.mark.parametrize("text", ["True", "1", ""])
def test_other_words_for_true_are_left(compiled_reader: Reader, text: str) -> None:
    assert not compiled_reader.reads(by_key({"_UNIQUE_KEY_QUERY": text}))


@pytest.mark.parametrize("name", ["topic", "key", "maxNum", "beginTimestamp", "endTimestamp"])
@pytest.mark.parametrize("binary", [False, True])
def test_what_must_be_there_must_be_there(reader: Reader, name: str, binary: bool) -> None:
    kept = {field: value for field, value in BY_KEY.items() if field != name}
    assert not reader.reads(frame(RequestCode.QUERY_MESSAGE, kept, binary=binary))


def test_without_a_word_on_it_a_key_is_not_unique(reader: Reader) -> None:
    kept = {field: value for field, value in BY_KEY.items() if field != "_UNIQUE_KEY_QUERY"}
    assert reader.reads(frame(RequestCode.QUERY_MESSAGE, kept))
    assert reader.row("max_count") == [32]


@pytest.mark.parametrize("field", ["maxNum", "beginTimestamp", "endTimestamp"])
@pytest.mark.parametrize("text", ["", "x", "9223372036854775808", "-"])
def test_numbers_must_be_numbers(reader: Reader, field: str, text: str) -> None:
    assert not reader.reads(by_key({field: text}))


@pytest.mark.parametrize("field", ["maxNum", "beginTimestamp", "endTimestamp"])
@pytest.mark.parametrize("text", ["01", "9223372036854775806"])
def test_numbers_in_an_unusual_spelling_are_left(compiled_reader: Reader, field: str, text: str) -> None:
    assert not compiled_reader.reads(by_key({field: text}))


@pytest.mark.parametrize("offset", ["", "x", "9" * 20, "1.5"])
def test_an_offset_must_be_a_number(reader: Reader, offset: str) -> None:
    assert not reader.reads(by_id(offset))
    assert not reader.reads(frame(RequestCode.VIEW_MESSAGE_BY_ID, {}))


@pytest.mark.parametrize("offset", ["9" * 19, "1.0"])
def test_an_offset_in_an_unusual_spelling_is_left(compiled_reader: Reader, offset: str) -> None:
    assert not compiled_reader.reads(by_id(offset))


def test_members_come_in_any_order_and_with_blanks(reader: Reader) -> None:
    for code, fields in ((RequestCode.QUERY_MESSAGE, BY_KEY), (RequestCode.VIEW_MESSAGE_BY_ID, BY_ID)):
        members = {"opaque": 7, "extFields": fields, "flag": 0, "code": int(code)}
        for separators in ((", ", " : "), (",", ":"), None):
            for header in (members, dict(reversed(members.items()))):
                data = json.dumps(header, separators=separators).encode()
                assert reader.reads(with_prefix(data, b""))
                assert reader.row("opaque", "is_by_key") == [7, code == RequestCode.QUERY_MESSAGE]
            assert not reader.reads(with_prefix(json.dumps(members | {"code": 120}).encode(), b""))


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
