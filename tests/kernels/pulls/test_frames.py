import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.kernels.pulling import USUAL, Reader, binary_frame, header, json_frame
from tests.kernels.reading import framed

from cometmq.kernels.ops import Ops
from cometmq.kernels.pulls.rows import KEY_SIZE_MAX, NO_LIMIT, NOTHING_TO_COMMIT, PullState
from cometmq.kernels.text.key_table import NO_ROW
from cometmq.wire.codes import RequestCode

FRAMES: list[Callable[..., bytes]] = [json_frame, binary_frame]


@pytest.fixture
def compiled_reader(compiled: Ops) -> Reader:
    return Reader(compiled)


@pytest.fixture
def reader(ops: Ops) -> Reader:
    return Reader(ops)


@pytest.mark.parametrize("frame", FRAMES)
def test_a_pull_becomes_numbers(reader: Reader, frame: Callable[..., bytes]) -> None:
    data = frame()
    assert reader.read(b"x" + data, 1) == (1 + len(data), 1 + len(data))
    (row,) = reader.rows
    assert row[:9] == (0, 5, frame is binary_frame, 17, 32, 262144, 3, 16, 15000)
    assert (row.target, row.key_at, row.state) == (NO_ROW, 0, PullState.ASKED)


def test_an_offset_is_committed_only_if_the_flag_says_so(reader: Reader) -> None:
    assert reader.reads(json_frame({"sysFlag": "2"}))
    assert reader.rows[0].commit_offset == NOTHING_TO_COMMIT


def test_without_a_limit_of_bytes_there_is_none(reader: Reader) -> None:
    assert reader.reads(json_frame().replace(b'"maxMsgBytes":"262144"', b'"masMsgBytes":"262144"'))
    assert NO_LIMIT in reader.rows[0]


@pytest.mark.parametrize(
    "changes", [{"code": RequestCode.SEND_MESSAGE_V2}, {"flag": 1}, {"flag": 2}, {"body": b"x"}]
)
@pytest.mark.parametrize("frame", FRAMES)
def test_other_frames_are_left(
    reader: Reader, frame: Callable[..., bytes], changes: dict[str, object]
) -> None:
    other, usual = frame(**changes), frame()
    assert reader.read(other) == (0, len(other))
    assert reader.read(other + usual) == (0, len(other))
    assert reader.read(usual + other + other + usual) == (len(usual), len(usual + other + other))
    assert reader.read(usual + other + usual[:-1]) == (len(usual), len(usual + other + usual) - 1)
    assert reader.read(usual + usual, end=len(usual)) == (len(usual), len(usual))


def test_no_more_are_read_than_there_is_room_for(reader: Reader) -> None:
    usual = json_frame()
    assert reader.read(usual * 20) == (8 * len(usual), 8 * len(usual))


