"""A broker that answers every send at once and stores nothing: more no broker on this loop can do.

    python -m benches.null_broker dev --port …        (as ``cometmq dev``)

Sockets, event loop, name server, the door and every other request are CometMQ's own. Only sends are answered
with constant bytes around their opaque numbers.
"""

from collections.abc import Sequence
from typing import Any, Final
from unittest import mock

import numpy as np

from cometmq.broker.requests.runs import ReadRun
from cometmq.broker.requests.send import Sends
from cometmq.cli.main import main as cometmq
from cometmq.kernels.acks.rows import AckRows
from cometmq.kernels.arrays import Bytes, Longs, joined
from cometmq.kernels.compiling.jit import int64, kernel
from cometmq.kernels.compiling.signatures import bytes_out, long, longs_in
from cometmq.kernels.frames.compiled import rows_of
from cometmq.kernels.frames.rows import FRAMES_MAX, ROWS, Frames
from cometmq.kernels.ops import Ops
from cometmq.kernels.text.answers import put_around
from cometmq.net.server import Session
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import ONEWAY_FLAG, PREFIX_SIZE, Command, SerializeType, response
from cometmq.wire.headers import PopHeader, PopResponseHeader, fields
from cometmq.wire.template import ResponseTemplate

OPAQUE: Final = 2_071_831_193
NAMES: Final = ("msgId", "queueId", "queueOffset", "transactionId")
VALUES: Final = ("7F00000100002A9F" + 16 * "0", "0", "1000", 32 * "0")
CONSTANTS: Final = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
ANSWER_SIZE_MAX: Final = 512


def _answer_parts(kind: SerializeType, opaque: bytes) -> tuple[bytes, bytes]:
    """Return what an answer's header holds before its opaque number, and behind it."""
    request = Command(RequestCode.SEND_MESSAGE_V2, OPAQUE, serialize_type=kind)
    header = ResponseTemplate(NAMES, CONSTANTS).encode(request, VALUES)[PREFIX_SIZE:]
    before, _, behind = header.partition(opaque)
    return before, behind


ANSWER_PARTS, BOUNDS = joined(
    (
        *_answer_parts(SerializeType.JSON, str(OPAQUE).encode()),
        *_answer_parts(SerializeType.ROCKETMQ, OPAQUE.to_bytes(4, "big")),
    )
)


@kernel(long(longs_in, long, long, bytes_out))
def answer_sends(frames: Longs, first: int, last: int, answers: Bytes) -> Any:
    """Answer the sends of some rows; return where the answers end."""
    rows, size = rows_of(frames, ROWS), int64(0)
    for i in range(first, last):
        row = rows[i]
        if row.flag & ONEWAY_FLAG:
            continue
        piece = 2 if row.is_binary else 0
        size = put_around(row.opaque, row.is_binary, 0, ANSWER_PARTS, BOUNDS, piece, answers, size)
    return size


class NullSends(Sends):
    """Accepts sends and forgets them."""

    _room = np.empty(FRAMES_MAX * ANSWER_SIZE_MAX, np.uint8)

    def take(self, _: Ops, frames: Frames, runs: Sequence[ReadRun]) -> None:
        """Answer the sends that come next."""
        for read, run in runs:
            size = answer_sends(frames.table.numbers, run.first, run.last, self._room)
            run.done = run.commands_end = run.last
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
            run.done, run.commands_end = run.first + acks, run.last
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
