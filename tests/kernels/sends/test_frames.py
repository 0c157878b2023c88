import json
from typing import Any

import pytest
from tests.kernels.sending import USUAL, Reader, binary_frame, framed, header, json_frame

from cometmq.kernels.ops import Ops
from cometmq.kernels.sends.rows import SENDS_MAX


@pytest.fixture
def compiled_reader(compiled: Ops) -> Reader:
    return Reader(compiled)


@pytest.fixture
def reader(ops: Ops) -> Reader:
    return Reader(ops)


@pytest.mark.parametrize("one", [json_frame, binary_frame])
def test_a_send_is_read_with_all_its_numbers(compiled: Ops, one: type) -> None:
    reader = Reader(compiled)
    data = one({"g": "-5", "h": "-7", "f": "1", "j": "2", "e": "3"}, flag=2)
    assert reader.takes(data)
    send = reader.send()
    expected = {"born_time": -5, "flag": -7, "sys_flag": 1, "reconsume_times": 2, "queue_id": 3, "queue": 3}
    expected |= {
        "opaque": 17,
        "is_oneway": 2,
        "body_length": 4,
        "body_at": len(data) - 4,
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


def test_members_come_in_any_order_and_with_blanks(compiled_reader: Reader) -> None:
    members = dict(sorted(header().items(), reverse=True))
    assert compiled_reader.takes(framed(json.dumps(members).encode()))


@pytest.mark.parametrize("name", list("abcdefghi"))
def test_a_field_that_is_missing_leaves_the_frame(compiled_reader: Reader, name: str) -> None:
    members = header()
    members["extFields"] = {field: value for field, value in USUAL.items() if field != name}
    assert not compiled_reader.takes(framed(json.dumps(members).encode()))


@pytest.mark.parametrize("name", list("jkmn"))
def test_other_fields_may_be_missing(compiled_reader: Reader, name: str) -> None:
    members = header()
    members["extFields"] = {field: value for field, value in USUAL.items() if field != name}
    assert compiled_reader.takes(framed(json.dumps(members).encode()))


@pytest.mark.parametrize("fields", [{"zz": "unknown"}, {"l": "16"}])
def test_fields_that_mean_nothing_here_are_passed_over(
    compiled_reader: Reader, fields: dict[str, str]
) -> None:
    assert compiled_reader.takes(json_frame(fields))
    assert compiled_reader.takes(binary_frame(fields))


@pytest.mark.parametrize("fields", [{"e": 1}, {"n": None}, {"k": False}, {"a": "ü"}, {"zz": 'q"'}])
def test_values_that_are_no_plain_texts_leave_the_frame(
    compiled_reader: Reader, fields: dict[str, Any]
) -> None:
    assert not compiled_reader.takes(json_frame(fields))


@pytest.mark.parametrize(
    "changes", [{"opaque": "17"}, {"version": 2**31}, {"flag": None}, {"extFields": "x"}, {"code": 310.0}]
)
def test_numbers_must_be_numbers(compiled_reader: Reader, changes: dict[str, Any]) -> None:
    assert not compiled_reader.takes(json_frame(**changes))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"e":"1"', b'"e":"1","e":"1"'),
        (b'"flag":0', b'"flag":0,"flag":0'),
        (b'"flag":0', b'"flag":0,"extFields":{"zz":"1"}'),
        (b'"a":', b'"\\u0061":'),
        (b'"flag":0', b'"flag":00'),
        (b'"flag":0', b'"flag":0.0'),
        (b'"flag":0,', b'"flag":0,,'),
        (b'"version":479}', b'"version":479'),
        (b'"version":479}', b'"version":479} '),
        (b'"version":479}', b'"version":479,}'),
        (b'{"code"', b'["code"'),
    ],
)
def test_anything_else_in_the_json_leaves_the_frame(compiled_reader: Reader, old: bytes, new: bytes) -> None:
    data = json.dumps(header(), separators=(",", ":")).encode()
    assert old in data
    assert not compiled_reader.takes(framed(data.replace(old, new, 1)))


@pytest.mark.parametrize("at", range(8, 60))
def test_a_binary_header_with_a_length_that_leads_astray_is_left(compiled_reader: Reader, at: int) -> None:
    data = bytearray(binary_frame())
    data[at] ^= 0x80
    end, _ = compiled_reader.read(bytes(data))
    assert end in (0, len(data))
    compiled_reader.read(bytes(data[:-1]))
