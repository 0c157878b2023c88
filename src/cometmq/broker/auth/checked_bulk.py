"""Checks the requests that are handled in bulk, before anybody makes commands of them.

::

    a read   [ send ][ send ][ pull ][ heartbeat ][ send …
               │       │       │         └ a command, which net.guarded checks
               │       │       └ allowed: left to bulk handling, unchanged
               │       └ refused: answered here, and cut out of the read
               └ allowed

A frame is decoded here and read again by bulk handling, so both must see the same fields in the same bytes:
bulk handling leaves each header that is unusual (a name twice, an escape in one) to the commands.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final

from cometmq.broker.requests.bulk import SEND_STARTS, is_likely_rare, starts_of
from cometmq.net.boundary import attempt
from cometmq.net.guarded import RequestCheck, recognise, refuse
from cometmq.net.turn import BulkHandler, Read
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import (
    HEADER_LENGTH_MASK,
    PREFIX_SIZE,
    Command,
    SerializeType,
    decode_parts,
    frame_end,
)
from cometmq.wire.requests import SENDS

_CODES: Final = frozenset(
    (
        *SENDS,
        RequestCode.PULL_MESSAGE,
        RequestCode.LITE_PULL_MESSAGE,
        RequestCode.QUERY_MESSAGE,
        RequestCode.ACK_MESSAGE,
    )
)
"""All that bulk handling takes but for VIEW_MESSAGE_BY_ID, which is checked again by what it finds."""
_STARTS: Final = starts_of(*_CODES)
_JSON_START: Final = b'{"code":'
_WORD: Final = Struct(">I")


class CheckedBulk:
    """Bulk handling behind a check (a ``net.turn.BulkHandler``)."""

    def __init__(self, bulk: BulkHandler, check: RequestCheck) -> None:
        self._bulk = bulk
        self._check = check

    def take(self, reads: Sequence[Read]) -> None:
        """Check requests of ``_CODES``, and leave those that are allowed to bulk handling."""
        passed: list[Read] = []
        parts: list[tuple[Read, Read]] = []
        for read in reads:
            is_send = read.data.startswith(SEND_STARTS, read.position + PREFIX_SIZE)
            if is_send and is_likely_rare(read.session):
                read.commands_end = len(read.data)
                continue
            attempt(read.session, (), self._check_frames, read)
            if read.checked_end <= read.position:
                read.commands_end = _end_of_others(read.data, read.position)
            elif read.checked_end == len(read.data):
                passed.append(read)
            else:
                part = Read(read.session, read.data[: read.checked_end])
                part.position = read.position
                parts.append((read, part))
                passed.append(part)
        try:
            if passed:
                self._bulk.take(passed)
        finally:
            for read, part in parts:
                read.position, read.commands_end = part.position, part.commands_end
        for read, part in parts:
            read.commands = part.commands

    def _check_frames(self, read: Read) -> None:
        """Check the frames up to the first that must become a command; cut the refused ones out."""
        data, session, position = read.data, read.session, max(read.position, read.checked_end)
        kept: list[bytes] = []
        begin = 0
        is_newcomer = session.newcomers is not None
        while (end := frame_end(data, position)) >= 0:
            command = _bulk_request(data, position, end)
            if command is None:
                break
            refusal = self._check.refusal(command, session.peer[0])
            if refusal is not None:
                kept.append(data[begin:position])
                refuse(session, command, refusal, self._check)
                begin = end = len(data) if session.closed else end
            elif is_newcomer:
                recognise(session, command, self._check)
            position = end
        if kept:
            kept.append(data[begin:])
            read.data = b"".join(kept)
            position -= len(data) - len(read.data)
        read.checked_end = position


def _bulk_request(data: bytes, position: int, end: int) -> Command | None:
    """Decode the frame from ``position`` to ``end``; None if it is no request that bulk handling takes.

    Raises ProtocolError.
    """
    (word,) = _WORD.unpack_from(data, position + 4)
    header = position + PREFIX_SIZE
    is_known = word >> 24 == SerializeType.ROCKETMQ or data.startswith(_JSON_START, header)
    if is_known and not data.startswith(_STARTS, header):
        return None
    body = header + (word & HEADER_LENGTH_MASK)
    command = decode_parts(word, data[header:body], data[body:end])
    return None if command.is_response or command.code not in _CODES else command


def _end_of_others(data: bytes, position: int) -> int:
    """Return where the frames at ``position`` end that must become commands: the first one in any case."""
    while True:
        end = frame_end(data, position)
        if end < 0:
            return len(data)
        if data.startswith(_STARTS, end + PREFIX_SIZE):
            return end
        position = end
