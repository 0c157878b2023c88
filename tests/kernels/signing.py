"""Signed frames, and what the leaf operation reads of them: what its tests share."""

import json
from itertools import pairwise
from typing import Any, Final, NamedTuple

from tests.kernels.reading import framed, java_header

from cometmq.kernels.frames import rows
from cometmq.kernels.frames.fields import FrameKind
from cometmq.kernels.frames.rows import Frames
from cometmq.kernels.ops import Ops
from cometmq.wire.acl import Credentials, signed_fields

ANN: Final = Credentials("ann", "ann's secret")
USUAL: Final = {
    "a": "producers",
    "b": "orders",
    "e": "3",
    "i": "KEYS\x01k\x02WAIT\x01true\x02",
    "n": "broker-a",
}


class Signed(NamedTuple):
    """A signed request that was read."""

    end: int
    body_at: int
    signed: bytes
    signature: bytes
    key: bytes


def signed_frame(
    fields: dict[str, Any] | None = None, body: bytes = b"body", code: int = 310, **changes: Any
) -> bytes:
    """Return a frame as the Java client writes it, signed by ann."""
    own = signed_fields(USUAL | (fields or {}), body, 479, ANN)
    header = java_header(code, 7, own, **changes)
    return framed(json.dumps(header, separators=(",", ":")).encode(), body)


def read_signed(ops: Ops, data: bytes, begin: int = 0, into: Frames | None = None) -> list[Signed]:
    """Read signed requests up to the first command, and return them with their texts."""
    frames = into or Frames(are_signed=True)
    frames.begin([data])
    frames.runs[0].begin = begin
    ops.frames.read(frames)
    found = []
    for number in range(frames.runs[0].end_row):
        if frames.rows[number].kind == FrameKind.COMMAND:
            break
        row = rows.Signed._make(frames.signed[number].item())
        bounds = pairwise((row.signed_at, row.signature_at, row.key_at, row.key_end))
        texts = [frames.texts[at:end].tobytes() for at, end in bounds]
        found.append(Signed(row.end, row.body_at, *texts))
    return found
