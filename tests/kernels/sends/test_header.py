import json
from typing import Any

import pytest
from tests.kernels.sending import USUAL, Reader, binary_frame, framed, header, json_frame

from cometmq.kernels.ops import Ops


@pytest.fixture
def reader(compiled: Ops) -> Reader:
    return Reader(compiled.sends)


def test_members_come_in_any_order_and_with_blanks(reader: Reader) -> None:
    members = dict(sorted(header().items(), reverse=True))
    assert reader.takes(framed(json.dumps(members).encode()))


@pytest.mark.parametrize("name", list("abcdefghi"))
def test_a_field_that_is_missing_leaves_the_frame(reader: Reader, name: str) -> None:
    members = header()
    members["extFields"] = {field: value for field, value in USUAL.items() if field != name}
    assert not reader.takes(framed(json.dumps(members).encode()))


@pytest.mark.parametrize("name", list("jkmn"))
def test_other_fields_may_be_missing(reader: Reader, name: str) -> None:
    members = header()
    members["extFields"] = {field: value for field, value in USUAL.items() if field != name}
    assert reader.takes(framed(json.dumps(members).encode()))


@pytest.mark.parametrize("fields", [{"zz": "unknown"}, {"l": "16"}])
def test_fields_that_mean_nothing_here_are_passed_over(reader: Reader, fields: dict[str, str]) -> None:
    assert reader.takes(json_frame(fields))
    assert reader.takes(binary_frame(fields))


@pytest.mark.parametrize("fields", [{"e": 1}, {"n": None}, {"k": False}, {"a": "ü"}, {"zz": 'q"'}])
def test_values_that_are_no_plain_texts_leave_the_frame(reader: Reader, fields: dict[str, Any]) -> None:
    assert not reader.takes(json_frame(fields))


@pytest.mark.parametrize(
    "changes", [{"opaque": "17"}, {"version": 2**31}, {"flag": None}, {"extFields": "x"}, {"code": 310.0}]
)
def test_numbers_must_be_numbers(reader: Reader, changes: dict[str, Any]) -> None:
    assert not reader.takes(json_frame(**changes))


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
def test_anything_else_in_the_json_leaves_the_frame(reader: Reader, old: bytes, new: bytes) -> None:
    data = json.dumps(header(), separators=(",", ":")).encode()
    assert old in data
    assert not reader.takes(framed(data.replace(old, new, 1)))


@pytest.mark.parametrize("at", range(8, 60))
def test_a_binary_header_with_a_length_that_leads_astray_is_left(reader: Reader, at: int) -> None:
    data = bytearray(binary_frame())
    data[at] ^= 0x80
    end, _ = reader.read(bytes(data))
    assert end in (0, len(data))
    reader.read(bytes(data[:-1]))
