"""Frames and headers as clients write them: what the tests of the kernels of requests share."""

import struct
from collections.abc import Callable, Iterable
from typing import Any

from hypothesis import event

from cometmq.kernels.frames.fields import FrameKind
from cometmq.kernels.frames.rows import Frames
from cometmq.kernels.ops import Ops


def java_header(code: int, opaque: int, fields: dict[str, Any], /, **changes: Any) -> dict[str, Any]:
    """Return a JSON header as the Java client writes it."""
    return {
        "code": code,
        "extFields": fields,
        "flag": 0,
        "language": "JAVA",
        "opaque": opaque,
        "serializeTypeCurrentRPC": "JSON",
        "version": 479,
    } | changes


def framed(data: bytes, body: bytes = b"", serialize_type: int = 0) -> bytes:
    """Frame a header and a body."""
    return struct.pack(">iI", 4 + len(data) + len(body), serialize_type << 24 | len(data)) + data + body


def frames_in(ops: Ops, data: bytes, start: int = 0, end: int | None = None) -> Frames:
    """Read the frames of one socket read, from a position to another."""
    frames = Frames(count=4000)
    frames.begin([data])
    frames.runs[0].begin, frames.runs[0].end = start, len(data) if end is None else end
    ops.frames.read(frames)
    return frames


def stretch(frames: Frames, kind: FrameKind, room: int = 4000) -> int:
    """Return how many frames of a kind come first, at most so many as there is room for."""
    run = frames.runs[0]
    return min(run.last, room) if run.kind == kind else 0


def end_of(frames: Frames, row: int, start: int) -> int:
    """Return where the frames before a row end."""
    return frames.rows[row - 1].end if row else start


def position_of(frames: Frames, row: int) -> int:
    """Return where the frame of a row begins, or where the read ends if there is none."""
    run = frames.runs[0]
    if row < run.end_row:
        return frames.rows[row].begin
    position: int = run.end if run.has_rest else run.frames_end
    return position


def others_end(frames: Frames, row: int, is_taken: Callable[[int], bool]) -> int:
    """Return where the frames from a row on end that nobody takes."""
    while row < frames.runs[0].end_row and not is_taken(row):
        row += 1
    return position_of(frames, row)


def read_the_same(
    frames: Iterable[bytes], plainly: Callable[[bytes], list[Any]], compiledly: Callable[[bytes], list[Any]]
) -> bytes:
    """Return, joined, the frames that both bodies of an operation read alike; others only plain may read."""
    kept: list[bytes] = []
    for frame in frames:
        ours, theirs = plainly(frame), compiledly(frame)
        event(f"read: {len(ours)} {len(theirs)}")
        if ours == theirs:
            kept.append(frame)
        else:
            assert ours and not theirs
    return b"".join(kept)
