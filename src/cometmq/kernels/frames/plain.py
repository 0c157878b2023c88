"""Reading frames in plain Python: the definition, which serves until the compiled operation is loaded."""

import re
from struct import Struct
from typing import Final

import numpy as np

from cometmq.errors import CometMQError
from cometmq.kernels.frames.fields import KINDS, FrameKind
from cometmq.kernels.frames.rows import (
    KEY_FIELDS,
    NEEDS_RECORD_CODE,
    NO_TEXT,
    SPARE,
    UNSIGNED,
    Frames,
    Signed,
)
from cometmq.wire.acl import SIGNATURE, signed_content
from cometmq.wire.frame import (
    HEADER_LENGTH_MASK,
    ONEWAY_FLAG,
    PREFIX_SIZE,
    Command,
    decode_parts,
    frame_end,
)

_WORD: Final = Struct(">I")
_NUMBER: Final = Struct(">i")
_BINARY_CODE_MAX: Final = 2**15 - 1
"""Larger codes only JSON headers can hold."""
_BINARY_STARTS: Final = tuple(code.to_bytes(2, "big") for code in KINDS if code <= _BINARY_CODE_MAX)
_JSON_STARTS: Final = tuple(b'{"code":%d,' % code for code in KINDS)
"""How headers begin as the Java client writes them."""
_ANY_JSON_START: Final = b'{"code":'
_CODES: Final = b"|".join(b"%d" % code for code in KINDS)
_JSON_START: Final = re.compile(rb'{"code":\s*(?:%s)\b' % _CODES)
_JSON_CODE: Final = re.compile(rb'"code"\s*:\s*(?:%s)\b' % _CODES)


class PlainFrames:
    """The plain body of the operation (a ``rows.FrameOps``)."""

    def read(self, frames: Frames, /) -> int:
        """Read the frames of all reads: see ``rows.FrameOps.read``."""
        data, rows, decoded = frames.data, frames.rows, frames.decoded
        texts, kinds = _Texts(frames), 0
        for run in frames.runs[: frames.read_count]:
            read_end = run.end
            first, position, is_cut = len(decoded), run.begin, False
            while len(decoded) < len(rows):
                end = frame_end(data, position)
                if not 0 <= end <= read_end:
                    is_cut = position < read_end
                    break
                command = _request(data, position, end)
                row = rows[len(decoded)]
                row.begin, row.end, row.kind = position, end, FrameKind.COMMAND
                if command is not None:
                    row.kind = KINDS[command.code][0]
                    row.code, row.flag, row.opaque = command.code, command.flag, command.opaque
                    row.is_binary, row.body_at = command.serialize_type, end - len(command.body)
                    if frames.are_signed:
                        if texts.is_full(row.body_at - position):
                            break
                        if not texts.put(len(decoded), command, row.body_at, end):
                            row.kind, command = FrameKind.COMMAND, None
                decoded.append(command)
                position = end
            _link(frames, first)
            run.end_row, run.checked = len(decoded), first
            run.frames_end, run.has_rest, run.is_whole = position, is_cut, position == read_end
            frames.begin_run(run, first)
            kinds |= 1 << run.kind
        return kinds


def _link(frames: Frames, first: int) -> None:
    """Set where the rows of the same kind end, from each of the last read on."""
    rows, last = frames.rows, len(frames.decoded)
    end = last
    for number in range(last - 1, first - 1, -1):
        if number + 1 < last and rows[number].kind != rows[number + 1].kind:
            end = number + 1
        rows[number].next = end


def _request(data: bytes, position: int, end: int) -> Command | None:
    """Decode the frame from ``position`` to ``end``; None if it is a command."""
    begin = position + PREFIX_SIZE
    (word,) = _WORD.unpack_from(data, position + 4)
    is_binary, body_at = word > HEADER_LENGTH_MASK, begin + (word & HEADER_LENGTH_MASK)
    if not _may_be_one(data, begin, body_at, is_binary=is_binary):
        return None
    header = data[begin:body_at]
    try:
        command = decode_parts(word, header, data[body_at:end])
    except CometMQError:
        return None  # as a command it is refused
    if command.code not in KINDS:
        return None
    if KINDS[command.code][0] is FrameKind.SEND:
        return command if body_at < end and not command.flag & ~ONEWAY_FLAG else None
    is_usual = not command.flag and not command.remark and body_at == end
    return command if is_usual and (is_binary or (header.isascii() and b"\\" not in header)) else None


def _may_be_one(data: bytes, begin: int, end: int, *, is_binary: bool) -> bool:
    """Check, before it is decoded, whether a header may be of a request of ``KINDS``, in any spelling."""
    if is_binary:
        return data.startswith(_BINARY_STARTS, begin)
    if data.startswith(_ANY_JSON_START, begin):
        is_usual = data.startswith(_JSON_STARTS, begin)
        return is_usual or _JSON_START.match(data, begin, end) is not None
    return _JSON_CODE.search(data, begin, end) is not None


class _Texts:
    """Writes the signed texts of frames."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self._end = 0

    def is_full(self, size: int) -> bool:
        """Return whether the texts of a frame have to wait: its prefix and header are of this size."""
        return self._end > 0 and len(self._frames.texts) - self._end < 2 * size + SPARE

    def put(self, number: int, command: Command, body_at: int, end: int) -> bool:
        """Write what is signed of a command, its signature and its key; return False if that is unusual."""
        fields, frames = command.ext_fields, self._frames
        if not fields.keys() - {SIGNATURE} or UNSIGNED in fields or command.code == NEEDS_RECORD_CODE:
            return False
        key = [_NUMBER.pack(command.code), _NUMBER.pack(command.flag)]
        try:
            for name in KEY_FIELDS:
                text = fields[name].encode() if name in fields else None
                key.append(_NUMBER.pack(NO_TEXT if text is None else len(text)))
                key.append(text or b"")
            signature = fields.get(SIGNATURE, "").encode()
        except UnicodeError:
            return False
        # Without the field that they add after signing, clients of all versions sign alike.
        places = [self._end]
        for part in (signed_content(fields, b"", command.version), signature, b"".join(key)):
            places.append(places[-1] + len(part))
            if places[-1] > len(frames.texts):
                return False
            frames.texts[places[-2] : places[-1]] = np.frombuffer(part, np.uint8)
        frames.signed[number] = Signed(body_at, end, *places)
        self._end = places[-1]
        return True
