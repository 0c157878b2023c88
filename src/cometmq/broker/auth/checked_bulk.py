"""Checks the requests that are handled in bulk, before anybody makes commands of them.

::

    a read   [ send ][ send ][ pull ][ heartbeat ][ send …
               │       │       │         └ a command, which net.guarded checks
               │       │       └ allowed: left to bulk handling, unchanged
               │       └ refused: answered here, and cut out of the read
               └ allowed

A frame is read here and again by bulk handling, so both must see the same fields in the same bytes: bulk
handling leaves each header that is unusual (a name twice, an escape in one) to the commands. What is like a
request that was allowed is never decoded here: a leaf operation reads what its signature covers.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final

from cometmq import kernels
from cometmq.access.repeats import Repeats
from cometmq.broker.requests.bulk import SEND_STARTS, is_likely_rare, starts_of
from cometmq.kernels.signed.rows import CODES, FRAME_END, KEY_AT, KEY_END, SignedRows
from cometmq.net.boundary import attempt
from cometmq.net.guarded import RequestCheck, recognise, refuse
from cometmq.net.session import Session
from cometmq.net.turn import BulkHandler, Read
from cometmq.wire.acl import ACCESS_KEY
from cometmq.wire.frame import (
    HEADER_LENGTH_MASK,
    PREFIX_SIZE,
    Command,
    SerializeType,
    decode_parts,
    frame_end,
)

_STARTS: Final = starts_of(*CODES)
_JSON_START: Final = b'{"code":'
_WORD: Final = Struct(">I")


class CheckedBulk:
    """Bulk handling behind a check (a ``net.turn.BulkHandler``)."""

    def __init__(self, bulk: BulkHandler, check: RequestCheck, repeats: Repeats) -> None:
        self._bulk = bulk
        self._check = check
        self._repeats = repeats
        self._rows = SignedRows()
        self._texts = self._rows.texts.data

    def take(self, reads: Sequence[Read]) -> None:
        """Check requests of ``CODES``, and leave those that are allowed to bulk handling."""
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
        address = session.peer[0]
        rows = iter(self._read_rows(data, position) if session.newcomers is None else ())
        while True:
            row = next(rows, None)
            end = frame_end(data, position) if row is None else row[FRAME_END]
            if end < 0:
                break
            if row is None or not self._is_repeat(data, row, address):
                command = _bulk_request(data, position, end)
                if command is None:
                    break
                if not self._is_allowed(session, command, row):
                    kept.append(data[begin:position])
                    begin = end
                    if session.closed:
                        begin = position = len(data)
                        break
            position = end
        if kept:
            kept.append(data[begin:])
            read.data = b"".join(kept)
            position -= len(data) - len(read.data)
        read.checked_end = position

    def _is_allowed(self, session: Session, command: Command, row: list[int] | None) -> bool:
        """Check a request: refuse it, or remember what its row, if it has one, was allowed."""
        address = session.peer[0]
        refusal = self._check.refusal(command, address)
        if refusal is not None:
            refuse(session, command, refusal, self._check)
            return False
        if row is not None:
            self._repeats.add(address, self._key(row), command.ext_fields.get(ACCESS_KEY, ""))
        recognise(session, command, self._check)
        return True

    def _read_rows(self, data: bytes, position: int) -> list[list[int]]:
        """Return the rows of the usual frames from a position on, whose texts stay until the next call."""
        count = kernels.current().signed.read(data, position, self._rows)
        rows: list[list[int]] = self._rows.rows[:count].tolist()
        return rows

    def _key(self, row: list[int]) -> bytes:
        return bytes(self._texts[row[KEY_AT] : row[KEY_END]])

    def _is_repeat(self, data: bytes, row: list[int], address: str) -> bool:
        """Return whether a row's frame is like one that was allowed, and is signed."""
        end, body, signed, signature, key, _ = row
        texts = self._texts
        parts = texts[signed:signature], data[body:end]
        return self._repeats.has(address, self._key(row), texts[signature:key], *parts)


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
    return None if command.is_response or command.code not in CODES else command


def _end_of_others(data: bytes, position: int) -> int:
    """Return where the frames at ``position`` end that must become commands: the first one in any case."""
    while True:
        end = frame_end(data, position)
        if end < 0:
            return len(data)
        if data.startswith(_STARTS, end + PREFIX_SIZE):
            return end
        position = end
