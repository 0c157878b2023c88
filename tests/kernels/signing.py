"""Signed frames, and what the leaf operation reads of them: what its tests share."""

import json
from typing import Any, Final, NamedTuple

from tests.kernels.frames import framed, java_header

from cometmq.kernels.signed.rows import (
    BODY_AT,
    FRAME_END,
    KEY_AT,
    KEY_END,
    SIGNATURE_AT,
    SIGNED_AT,
    SignedOps,
    SignedRows,
)
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


def read_signed(ops: SignedOps, data: bytes, begin: int = 0, into: SignedRows | None = None) -> list[Signed]:
    """Read signed requests, and return them with their texts."""
    into = into or SignedRows()
    count = ops.read(data, begin, into)
    found = []
    for row in into.rows[:count].tolist():
        bounds = (SIGNED_AT, SIGNATURE_AT), (SIGNATURE_AT, KEY_AT), (KEY_AT, KEY_END)
        texts = [into.texts[row[at] : row[end]].tobytes() for at, end in bounds]
        found.append(Signed(row[FRAME_END], row[BODY_AT], *texts))
    return found
