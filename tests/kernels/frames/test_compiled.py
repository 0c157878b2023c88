"""Frames are read the same by both bodies.

Of frames in an unusual spelling the compiled one may make more commands, to the same effect.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels.reading import framed, java_header
from tests.kernels.signing import ANN

from cometmq.kernels import plain
from cometmq.kernels.frames.fields import KINDS, NAMES, FrameKind
from cometmq.kernels.frames.rows import FRAME, KEY_FIELDS, Frames, ReadFrames
from cometmq.kernels.ops import Ops
from cometmq.wire.acl import SIGNATURE, signed_fields

texts = st.text(st.characters(codec="utf-8"), max_size=20) | st.text('ab\\"/\x01\n\u00fc\u20ac', max_size=30)
names = st.sampled_from([*KEY_FIELDS, SIGNATURE, *"acdefghijklmn", "bname", "bnam", "bo", "\u00fc", 'q"', ""])


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    fields: dict[str, Any] = draw(st.dictionaries(names, texts, max_size=12))
    body = draw(st.binary(max_size=20))
    if draw(st.booleans()):
        fields = signed_fields(fields, body, 479, ANN)
    if draw(st.integers(0, 9)) == 0:
        fields[draw(names)] = draw(st.sampled_from([1, None, True, [], {}]))
    code, flag = draw(st.sampled_from([*KINDS, 310, 310, 310, 34])), draw(st.sampled_from([0, 0, 0, 1, 2, 3]))
    header = java_header(code, 7, fields, flag=flag)
    for name in draw(st.lists(st.sampled_from(sorted(header)), max_size=1)):
        del header[name]
    separators = draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    return framed(json.dumps(header, separators=separators, ensure_ascii=draw(st.booleans())).encode(), body)


def came_of(ops: Ops, reads: list[bytes], *, are_signed: bool, count: int = 1000) -> list[Any]:
    """Return what each row says; of commands only where they are."""
    room = Frames(are_signed=are_signed, count=count)
    room.begin(reads)
    kinds = ops.frames.read(room)
    runs = [[getattr(run, name) for name in ReadFrames.__annotations__] for run in room.runs[: len(reads)]]
    found: list[Any] = [(kinds, runs)]
    for number in range(room.runs[len(reads) - 1].end_row):
        row = room.rows[number]
        found.append((row.begin, row.end, row.kind, row.next))
        if row.kind != FrameKind.COMMAND:
            request = room.request(number)
            found.append((request.code, request.opaque, request.flag, request.body, request.serialize_type))
            found.append({name: text for name, text in request.ext_fields.items() if name in NAMES})
            if are_signed:
                found.append(room.signed[number].item())
    return [*found, room.texts[: found[-1][-1]].tobytes() if are_signed and len(found[-1]) == 6 else b""]


@settings(deadline=None)
@given(st.lists(st.tuples(frames(), st.integers(0, 2)), max_size=10), st.integers(0, 40), st.booleans())
def test_frames_are_read_the_same(
    compiled: Ops, drawn: list[tuple[bytes, int]], cut: int, are_signed: bool
) -> None:
    reads = [b"", b"", b""]
    for frame, number in drawn:
        ours, theirs = (came_of(ops, [frame], are_signed=are_signed) for ops in (plain, compiled))
        if ours == theirs:
            reads[number] += frame
        else:
            assert theirs[1][2] == FrameKind.COMMAND, "only the compiled body leaves more"
    reads = [data[: max(len(data) - cut, 0)] for data in reads]
    for count in (1000, 3):
        ours, theirs = (came_of(ops, reads, are_signed=are_signed, count=count) for ops in (plain, compiled))
        assert ours == theirs


def test_a_field_that_comes_twice_makes_a_command(compiled: Ops) -> None:
    """Python's decoder takes the last one: whoever handles the request may take the first."""
    text = b'{"code":310,"extFields":{"b":"one","AccessKey":"ann","b":"two"},"opaque":1}'
    assert came_of(compiled, [framed(text, b"body")], are_signed=True)[1][2] == FrameKind.COMMAND


def test_a_signed_field_without_a_column_makes_a_command(compiled: Ops) -> None:
    """What it signs could not be told from the places."""
    text = b'{"code":310,"extFields":{"b":"one","AccessKey":"ann","bb":"two"},"opaque":1}'
    for are_signed in (False, True):
        kind = came_of(compiled, [framed(text, b"body")], are_signed=are_signed)[1][2]
        assert kind == (FrameKind.COMMAND if are_signed else FrameKind.SEND)


@pytest.mark.parametrize("letter", [b'"', b"\\", b"\x01", b"\xff"])
def test_a_letter_that_is_no_name_leaves_a_frame_that_is_not_json(compiled: Ops, letter: bytes) -> None:
    text = b'{"code":310,"extFields":{"%b":"x","b":"T"},"opaque":1}' % letter
    assert came_of(compiled, [framed(text, b"body")], are_signed=False)[1][2] == FrameKind.COMMAND


def test_threads_read_frames_at_the_same_time(compiled: Ops) -> None:
    """What one notes of a header, another must not see: it would be a row of another request."""

    def are_of(code: int, kind: FrameKind, body: bytes) -> bool:
        room = Frames()
        room.begin([framed(b'{"code":%d,"extFields":{"b":"T","topic":"T"}}' % code, body) * len(room.rows)])
        for _ in range(300):
            compiled.frames.read(room)
            rows = np.frombuffer(memoryview(room.rows).cast("B"), FRAME)
            if not (np.all(rows["kind"] == kind) and np.all(rows["code"] == code)):
                return False
        return True

    with ThreadPoolExecutor() as threads:
        sends = threads.submit(are_of, 310, FrameKind.SEND, b"body")
        queries = threads.submit(are_of, 12, FrameKind.QUERY, b"")
        assert sends.result() and queries.result()
