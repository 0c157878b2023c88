"""The frames of some socket reads as rows: what the door, those behind it and the operations on them share.

A turn's bytes are read once, by one operation, which has a plain body (``plain``, the readable definition)
and a compiled one (``compiled``). A row says where its frame is, and its kind: who takes it. Where the values
of its header lie is in ``places``, which the compiled body writes; the plain one decodes commands. So what
goes by rows is given the operations of the body that has read them.
"""

from collections.abc import Sequence
from ctypes import Structure, c_int64
from typing import Final, NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from cometmq.kernels.arrays import ArrayTable, Bytes, Longs
from cometmq.kernels.frames.fields import ABSENT, FIELD_COUNT, NAMES, FrameKind
from cometmq.wire.acl import ACCESS_KEY, ADDED_AFTER_SIGNING
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command, SerializeType

FRAMES_MAX: Final = 1024
"""Most frames that are read together."""
READS_MAX: Final = 256
"""Most socket reads whose frames are read together."""
TEXTS_SIZE: Final = 1 << 18
"""Room for the signed texts of all frames that are read together, bytes."""
SPARE: Final = 64
"""Bytes of that room that there must be for a frame beside twice its header."""

KEY_FIELDS: Final = (ACCESS_KEY, "topic", "b", "consumerGroup")
"""The fields that a request's key has: who sends it, and what requests with rows may name."""
NO_TEXT: Final = -1
"""The length in a key of a field that is missing."""
UNSIGNED: Final = ADDED_AFTER_SIGNING
"""A request with this field is a command where signatures are checked: see ``wire.acl``."""
NEEDS_RECORD_CODE: Final = int(RequestCode.VIEW_MESSAGE_BY_ID)
"""So is a request with this code: which permission it needs is known once its record is found, see
``broker.auth.stored_records``."""


class Frame(Structure):
    """A frame that was read.

    A structure of C, so that Python and compiled operations read and write the same numbers in place.

    Attributes:
        begin, end: where it is in the bytes that were read.
        kind: a ``fields.FrameKind``.
        next: the row behind the last one of those of the same kind and read that follow it without a gap.
        code, flag, opaque: the header's; like the next two they are worthless if the kind is COMMAND.
        is_binary: whether its header is a ROCKETMQ one, and so the response's.
        body_at: where its body begins, which may be empty.
    """

    begin: int
    end: int
    body_at: int
    kind: int
    code: int
    flag: int
    opaque: int
    is_binary: int
    next: int


Frame._fields_ = [(name, c_int64) for name in Frame.__annotations__]
FRAME: Final = np.dtype([(name, np.int64) for name in Frame.__annotations__])
"""The dtype of a Frame."""


class Signed(NamedTuple):
    """Where a frame and its texts are: what is signed of its header, the signature, the key.

    What is signed of a header are the values of its fields, in the order of their names, but for the
    signature (``wire.acl``). A key has the request's code and flag, four bytes each, and for each of
    ``KEY_FIELDS`` its length, four bytes or NO_TEXT, and its text. So requests with the same key are the same
    to who decides by their sender, their code, and what they name.

    Attributes:
        body_at, end: where the frame's body is in the bytes that were read.
        signed_at, signature_at, key_at, key_end: where the texts are, one after the other.
    """

    body_at: int
    end: int
    signed_at: int
    signature_at: int
    key_at: int
    key_end: int


SIGNED: Final = np.dtype([(name, np.int64) for name in Signed._fields])
"""The dtype of a Signed."""


class ReadFrames(Structure):
    """A socket read among those that are read together, and its run: its next frames, all of one kind.

    Who takes a run says how far it has come, and the read's next run begins there::

        first ── answered ──► done ── as commands ──► commands_end ── the next run ──► end_row

    Attributes:
        begin, end: where the read's bytes are.
        frames_end: where its frames that have rows end.
        has_rest: whether it goes on there with a part of a frame, or with what is none.
        is_whole: whether all its bytes are those of rows.
        end_row: the row behind its last one.
        kind: the ``fields.FrameKind`` of the run.
        first, last: the rows of the run: from the first one to before the last one.
        done: the row before which they are answered.
        commands_end: the row before which those from ``done`` on are handled as commands.
        checked: the row before which the read's frames are checked, where requests are.
    """

    begin: int
    end: int
    frames_end: int
    has_rest: int
    is_whole: int
    end_row: int
    kind: int
    first: int
    last: int
    done: int
    commands_end: int
    checked: int


ReadFrames._fields_ = [(name, c_int64) for name in ReadFrames.__annotations__]
RUN: Final = np.dtype([(name, np.int64) for name in ReadFrames.__annotations__])
"""The dtype of a ReadFrames."""

