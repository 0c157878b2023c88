"""The frames of a turn, and the runs of its reads."""

import pytest
from tests.kernels.reading import framed
from tests.kernels.sending import USUAL, binary_frame, json_frame

from cometmq.kernels import plain
from cometmq.kernels.frames.fields import FrameKind
from cometmq.kernels.frames.rows import Frames
from cometmq.kernels.ops import Ops
from cometmq.wire.frame import decode

COMMAND = framed(b'{"code":10,"extFields":{},"flag":0,"opaque":1}')


@pytest.fixture(params=["plain", "compiled"])
def ops(request: pytest.FixtureRequest, compiled: Ops) -> Ops:
    return plain if request.param == "plain" else compiled


def read(ops: Ops, *reads: bytes, count: int = 100) -> tuple[Frames, int]:
    frames = Frames(count=count)
    frames.begin(reads)
    return frames, ops.frames.read(frames)


def test_each_read_begins_with_its_first_run(ops: Ops) -> None:
    frames, kinds = read(ops, COMMAND + json_frame(), json_frame() * 2 + COMMAND, json_frame()[:-1])
    runs = [
        (run.kind, run.first, run.last, run.done, run.commands_end, run.end_row) for run in frames.runs[:3]
    ]
    assert runs == [
        (FrameKind.COMMAND, 0, 1, 0, 1, 2),  # commands are left at once
        (FrameKind.SEND, 2, 4, 2, 2, 5),
        (FrameKind.COMMAND, 5, 5, 5, 5, 5),
    ]
    assert [(run.is_whole, run.has_rest) for run in frames.runs[:3]] == [(1, 0), (1, 0), (0, 1)]
    assert kinds == 1 << FrameKind.COMMAND | 1 << FrameKind.SEND


def test_the_next_run_is_of_the_kind_of_its_first_frame(ops: Ops) -> None:
    frames, _ = read(ops, json_frame() * 2 + COMMAND + json_frame())
    run, found = frames.runs[0], []
    for first in (2, 3, 4):
        frames.begin_run(run, first)
        found.append((run.kind, run.first, run.last, run.commands_end))
    assert found == [
        (FrameKind.COMMAND, 2, 3, 3),
        (FrameKind.SEND, 3, 4, 3),
        (FrameKind.COMMAND, 4, 4, 4),  # there is no other
    ]


def test_a_read_for_which_there_are_no_rows_is_neither_whole_nor_cut(ops: Ops) -> None:
    frames, _ = read(ops, json_frame() * 5, count=3)
    run = frames.runs[0]
    assert (run.end_row, run.frames_end, run.is_whole, run.has_rest) == (3, 3 * len(json_frame()), 0, 0)


@pytest.mark.parametrize("frame", [json_frame({"i": USUAL["i"] + 'k\x01\\"ü\x02'}), binary_frame()])
def test_a_row_gives_the_request_of_its_frame(ops: Ops, frame: bytes) -> None:
    frames, _ = read(ops, COMMAND, frame)
    request, decoded = frames.request(1), decode(frame)
    assert (request.code, request.opaque, request.flag) == (decoded.code, decoded.opaque, decoded.flag)
    assert (request.ext_fields, request.body) == (decoded.ext_fields, decoded.body)
    assert request.serialize_type is decoded.serialize_type


def test_commands_are_given_only_where_all_are_decoded(compiled: Ops) -> None:
    frames, _ = read(plain, json_frame() * 2 + COMMAND)
    assert [command.body for command in frames.commands(0, 2)] == [b"body", b"body"]
    assert frames.commands(0, 3) == []
    frames, _ = read(compiled, json_frame() * 2)
    assert frames.commands(0, 2) == []
