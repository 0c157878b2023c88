"""A connection of an intruder: bytes go out as they are, and what comes back is matched by opaque number."""

import asyncio
import struct
from collections.abc import Sequence
from contextlib import suppress
from enum import Enum
from typing import Final

from cometmq import TLS
from cometmq.errors import ProtocolError
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command, decode, encode

PATIENCE_S: Final = 60
END_OPAQUE: Final = 0x7FFF_FFFF
_LENGTH: Final = struct.Struct(">i")


class Unanswered(Enum):
    """What became of a request without an answer."""

    PASSED_OVER = "later ones were answered"
    LOST = "its connection was closed"


class Peer:
    """A connection that is opened again whenever the server has closed it."""

    def __init__(self, host: str, port: int, tls: TLS | None) -> None:
        self._address = (host, port)
        self._context = None if tls is None else tls.context()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def answers(self, frames: Sequence[bytes]) -> list[Command | Unanswered]:
        """Send frames, then one that is refused in any case; return the answers, or why there is none."""
        end = encode(Command(RequestCode.GET_MAX_OFFSET, END_OPAQUE))
        found: dict[int, Command] = {}
        is_whole = True
        try:
            async with asyncio.timeout(PATIENCE_S):
                reader, writer = await self._opened()
                for frame in frames:
                    is_whole = _is_whole(frame)
                    writer.write(frame)
                    if not is_whole:
                        break  # whatever follows would be the rest of it
                if is_whole:
                    writer.write(end)
                else:
                    writer.write_eof() if writer.can_write_eof() else writer.close()
                while END_OPAQUE not in found:
                    (length,) = _LENGTH.unpack(head := await reader.readexactly(_LENGTH.size))
                    answer = decode(head + await reader.readexactly(length))
                    found[answer.opaque] = answer
        except (OSError, asyncio.IncompleteReadError):
            await self.close()
        missing = Unanswered.PASSED_OVER if END_OPAQUE in found else Unanswered.LOST
        return [found.get(_opaque_of(frame), missing) for frame in frames]

    async def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            _, writer = self._streams
            self._streams = None
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _opened(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            host, port = self._address
            self._streams = await asyncio.open_connection(
                host, port, ssl=self._context, server_hostname=host if self._context else None
            )
        return self._streams


def _is_whole(frame: bytes) -> bool:
    return len(frame) > _LENGTH.size and len(frame) == _LENGTH.size + _LENGTH.unpack_from(frame)[0]


def _opaque_of(frame: bytes) -> int:
    """Return a request's opaque number; -1 if it cannot be decoded."""
    try:
        return decode(frame).opaque
    except ProtocolError:
        return -1