RUNS, ROWS, PLACES, SIGNED_PLACES, TEXTS, ABOUT = range(6)
"""The arrays of ``Frames.table``; in the last one the compiled body notes what a header says."""
ABOUT_SIZE: Final = 5
"""So many numbers are noted of a header."""


class Frames:
    """The frames of some socket reads, and room for them.

    Args:
        are_signed: whether the texts of signatures are read, too.

    Attributes:
        data: the bytes of all reads, one after another.
        rows: a row for each frame.
        places: int32[rows, 2 × FIELD_COUNT]: see ``fields``. Of commands they mean nothing.
        signed: SIGNED[], for each frame that is no command where its texts are, if signatures are read.
        signed_numbers: int64[frames, fields], the same.
        texts: these texts, UTF-8.
        runs: for each read where it is and its run, ``read_count`` of them.
        decoded: for each frame its command, if the body that reads decodes it; else None.
        table: the arrays of all this: see ``RUNS`` and the others.
    """

    def __init__(
        self, *, are_signed: bool = False, count: int = FRAMES_MAX, texts_size: int = TEXTS_SIZE
    ) -> None:
        self.are_signed = are_signed
        self.data = b""
        self.rows = (Frame * count)()
        self.places: NDArray[np.int32] = np.empty((count, 2 * FIELD_COUNT), np.int32)
        self.signed: NDArray[np.void] = np.zeros(count if are_signed else 0, SIGNED)
        self.signed_numbers: Longs = self.signed.view(np.int64).reshape(-1, len(Signed._fields))
        self.texts: Bytes = np.zeros(texts_size if are_signed else 0, np.uint8)
        runs = (ReadFrames * READS_MAX)()
        self.runs = list(runs)  # a structure that is taken from an array is made anew each time
        self.read_count = 0
        self.decoded: list[Command | None] = []
        self.table = ArrayTable(
            np.frombuffer(memoryview(runs).cast("B"), RUN),
            np.frombuffer(memoryview(self.rows).cast("B"), FRAME),
            self.places,
            self.signed,
            self.texts,
            np.zeros(ABOUT_SIZE, np.int64),
        )

    def begin(self, reads: Sequence[bytes]) -> None:
        """Begin with the bytes of some reads, READS_MAX at most, none of whose frames is read yet."""
        self.read_count = len(reads)
        self.decoded = []
        if len(reads) == 1:
            self.data = reads[0]
            self.runs[0].begin, self.runs[0].end = 0, len(self.data)
            return
        self.data = b"".join(reads)
        end = 0
        for run, data in zip(self.runs, reads, strict=False):
            run.begin = end
            end += len(data)
            run.end = end

    def commands(self, first: int, last: int) -> list[Command]:
        """Return the commands of some rows if all are decoded already, else none."""
        found = [command for command in self.decoded[first:last] if command is not None]
        return found if len(found) == last - first else []

    def begin_run(self, run: ReadFrames, first: int) -> None:
        """Begin with a read's next run at a row; nobody takes commands, so they are marked at once."""
        run.first = run.done = run.commands_end = run.last = first
        run.kind = FrameKind.COMMAND
        if first < run.end_row:
            row = self.rows[first]
            run.kind, run.last = row.kind, row.next
            if not run.kind:
                run.commands_end = run.last

    def request(self, number: int) -> Command:
        """Return the request of a row that is no command, with the values that its places say."""
        if self.decoded:
            command = self.decoded[number]
            assert command is not None
            return command
        row, data = self.rows[number], self.data
        fields: dict[str, str] = {}
        places = self.places[number].tolist()
        for column in range(FIELD_COUNT):
            begin = places[2 * column]
            if begin != ABSENT:
                value = data[begin : places[2 * column + 1]]
                is_escaped = not row.is_binary and b"\\" in value
                text = msgspec.json.decode(b'"%b"' % value, type=str) if is_escaped else value.decode()
                fields[NAMES[column]] = text
        return Command(
            row.code,
            row.opaque,
            row.flag,
            ext_fields=fields,
            body=data[row.body_at : row.end],
            serialize_type=SerializeType(row.is_binary),
        )


class FrameOps(Protocol):
    """The operation that reads frames."""

    def read(self, frames: Frames, /) -> int:
        """Read the frames of all reads, one row after the other, as far as there is room.

        Each read's run is begun, see ``begin_run``. Returns which kinds the runs have, as bits: 1 << kind.

        Only requests of ``fields.KINDS`` get another kind than COMMAND. One that is no send has neither a
        body nor a flag, and its texts have neither escapes nor characters outside ASCII; a send has a body.
        The compiled body takes a usual spelling only: no field twice, no escapes but in the properties of
        sends. The plain one takes some that it leaves; as a command each has the same answer. If signatures
        are read, a request is a command, too, whose signed texts cannot be told from its places, and one
        with ``NEEDS_RECORD_CODE``.
        """
        ...
