import pytest
from tests.kernels.sending import Reader, binary_frame, framed, json_frame

from cometmq.kernels.ops import Ops
from cometmq.kernels.sends.rows import SENDS_MAX, SendOps


@pytest.fixture
def reader(send_ops: SendOps) -> Reader:
    return Reader(send_ops)


@pytest.mark.parametrize("one", [json_frame, binary_frame])
def test_a_send_is_read_with_all_its_numbers(compiled: Ops, one: type) -> None:
    reader = Reader(compiled.sends)
    data = one({"g": "-5", "h": "-7", "f": "1", "j": "2", "e": "3"}, flag=2)
    assert reader.takes(data)
    send = reader.send()
    expected = {"born_time": -5, "flag": -7, "sys_flag": 1, "reconsume_times": 2, "queue_id": 3, "queue": 3}
    expected |= {
        "opaque": 17,
        "is_oneway": 2,
        "body_length": 4,
        "body_at": len(data) - 4,
        "frame_end": len(data),
    }
    expected |= {"is_binary": one is binary_frame, "topic_length": 1, "is_batch": 0, "message_count": 1}
    assert {name: send[name] for name in expected} == expected
    assert data[send["topic_at"] : send["topic_at"] + 1] == b"T"
    assert send["key_length"] == 3


def test_sends_are_read_up_to_the_first_other_frame_and_the_others_up_to_the_next_send(
    reader: Reader,
) -> None:
    send, other = json_frame(), json_frame(code=34)
    data = send * 3 + other * 2 + send
    assert reader.read(data) == (3 * len(send), 3 * len(send) + 2 * len(other))
    assert reader.batch.message_count == 3
    assert reader.read(data, 3 * len(send) + 2 * len(other)) == (len(data), len(data))


@pytest.mark.parametrize("rest", [b"\0", json_frame()[:-1], b"\0\0\0\3" + bytes(8), framed(b"{}", b"", 2)])
def test_a_cut_or_impossible_frame_is_left_with_all_behind_it(reader: Reader, rest: bytes) -> None:
    data = json_frame() + rest
    assert reader.read(data) == (len(json_frame()), len(data))


def test_no_more_are_read_than_a_batch_holds(reader: Reader) -> None:
    data = binary_frame() * (SENDS_MAX + 1)
    end, others_end = reader.read(data)
    assert end == others_end == len(data) - len(binary_frame())


@pytest.mark.parametrize(
    "fields",
    [
        {"b": "U"},
        {"b": "%RETRY%g"},
        {"e": "4"},
        {"e": "-1"},
        {"e": "x"},
        {"f": "4"},
        {"f": "8"},
        {"m": "true"},
        {"k": "maybe"},
        {"h": "2147483648"},
    ],
)
def test_what_needs_a_closer_look_is_left(reader: Reader, fields: dict[str, str]) -> None:
    assert not reader.takes(json_frame(fields))
    assert not reader.takes(binary_frame(fields))


def test_a_body_is_neither_empty_nor_too_long(reader: Reader) -> None:
    assert not reader.takes(json_frame(body=b""))
    assert reader.takes(json_frame(body=bytes(1000)))
    assert not reader.takes(json_frame(body=bytes(1001)))


def test_a_queue_that_is_gone_is_left(reader: Reader) -> None:
    reader.next_offsets[1] = -1
    assert not reader.takes(json_frame())


def test_a_response_is_left(reader: Reader) -> None:
    assert not reader.takes(json_frame(flag=1))
    assert not reader.takes(binary_frame(flag=1))
