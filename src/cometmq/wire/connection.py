"""The reading side of a connection: received bytes in, complete commands out.

The writing side has no state: send the result of :func:`cometmq.wire.frame.encode`.
"""

import struct
from typing import Final

from cometmq.errors import ProtocolError
from cometmq.wire.frame import (
    HEADER_LENGTH_MASK,
    HEADER_LENGTH_MAX,
    PREFIX_SIZE,
    Command,
    check_length,
    check_prefix,
    decode_parts,
)

JOIN_MAX: Final = 1 << 16
"""Largest part of a frame, in bytes, that ``joined`` copies; larger ones wait for the rest of the frame."""

_PREFIX: Final = struct.Struct(">iI")
_LENGTH: Final = struct.Struct(">i")


class NotAFrame(ProtocolError):
    """Bytes of a stream are no frame.

    Attributes:
        commands: those before them that were complete in the same read.
    """

    def __init__(self, reason: str, commands: list[Command]) -> None:
        super().__init__(reason)
        self.commands = commands


class FrameReader:
    """Split a stream into frames and decode them.

    It holds at most one unfinished frame: LENGTH and HEADER_LENGTH are checked as soon as they are
    received, so a peer cannot make it hold more than ``FRAME_LENGTH_MAX`` bytes. After a ``NotAFrame`` the
    rest of the stream cannot be decoded: close the connection.

    Args:
        header_length_max: largest HEADER_LENGTH that is accepted, in bytes.

    Attributes:
        unfinished: the bytes of the unfinished frame.
    """

    def __init__(self, header_length_max: int = HEADER_LENGTH_MAX) -> None:
        self._header_length_max = header_length_max
        self.unfinished = bytearray()
        self._size_wanted = PREFIX_SIZE  # of the unfinished frame: grows once its LENGTH is known

    def receive_data(self, data: bytes) -> list[Command]:
        """Add the bytes of a read; return the commands that are complete now, in order.

        Raises:
            NotAFrame: the stream goes on with bytes that are none.
        """
        commands: list[Command] = []
        try:
            self._receive(data, commands)
        except ProtocolError as error:
            raise NotAFrame(str(error), commands) from None
        return commands

    def _receive(self, data: bytes, commands: list[Command]) -> None:
        """Append the commands that are complete now. Raises ProtocolError at what is no frame."""
        position = 0
        if self.unfinished:
            position = self._finish_frame(data, commands)
            if self.unfinished:
                return
        end = len(data)
        while end - position >= PREFIX_SIZE:
            length, header_word = _PREFIX.unpack_from(data, position)
            header_length = check_prefix(length, header_word, self._header_length_max)
            frame_end = position + 4 + length
            if frame_end > end:
                self._size_wanted = 4 + length
                break
            header_at = position + PREFIX_SIZE
            body_at = header_at + header_length
            commands.append(decode_parts(header_word, data[header_at:body_at], data[body_at:frame_end]))
            position = frame_end
        if position < end:
            self._keep(data[position:])

    def joined(self, data: bytes) -> bytes:
        """Return the unfinished bytes followed by ``data``, and forget them.

        A long part of a frame is held until the frame is complete; until then the result is empty.
        """
        if not self.unfinished:
            return data
        if len(self.unfinished) <= JOIN_MAX:
            joined = bytes(self.unfinished) + data
        else:
            self.unfinished += data
            if len(self.unfinished) < self._size_wanted:
                return b""
            joined = bytes(self.unfinished)
        self.unfinished = bytearray()
        self._size_wanted = PREFIX_SIZE
        return joined

    def eof(self) -> bool:
        """Return whether the stream, which has ended, ended between two frames and not within one."""
        return not self.unfinished

    @property
    def unfinished_size(self) -> int:
        """Number of bytes held of an unfinished frame."""
        return len(self.unfinished)

    @property
    def unfinished_length(self) -> int:
        """Length of the unfinished frame in bytes once complete, if it is known; else 0."""
        return self._size_wanted if len(self.unfinished) >= PREFIX_SIZE else 0

    def _keep(self, data: bytes) -> None:
        """Add ``data`` to an unfinished frame, and check its LENGTH once it is known."""
        self.unfinished += data
        if len(self.unfinished) >= _LENGTH.size:
            check_length(_LENGTH.unpack_from(self.unfinished)[0])

    def _finish_frame(self, data: bytes, commands: list[Command]) -> int:
        """Add the part of ``data`` that belongs to the unfinished frame; return its size in bytes."""
        unfinished = self.unfinished
        position = 0
        if len(unfinished) < PREFIX_SIZE:
            position = min(PREFIX_SIZE - len(unfinished), len(data))
            self._keep(data[:position])
            if len(unfinished) < PREFIX_SIZE:
                return position
            length, header_word = _PREFIX.unpack_from(unfinished)
            check_prefix(length, header_word, self._header_length_max)
            self._size_wanted = 4 + length
        missing = self._size_wanted - len(unfinished)
        if missing > len(data) - position:
            unfinished += data[position:] if position else data
            return len(data)
        unfinished += data[position : position + missing]
        length, header_word = _PREFIX.unpack_from(unfinished)
        body_at = PREFIX_SIZE + (header_word & HEADER_LENGTH_MASK)
        with memoryview(unfinished) as view:
            header, body = bytes(view[PREFIX_SIZE:body_at]), bytes(view[body_at:])
        commands.append(decode_parts(header_word, header, body))
        self.unfinished = bytearray()
        self._size_wanted = PREFIX_SIZE
        return position + missing