def test_who_asks_for_the_same_is_known(reader: Reader) -> None:
    changes = [
        {},
        {"consumerGroup": "other"},
        {"topic": "TT"},
        {"consumerGroup": "groupT", "topic": ""},
        {"queueId": "4"},
        {"subVersion": "3"},
        {"sysFlag": "4"},
        {"sysFlag": "4", "subscription": "a"},
        {"sysFlag": "4", "subscription": ""},
        {"sysFlag": "4", "subscription": "a", "expressionType": "SQL92"},
    ]
    frames = [frame(fields) for fields in changes for frame in FRAMES]
    frames += [json_frame(fields, code=int(RequestCode.LITE_PULL_MESSAGE)) for fields in changes]
    numbers = []
    for frame in frames:
        assert reader.reads(frame)
        known = reader.rows[0].target
        numbers.append(reader.learn() if known == NO_ROW else known)
    assert numbers == [n // 2 for n in range(20)] + list(range(10, 20))
    assert len(reader.table) == 20


@pytest.mark.parametrize(
    "fields", [{"queueOffset": "9"}, {"commitOffset": "1"}, {"maxMsgNums": "1"}, {"sysFlag": "0"}]
)
def test_what_differs_from_pull_to_pull_is_no_part_of_the_key(reader: Reader, fields: dict[str, str]) -> None:
    assert reader.reads(json_frame())
    reader.learn()
    assert reader.reads(json_frame(fields | {"subscription": "not looked at", "expressionType": "SQL92"}))
    assert reader.rows[0].target == 0


def test_each_unknown_key_has_its_place(reader: Reader) -> None:
    frames = b"".join(json_frame({"queueId": str(n)}) for n in range(5))
    reader.read(frames)
    assert len({row.key_at for row in reader.rows}) == 5
    assert [reader.learn(n) for n in range(5)] == [0, 1, 2, 3, 4]
    reader.read(frames)
    assert [row.target for row in reader.rows] == [0, 1, 2, 3, 4]


def test_a_pull_whose_texts_are_too_long_is_left(reader: Reader) -> None:
    assert not reader.reads(json_frame({"sysFlag": "4", "subscription": "x" * KEY_SIZE_MAX}))
    longest = KEY_SIZE_MAX - 32 - 8 - len("T") - len("group") - len("TAG")
    assert reader.reads(json_frame({"sysFlag": "4", "subscription": "x" * longest}))
    assert not reader.reads(json_frame({"sysFlag": "4", "subscription": "x" * (longest + 1)}))


def without(name: str) -> dict[str, Any]:
    members = header()
    members["extFields"] = {field: value for field, value in USUAL.items() if field != name}
    return members


def test_members_come_in_any_order_and_with_blanks(compiled_reader: Reader) -> None:
    members = dict(sorted(header().items(), reverse=True))
    assert compiled_reader.reads(framed(json.dumps(members).encode()))


@pytest.mark.parametrize("name", USUAL)
def test_only_some_fields_must_be_there(compiled_reader: Reader, name: str) -> None:
    is_optional = name in ("subVersion", "maxMsgBytes", "expressionType", "bname", "requestSource")
    assert compiled_reader.reads(framed(json.dumps(without(name)).encode())) == is_optional


@pytest.mark.parametrize("name", ["topiX", "Topic", "ttopic", "t", "", "x" * 300, "queueIds", "sysFlags"])
@pytest.mark.parametrize("frame", [json_frame, binary_frame])
def test_fields_that_mean_nothing_here_are_passed_over(
    compiled_reader: Reader, frame: Callable[..., bytes], name: str
) -> None:
    assert compiled_reader.reads(frame({name: "text"}))


@pytest.mark.parametrize("fields", [{"queueId": 1}, {"bname": None}, {"topic": "ü"}, {"zz": 'q"'}])
def test_values_that_are_no_plain_texts_leave_the_frame(
    compiled_reader: Reader, fields: dict[str, Any]
) -> None:
    assert not compiled_reader.reads(json_frame(fields))


@pytest.mark.parametrize(
    "field", ["queueId", "queueOffset", "maxMsgNums", "sysFlag", "commitOffset", "subVersion", "maxMsgBytes"]
)
@pytest.mark.parametrize("text", ["", "x", "01", "1.0", "9" * 19])
@pytest.mark.parametrize("frame", [json_frame, binary_frame])
def test_numbers_must_be_numbers(
    compiled_reader: Reader, frame: Callable[..., bytes], field: str, text: str
) -> None:
    assert not compiled_reader.reads(frame({field: text}))


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
def test_anything_unusual_leaves_the_frame(compiled_reader: Reader, old: bytes, new: bytes) -> None:
    text = json.dumps(header(), separators=(",", ":")).encode()
    changed = text.replace(old, new, 1)
    assert changed != text
    assert not compiled_reader.reads(framed(changed))


def test_a_binary_header_that_does_not_end_with_its_fields_leaves_the_frame(compiled_reader: Reader) -> None:
    frame = binary_frame()
    assert compiled_reader.reads(frame)
    for cut in range(9, len(frame) - 8):
        assert not compiled_reader.reads(framed(frame[8:-cut], b"", 1))
