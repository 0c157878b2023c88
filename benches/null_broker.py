"""A broker that answers every send at once and stores nothing: more no broker on this loop can do.

    python -m benches.null_broker dev --port …        (as ``cometmq dev``)

Sockets, event loop, name server and every other request are CometMQ's own. Only the SEND_MESSAGE_V2 frames
of a socket read are answered with constant bytes around their opaque numbers.
"""

from collections.abc import Sequence
from typing import Any, Final
from unittest import mock

import numpy as np

from cometmq.broker.requests.runs import ReadRun
from cometmq.broker.requests.send import Sends
from cometmq.cli.main import main as cometmq
from cometmq.kernels.acks.rows import AckRows
from cometmq.kernels.arrays import Bytes
from cometmq.kernels.compiling.jit import (
    byte_at,
    bytes_in,
    bytes_out,
    inlined,
    int64,
    int_at,
    kernel,
    long,
    put_int,
    types,
)
from cometmq.kernels.frames.rows import Frames
from cometmq.kernels.ops import Ops
from cometmq.net.server import Session
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, SerializeType, response
from cometmq.wire.headers import PopHeader, PopResponseHeader, fields
from cometmq.wire.template import ResponseTemplate

OPAQUE: Final = 2_071_831_193
NAMES: Final = ("msgId", "queueId", "queueOffset", "transactionId")
VALUES: Final = ("7F00000100002A9F" + 16 * "0", "0", "1000", 32 * "0")
CONSTANTS: Final = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
PREFIX_SIZE: Final = 8
ONEWAY_FLAG: Final = 2
GROWTH_MAX: Final = 4
"""An answer takes so many times the room of the send at most."""


def _answer_parts(kind: SerializeType, opaque: bytes) -> tuple[Bytes, Bytes]:
    """Return what an answer's header holds before its opaque number, and behind it."""
    request = Command(RequestCode.SEND_MESSAGE_V2, OPAQUE, serialize_type=kind)
    header = ResponseTemplate(NAMES, CONSTANTS).encode(request, VALUES)[PREFIX_SIZE:]
    before, _, behind = header.partition(opaque)
    return np.frombuffer(before, np.uint8), np.frombuffer(behind, np.uint8)


JSON_BEFORE, JSON_BEHIND = _answer_parts(SerializeType.JSON, str(OPAQUE).encode())
BINARY_BEFORE, BINARY_BEHIND = _answer_parts(SerializeType.ROCKETMQ, OPAQUE.to_bytes(4, "big"))
JSON_START: Final = np.frombuffer(b'{"code":310,', np.uint8)
JSON_OPAQUE: Final = np.frombuffer(b'"opaque":', np.uint8)
JSON_ONEWAY: Final = np.frombuffer(b'"flag":2,', np.uint8)
BINARY_OPAQUE_AT: Final = 5
BINARY_FLAG_AT: Final = 9


@inlined
def _is_at(data: Bytes, at: int, text: Bytes) -> Any:
    same = True
    for i in range(len(text)):
        same = same and byte_at(data, at + i) == text[i]
    return same


@inlined
def _copy(source: Bytes, begin: int, end: int, target: Bytes, at: int) -> Any:
    for i in range(begin, end):
        target[at] = byte_at(source, i)
        at += 1
    return at


@kernel(types.UniTuple(long, 2)(bytes_in, long, bytes_out))
def answer_sends(data: Bytes, start: int, answers: Bytes) -> Any:
    """Answer the sends from ``start`` up to the first other frame: gives where they end, and the answers."""
    position, size = int64(start), int64(0)
    while position + PREFIX_SIZE <= len(data):
        end = position + 4 + int64(int_at(data, position))
        header = position + PREFIX_SIZE
        word = int64(int_at(data, position + 4))
        header_end = header + (word & 0xFFFFFF)
        if end > len(data) or header_end > end:
            break
        behind = size + PREFIX_SIZE
        if word >> 24:
            if int_at(data, header) >> 16 != 310:
                break
            is_oneway = int_at(data, header + BINARY_FLAG_AT) & ONEWAY_FLAG
            behind = _copy(BINARY_BEFORE, 0, len(BINARY_BEFORE), answers, behind)
            behind = _copy(data, header + BINARY_OPAQUE_AT, header + BINARY_OPAQUE_AT + 4, answers, behind)
            behind = _copy(BINARY_BEHIND, 0, len(BINARY_BEHIND), answers, behind)
        else:
            if not _is_at(data, header, JSON_START):
                break
            at = header_end - len(JSON_OPAQUE)
            while at > header and not _is_at(data, at, JSON_OPAQUE):
                at -= 1
            opaque = at + len(JSON_OPAQUE)
            opaque_end = opaque
            while byte_at(data, opaque_end) not in (ord(","), ord("}")):
                opaque_end += 1
            is_oneway = 0
            while at > header and byte_at(data, at) != ord("}"):  # the fields end there, the flag follows
                is_oneway |= _is_at(data, at, JSON_ONEWAY)
                at -= 1
            behind = _copy(JSON_BEFORE, 0, len(JSON_BEFORE), answers, behind)
            behind = _copy(data, opaque, opaque_end, answers, behind)
            behind = _copy(JSON_BEHIND, 0, len(JSON_BEHIND), answers, behind)
        if not is_oneway:
            put_int(answers, size, behind - size - 4)
            put_int(answers, size + 4, (word >> 24) << 24 | (behind - size - PREFIX_SIZE))
            size = behind
        position = end
    return position, size


class NullSends(Sends):
    """Accepts sends and forgets them."""

    _room = np.empty(1 << 20, np.uint8)

    def take(self, _: Ops, frames: Frames, runs: Sequence[ReadRun]) -> None:
        """Answer the sends that come next."""
        for read, run in runs:
            begin, end = frames.rows[run.first].begin, frames.rows[run.last - 1].end
            if GROWTH_MAX * (end - begin) > len(self._room):
                self._room = np.empty(GROWTH_MAX * (end - begin), np.uint8)
            data = np.frombuffer(frames.data, np.uint8)[:end]
            _, size = answer_sends(data, begin, self._room)
            run.done = run.left = run.last
            if size:
                read.session.send(bytes(self._room.data[:size]))


class NullAcks:
    """Answers acknowledgements and forgets them (a ``broker.requests.runs.Taker``)."""

    def __init__(self) -> None:
        self._rows = AckRows()

    def take(self, ops: Ops, frames: Frames, runs: Sequence[ReadRun]) -> None:
        """Answer the acknowledgements that come next."""
        for read, run in runs:
            count = ops.acks.read(frames, run.first, run.last, self._rows)
            acks = int(self._rows.points[count - 1]["acks_end"]) if count else 0
            run.done, run.left = run.first + acks, run.last
            if acks:
                end = self._rows.acks[acks - 1]["answer_end"]
                read.session.send_at_once(self._rows.answers[:end].tobytes())


def answer_null_pop(_: Session, command: Command, header: PopHeader) -> Command:
    """Answer a pop at once: there is no message."""
    nothing = PopResponseHeader(header.born_time, header.invisible_time, 0, 0)
    return response(command, ResponseCode.POLLING_TIMEOUT, "NO_MESSAGE_IN_QUEUE", fields(nothing))


if __name__ == "__main__":
    with mock.patch("cometmq.broker.assembly.Sends", NullSends):
        cometmq()
