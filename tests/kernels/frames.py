"""Frames and headers as clients write them: what the tests of the kernels of requests share."""

import struct
from collections.abc import Callable, Iterable
from typing import Any

from hypothesis import event


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
