"""Reading the frames of requests in plain Python: which ones leaf operations read, and which they leave.

A request is read if its header is in a usual spelling: it has no flag and no remark, and if it is JSON no
escape and no character outside ASCII. Its members may come in any order, with blanks between them. A request
with a body is left, too.
"""

import re
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Final, TypeVar

from cometmq.errors import CometMQError
from cometmq.wire.frame import HEADER_LENGTH_MASK, PREFIX_SIZE, Command, decode_parts, frame_end
from cometmq.wire.headers import Header, parse

ReadT = TypeVar("ReadT")

_WORD: Final = Struct(">I")
_JSON_START: Final = b'{"code":'
_BINARY_CODE_MAX: Final = 2**15 - 1
"""Larger codes only JSON headers can hold."""


def read_frames(
    data: bytes, begin: int, end: int, room: int, read_one: Callable[[bytes, int, int], ReadT | None]
) -> tuple[list[ReadT], int, int]:
    """Read frames from ``begin`` on, up to the first that is left behind one that was read, or to ``end``.

    Args:
        room: the most frames that are read.
        read_one: reads the frame from one position to another; returns None if it is left.

    Returns:
        What was read; where it ends; and where the frames after it end that are left, the same position if
        there is no more room.
    """
    found: list[ReadT] = []
    position = found_end = begin
    while position < end and len(found) < room:
        one_end = frame_end(data, position)
        if not 0 <= one_end <= end:
            return found, found_end, end
        one = read_one(data, position, one_end)
        if one is not None:
            if position > found_end:  # there are others between
                break
            found.append(one)
            found_end = one_end
        position = one_end
    return found, found_end, position


class HeaderStarts:
    """How the headers of requests with some codes begin.

    Attributes:
        json: the beginnings of JSON headers, as the Java client writes them.
        binary: the beginnings of ROCKETMQ headers, for the codes that fit into them.
    """

    def __init__(self, *codes: int) -> None:
        self.json = tuple(b'{"code":%d,' % code for code in codes)
        self.binary = tuple(code.to_bytes(2, "big") for code in codes if code <= _BINARY_CODE_MAX)
        any_code = b"|".join(b"%d" % code for code in codes)
        self._json_start = re.compile(rb'{"code":\s*(?:%s)\b' % any_code)
        self._json_code = re.compile(rb'"code"\s*:\s*(?:%s)\b' % any_code)

    def may_be(self, data: bytes, begin: int, end: int, *, is_binary: int) -> bool:
        """Check, before it is decoded, whether a header may have one of the codes, in any spelling."""
        if is_binary:
            return data.startswith(self.binary, begin)
        if data.startswith(_JSON_START, begin):
            is_usual = data.startswith(self.json, begin)
            return is_usual or self._json_start.match(data, begin, end) is not None
        return self._json_code.search(data, begin, end) is not None


class RequestFrames:
    """The frames of some requests.

    Args:
        headers: the type of the header for each request code.
    """

    def __init__(self, headers: Mapping[int, type[Header]]) -> None:
        self._headers = headers
        self._starts = HeaderStarts(*headers)

    def request(self, data: bytes, position: int, end: int) -> tuple[Command, Header] | None:
        """Decode the frame from ``position`` to ``end``; None if it is left, or another request."""
        begin = position + PREFIX_SIZE
        is_binary = data[position + 4]
        if not self._starts.may_be(data, begin, end, is_binary=is_binary):
            return None
        (word,) = _WORD.unpack_from(data, position + 4)
        if begin + (word & HEADER_LENGTH_MASK) != end:
            return None  # it has a body
        text = data[begin:end]
        if not is_binary and (b"\\" in text or not text.isascii()):
            return None
        try:
            command = decode_parts(word, text, b"")
            if command.code not in self._headers or command.flag or command.remark:
                return None
            return command, parse(self._headers[command.code], command.ext_fields)
        except CometMQError:
            return None  # as a command it is refused
