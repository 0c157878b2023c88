"""What both bodies of the operation on acknowledgements read of frames."""

import json
from typing import Any

import pytest
from tests.kernels.acking import USUAL, ack_frame, header, read_rows
from tests.kernels.pulling import binary_frame
from tests.kernels.reading import framed

from cometmq.kernels.acks.rows import TEXT_MAX, AckRows
from cometmq.kernels.ops import Ops

HANDLE = USUAL["extraInfo"]


def handle(offset: object, begin: object = 5) -> dict[str, Any]:
    return {"offset": str(offset), "extraInfo": f"{begin} 1795602262251 15000 2 0 broker-a 3 {offset}"}


def test_an_acknowledgement_becomes_numbers_and_texts(ops: Ops) -> None:
    frame = ack_frame(opaque=-9)
    (row,) = read_rows(ops, b"x" + frame, 1)
    assert row == ((1, 1 + len(frame)), -9, 3, 7, 0, "group", "T", HANDLE)


def test_neighbours_of_one_check_point_share_its_texts(ops: Ops) -> None:
    offsets = [7, 8, 12, 123, 7]
    rows = read_rows(ops, b"".join(ack_frame(handle(offset)) for offset in offsets))
    assert [row.offset for row in rows] == offsets
    assert {(row.point_at, row.handle) for row in rows} == {(0, HANDLE)}


@pytest.mark.parametrize(
    "other",
    [
        {"consumerGroup": "groupT", "topic": ""},
        {"consumerGroup": "other"},
        {"topic": "TT"},
        {"queueId": "4"},
        handle(7, begin=6),
        {"extraInfo": HANDLE.replace("broker-a", "b")},
    ],
)
def test_others_have_texts_of_their_own(ops: Ops, other: dict[str, Any]) -> None:
    rows = read_rows(ops, ack_frame() + ack_frame(other) + ack_frame())
    assert [(row.group, row.topic, row.handle) for row in rows] == [
        tuple((USUAL | fields)[name] for name in ("consumerGroup", "topic", "extraInfo"))
        for fields in ({}, other, {})
    ]
    assert len({row.point_at for row in rows}) == 3


@pytest.mark.parametrize(
    "other",
    [
        ack_frame(code=200050),
        ack_frame(flag=2),
        ack_frame(body=b"x"),
        ack_frame({"topic": "\u00fc"}),
        ack_frame({"extraInfo": "nothing"}),
        ack_frame({"extraInfo": " 7"}),
        ack_frame({"extraInfo": HANDLE + "x"}),
        ack_frame({"extraInfo": HANDLE + " "}),
        ack_frame({"extraInfo": HANDLE[:-1] + "9" * 19}),
        ack_frame({"offset": "x"}),
        ack_frame({"queueId": "2147483648"}),
        ack_frame({"consumerGroup": "g" * TEXT_MAX}),
        ack_frame()[:-1],
        ack_frame()[:5],
        binary_frame(),
    ],
)
def test_reading_ends_before_what_is_left(ops: Ops, other: bytes) -> None:
    assert len(read_rows(ops, ack_frame() * 2 + other + ack_frame())) == 2


@pytest.mark.parametrize("name", ["consumerGroup", "topic", "extraInfo", "queueId", "offset"])
def test_each_field_must_be_there(ops: Ops, name: str) -> None:
    members = header()
    del members["extFields"][name]
    assert read_rows(ops, framed(json.dumps(members).encode())) == []


def test_members_come_in_any_order_and_with_blanks(ops: Ops) -> None:
    members = dict(sorted(header().items(), reverse=True))
    assert len(read_rows(ops, framed(json.dumps(members).encode()))) == 1


def test_no_more_are_read_than_there_is_room_for(ops: Ops) -> None:
    data = b"".join(ack_frame(handle(7, begin)) for begin in range(10))
    assert len(read_rows(ops, data, into=AckRows(4))) == 4
    size = len("groupT" + HANDLE)
    assert len(read_rows(ops, data, into=AckRows(texts_size=3 * size + size - 1))) == 3
    assert len(read_rows(ops, ack_frame() * 9, into=AckRows(texts_size=size))) == 9
