import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.kernels.frames import framed
from tests.kernels.pulling import USUAL, Reader, binary_frame, header, json_frame

from cometmq.kernels.ops import Ops
from cometmq.kernels.pulls.header import NAMES, REQUIRED


@pytest.fixture
def reader(compiled: Ops) -> Reader:
    return Reader(compiled.pulls)


def without(name: str) -> dict[str, Any]:
    members = header()
    members["extFields"] = {field: value for field, value in USUAL.items() if field != name}
    return members


def test_members_come_in_any_order_and_with_blanks(reader: Reader) -> None:
    members = dict(sorted(header().items(), reverse=True))
    assert reader.reads(framed(json.dumps(members).encode()))


@pytest.mark.parametrize("name", [name.decode() for name in NAMES])
def test_only_some_fields_must_be_there(reader: Reader, name: str) -> None:
    is_required = name.encode() in NAMES[:REQUIRED]
    assert reader.reads(framed(json.dumps(without(name)).encode())) == (not is_required)


@pytest.mark.parametrize("name", ["topiX", "Topic", "ttopic", "t", "", "x" * 300, "queueIds", "sysFlags"])
@pytest.mark.parametrize("frame", [json_frame, binary_frame])
def test_fields_that_mean_nothing_here_are_passed_over(
    reader: Reader, frame: Callable[..., bytes], name: str
) -> None:
    assert reader.reads(frame({name: "text"}))


@pytest.mark.parametrize("fields", [{"queueId": 1}, {"bname": None}, {"topic": "ü"}, {"zz": 'q"'}])
def test_values_that_are_no_plain_texts_leave_the_frame(reader: Reader, fields: dict[str, Any]) -> None:
    assert not reader.reads(json_frame(fields))


@pytest.mark.parametrize(
    "field", ["queueId", "queueOffset", "maxMsgNums", "sysFlag", "commitOffset", "subVersion", "maxMsgBytes"]
)
@pytest.mark.parametrize("text", ["", "x", "01", "1.0", "9" * 19])
@pytest.mark.parametrize("frame", [json_frame, binary_frame])
def test_numbers_must_be_numbers(reader: Reader, frame: Callable[..., bytes], field: str, text: str) -> None:
    assert not reader.reads(frame({field: text}))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"queueId":"3"', b'"queueId":"3","queueId":"3"'),
        (b'"flag":0', b'"flag":0,"flag":0'),
        (b'"topic":', b'"\\u0074opic":'),
        (b'"queueId":', b'"queueId"'),
        (b'"T"', b'"\x01"'),
    ],
)
def test_anything_unusual_leaves_the_frame(reader: Reader, old: bytes, new: bytes) -> None:
    text = json.dumps(header(), separators=(",", ":")).encode()
    changed = text.replace(old, new, 1)
    assert changed != text
    assert not reader.reads(framed(changed))


def test_a_binary_header_that_does_not_end_with_its_fields_leaves_the_frame(reader: Reader) -> None:
    frame = binary_frame()
    assert reader.reads(frame)
    for cut in range(9, len(frame) - 8):
        assert not reader.reads(framed(frame[8:-cut], b"", 1))
