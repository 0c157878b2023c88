"""The reading side of a connection: bytes as they arrive in, whole commands out.

The writing side needs no state: send :func:`cometmq.wire.frame.encode` of a command.
"""

import struct
from typing import Final

from cometmq.wire.frame import PREFIX_SIZE, Command, check_length, check_prefix, decode_parts

JOIN_MAX: Final = 1 << 16
"""Longer parts of a frame are not copied again and again while the rest of it arrives."""

_PREFIX: Final = struct.Struct(">iI")
_LENGTH: Final = struct.Struct(">i")


class FrameReader:
    """Cuts a stream into frames and reads them.

    It holds at most one unfinished frame: LENGTH and HEADER_LENGTH are judged as soon as they are
    there, so a peer cannot make it keep more than ``FRAME_LENGTH_MAX`` bytes. After a
    :class:`~cometmq.errors.ProtocolError` the stream cannot be understood any more: close the connection.
    """

    def __init__(self) -> None:
        self._unfinished = bytearray()
        self._size_wanted = PREFIX_SIZE  # of the unfinished frame: grows when its LENGTH is known

    def receive_data(self, data: bytes) -> list[Command]:
        """Take what a read gave and return the commands that are whole by now, in order.

        Raises:
            ProtocolError: the stream is not frames; the commands of this read are dropped with it.
        """
        commands: list[Command] = []
        position = 0
        if self._unfinished:
            position = self._finish_frame(data, commands)
            if self._unfinished:
                return commands
        end = len(data)
        while end - position >= PREFIX_SIZE:
            length, header_word = _PREFIX.unpack_from(data, position)
            header_length = check_prefix(length, header_word)
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
        return commands

    def joined(self, data: bytes) -> bytes:
        """Give ``data`` behind what is unfinished, which is held no longer.

        A long part of a frame is held until the rest of it has come: until then nothing is given.
        """
        if not self._unfinished:
            return data
        if len(self._unfinished) <= JOIN_MAX:
            joined = bytes(self._unfinished) + data
        else:
            self._unfinished += data
            if len(self._unfinished) < self._size_wanted:
                return b""
            joined = bytes(self._unfinished)
        self._unfinished = bytearray()
        self._size_wanted = PREFIX_SIZE
        return joined

    def eof(self) -> bool:
        """Tell, when the stream has ended, whether it ended between two frames; if not, one was cut."""
        return not self._unfinished

    @property
    def unfinished_size(self) -> int:
        """How many bytes of an unfinished frame are held."""
        return len(self._unfinished)

    @property
    def unfinished_length(self) -> int:
        """How long an unfinished frame will be when all of it is there, if that is known; else 0."""
        return self._size_wanted if len(self._unfinished) >= PREFIX_SIZE else 0

    def _keep(self, data: bytes) -> None:
        """Add ``data`` to an unfinished frame that was not yet judged."""
        self._unfinished += data
        if len(self._unfinished) >= _LENGTH.size:
            check_length(_LENGTH.unpack_from(self._unfinished)[0])

    def _finish_frame(self, data: bytes, commands: list[Command]) -> int:
        """Add ``data`` to the unfinished frame, as far as it belongs to it; give how much did."""
        unfinished = self._unfinished
        position = 0
        if len(unfinished) < PREFIX_SIZE:
            position = min(PREFIX_SIZE - len(unfinished), len(data))
            self._keep(data[:position])
            if len(unfinished) < PREFIX_SIZE:
                return position
            length, header_word = _PREFIX.unpack_from(unfinished)
            check_prefix(length, header_word)
            self._size_wanted = 4 + length
        missing = self._size_wanted - len(unfinished)
        if missing > len(data) - position:
            unfinished += data[position:] if position else data
            return len(data)
        unfinished += data[position : position + missing]
        length, header_word = _PREFIX.unpack_from(unfinished)
        body_at = PREFIX_SIZE + (header_word & 0xFFFFFF)
        with memoryview(unfinished) as view:
            header, body = bytes(view[PREFIX_SIZE:body_at]), bytes(view[body_at:])
        commands.append(decode_parts(header_word, header, body))
        self._unfinished = bytearray()
        self._size_wanted = PREFIX_SIZE
        return position + missing
