from collections.abc import Callable

import pytest
from tests.kernels.pulling import Reader, binary_frame, json_frame

from cometmq.kernels.pulls.frames import LITE_PULL_CODE
from cometmq.kernels.pulls.pull_table import KEY_SIZE_MAX, NO_TARGET
from cometmq.kernels.pulls.rows import (
    COMMIT_OFFSET,
    NO_LIMIT,
    NOTHING_TO_COMMIT,
    PULL_SIZE,
    TARGET,
    UNKNOWN_AT,
    PullOps,
    PullState,
)
from cometmq.wire.codes import RequestCode

FRAMES: list[Callable[..., bytes]] = [json_frame, binary_frame]


@pytest.fixture
def reader(pull_ops: PullOps) -> Reader:
    return Reader(pull_ops)


@pytest.mark.parametrize("frame", FRAMES)
def test_a_pull_becomes_numbers(reader: Reader, frame: Callable[..., bytes]) -> None:
    data = frame()
    assert reader.read(b"x" + data, 1) == (1 + len(data), 1 + len(data))
    ((*numbers, target, _, unknown_at, _, state),) = reader.rows
    assert len(reader.rows[0]) == PULL_SIZE
    assert numbers == [1, 1 + len(data), 5, frame is binary_frame, 17, 32, 262144, 3, 16, 15000]
    assert (target, unknown_at, state) == (NO_TARGET, 0, PullState.ASKED)


def test_an_offset_is_committed_only_if_the_flag_says_so(reader: Reader) -> None:
    assert reader.reads(json_frame({"sysFlag": "2"}))
    assert reader.rows[0][COMMIT_OFFSET] == NOTHING_TO_COMMIT


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
    frames += [json_frame(fields, code=LITE_PULL_CODE) for fields in changes]
    numbers = []
    for frame in frames:
        assert reader.reads(frame)
        known = reader.rows[0][TARGET]
        numbers.append(reader.learn() if known == NO_TARGET else known)
    assert numbers == [n // 2 for n in range(20)] + list(range(10, 20))
    assert reader.table.count == 20


@pytest.mark.parametrize(
    "fields", [{"queueOffset": "9"}, {"commitOffset": "1"}, {"maxMsgNums": "1"}, {"sysFlag": "0"}]
)
def test_what_differs_from_pull_to_pull_is_no_part_of_the_key(reader: Reader, fields: dict[str, str]) -> None:
    assert reader.reads(json_frame())
    reader.learn()
    assert reader.reads(json_frame(fields | {"subscription": "not looked at", "expressionType": "SQL92"}))
    assert reader.rows[0][TARGET] == 0


def test_each_unknown_key_has_its_place(reader: Reader) -> None:
    frames = b"".join(json_frame({"queueId": str(n)}) for n in range(5))
    reader.read(frames)
    assert len({row[UNKNOWN_AT] for row in reader.rows}) == 5
    assert [reader.learn(n) for n in range(5)] == [0, 1, 2, 3, 4]
    reader.read(frames)
    assert [row[TARGET] for row in reader.rows] == [0, 1, 2, 3, 4]


def test_a_pull_whose_texts_are_too_long_is_left(reader: Reader) -> None:
    assert not reader.reads(json_frame({"sysFlag": "4", "subscription": "x" * KEY_SIZE_MAX}))
    longest = KEY_SIZE_MAX - 32 - 8 - len("T") - len("group") - len("TAG")
    assert reader.reads(json_frame({"sysFlag": "4", "subscription": "x" * longest}))
    assert not reader.reads(json_frame({"sysFlag": "4", "subscription": "x" * (longest + 1)}))
