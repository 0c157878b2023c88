import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import FormatError
from cometmq.format.pop.check_point import (
    CheckPoint,
    PopAck,
    PopKey,
    decode_ack,
    decode_check_point,
    encode_ack,
    unique_key_formats,
)

NAME = st.text(min_size=1, max_size=20)
INT = st.integers(0, 2**31 - 1)
LONG = st.integers(0, 2**62)
CHECK_POINT = (
    b'{"bm":0,"bn":"broker-a","c":"gnormal","d":[0],"it":15000,"n":1,"pt":1795602262251,"q":3,'
    b'"reviveTime":1795602277251,"ro":0,"so":0,"sp":false,"t":"TNORMAL"}'
)
ACK = b'{"ao":0,"bn":"broker-a","c":"gnormal","pt":1795602262251,"q":3,"so":0,"t":"TNORMAL"}'


def test_a_check_point_is_that_of_a_java_broker_byte_for_byte() -> None:
    point = CheckPoint("TNORMAL", "gnormal", 3, 0, 1795602262251, 15000, (0,), "broker-a")
    assert point.encode() == CHECK_POINT
    assert decode_check_point(CHECK_POINT) == point
    assert point.revive_time_ms == 1795602277251
    before, behind = unique_key_formats("TNORMAL", "gnormal", "broker-a", "ck")
    assert (before % 3, behind % 1795602262251) == ("TNORMAL@3@", "@gnormal@1795602262251@broker-a@ck")


def test_an_acknowledgement_is_that_of_a_java_broker_byte_for_byte() -> None:
    ack = PopAck("TNORMAL", "gnormal", 3, 0, 1795602262251, "broker-a", (0,))
    assert encode_ack(ack.offsets, ack.key.ack_members()) == ("ack", 0, ACK)
    assert decode_ack(ACK) == ack
    assert ack.key == decode_check_point(CHECK_POINT).key
    before, behind = unique_key_formats("TNORMAL", "gnormal", "broker-a", "ack")
    assert (before % 3, behind % 1795602262251) == ("TNORMAL@3@", "@gnormal@1795602262251@broker-a@ack")


def test_a_name_in_a_unique_key_is_no_format() -> None:
    before, behind = unique_key_formats("%d", "%s", "100%", "ack")
    assert (before % 3, behind % 7) == ("%d@3@", "@%s@7@100%@ack")


def test_an_acknowledgement_of_several_messages_lists_them() -> None:
    body = b'{"ao":-1,"aol":[5,7],"bn":"b","c":"g","pt":1,"q":0,"so":5,"t":"T"}'
    assert encode_ack((5, 7), PopKey("T", "g", 0, 5, 1, "b").ack_members()) == ("bAck", -1, body)
    assert decode_ack(body).offsets == (5, 7)


@given(
    st.builds(
        CheckPoint,
        *(NAME, NAME, INT, LONG, LONG, LONG),
        st.lists(st.integers(0, 2**31 - 1), max_size=32).map(tuple),
        NAME,
        st.integers(0, 100),
        st.booleans(),
    )
)
def test_each_check_point_is_decoded_as_it_was(point: CheckPoint) -> None:
    assert decode_check_point(point.encode()) == point
    assert msgspec.json.decode(point.encode())["n"] == len(point.distances)


@given(st.builds(PopAck, NAME, NAME, INT, LONG, LONG, NAME, st.lists(LONG, max_size=40).map(tuple)))
def test_each_acknowledgement_is_decoded_as_it_was(ack: PopAck) -> None:
    _, _, body = encode_ack(ack.offsets, ack.key.ack_members())
    assert decode_ack(body) == ack


def test_a_check_point_of_an_old_broker_has_consecutive_messages_of_this_broker() -> None:
    body = b'{"bm":0,"c":"g","it":5,"n":3,"pt":1,"q":0,"ro":0,"so":10,"t":"T","new":{}}'
    point = decode_check_point(body, "own")
    assert point.offsets == (10, 11, 12)
    assert (point.broker_name, point.re_put_times, point.is_suspended) == ("own", 0, False)


@given(st.lists(st.integers(0, 40), max_size=40).map(tuple) | st.integers(0, 40).map(range).map(tuple))
def test_the_offsets_are_at_their_distances(distances: tuple[int, ...]) -> None:
    point = CheckPoint("T", "g", 0, 7, 1, 5, distances, "b")
    assert point.offsets == tuple(7 + distance for distance in distances)


def test_long_names_are_read_too() -> None:
    body = b'{"ackOffset":1,"startOffset":0,"consumerGroup":"g","topic":"T","queueId":2,"popTime":3}'
    assert decode_ack(body, "own") == PopAck("T", "g", 2, 0, 3, "own", (1,))


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"[]", b"{}", b"\xff", b'{"a":' * 100_000),
        CHECK_POINT.replace(b'"so":0', b'"so":"x"'),
        CHECK_POINT.replace(b'"so":0', b'"so":9223372036854775808'),
        CHECK_POINT.replace(b'"d":[0]', b'"d":[2147483648]'),
        CHECK_POINT.replace(b'"pt":1', b'"pt":-1'),
    ],
)
def test_other_bodies_are_refused(body: bytes) -> None:
    with pytest.raises(FormatError, match="is no check point or acknowledgement"):
        decode_check_point(body)


def test_a_check_point_of_too_many_messages_is_refused() -> None:
    with pytest.raises(FormatError, match="a check point of more than 32 messages"):
        decode_check_point(CHECK_POINT.replace(b'"d":[0],', b"").replace(b'"n":1', b'"n":2000000000'))


def test_a_number_of_times_that_cannot_be_is_read_as_none() -> None:
    for text in ("9" * 5_000, "-1", "x", ""):
        body = f'{{"t":"T","c":"g","q":0,"so":0,"pt":1,"it":1,"n":1,"rp":"{text}"}}'
        assert decode_check_point(body.encode()).re_put_times == 0
