"""A client that sends frames of HTTP/2 one by one, as no library would."""

import asyncio
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import hpack
from hyperframe.frame import DataFrame, Frame, GoAwayFrame, HeadersFrame, RstStreamFrame, SettingsFrame

from cometmq.proxy.transport import SERVICE, GrpcServer

LIMIT_S = 60
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def headers_frame(
    stream: int, *more: tuple[str, str], rpc: str = "Heartbeat", ends: bool = False, without: str = ""
) -> bytes:
    """Build the frame that begins a call, with more headers, or others, and without one."""
    named = {
        ":method": "POST",
        ":scheme": "http",
        ":path": f"/{SERVICE}/{rpc}",
        "te": "trailers",
        "content-type": "application/grpc",
    }
    named |= dict(more)
    named.pop(without, None)
    encoded = hpack.Encoder().encode(list(named.items()), huffman=False)
    flags = ["END_HEADERS", *(["END_STREAM"] if ends else [])]
    return HeadersFrame(stream, encoded, flags=flags).serialize()


def data_frame(stream: int, data: bytes, *, ends: bool = True) -> bytes:
    return DataFrame(stream, data, flags=["END_STREAM"] if ends else []).serialize()


def request_frame(stream: int, request: Any, *, ends: bool = True) -> bytes:
    """Build the frame of a whole request."""
    data = request.SerializeToString()
    return data_frame(stream, struct.pack(">?I", False, len(data)) + data, ends=ends)


def reset_frame(stream: int) -> bytes:
    return RstStreamFrame(stream, error_code=8).serialize()


UNKNOWN_FRAME = b"\0\0\7\x10\0\0\0\0\0\0\0\0\1u=1"
"""A PRIORITY_UPDATE (RFC 9218)."""


class RawClient:
    """A connection to a server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._decoder = hpack.Decoder()
        self._headers: dict[str, str] = {}  # of the last frame that had some

    def send(self, *frames: bytes) -> None:
        self._writer.write(b"".join(frames))

    async def frame(self) -> Frame | None:
        """Return the next frame; None when the server has closed the connection."""
        try:
            head = await self._reader.readexactly(9)
            frame, length = Frame.parse_frame_header(memoryview(head))
            frame.parse_body(memoryview(await self._reader.readexactly(length)))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        if isinstance(frame, HeadersFrame):
            self._headers = {str(name): str(value) for name, value in self._decoder.decode(frame.data)}
        return frame

    async def next(self, kind: type[Frame], stream: int = 0) -> Any:
        """Return the next frame of a kind on a stream."""
        while (frame := await self.frame()) is not None:
            if isinstance(frame, kind) and frame.stream_id == stream:
                return frame
        raise AssertionError(f"closed before a {kind.__name__}")

    async def trailers(self, stream: int) -> dict[str, str]:
        """Return all headers of a call's answer."""
        named: dict[str, str] = {}
        while (frame := await self.frame()) is not None:
            if isinstance(frame, HeadersFrame) and frame.stream_id == stream:
                named |= self._headers
                if "END_STREAM" in frame.flags:
                    return named
        raise AssertionError("closed before the trailers")

    async def goodbye(self) -> GoAwayFrame | None:
        """Read to the end; return the frame by which the server says why it closes."""
        last = None
        while (frame := await self.frame()) is not None:
            if isinstance(frame, GoAwayFrame):
                last = frame
        return last


@asynccontextmanager
async def connected(server: GrpcServer, settings: dict[int, int] | None = None) -> AsyncIterator[RawClient]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    acknowledged = SettingsFrame(0, flags=["ACK"]).serialize()
    writer.write(PREFACE + SettingsFrame(0, settings=settings or {}).serialize() + acknowledged)
    try:
        async with asyncio.timeout(LIMIT_S):
            yield RawClient(reader, writer)
    finally:
        writer.close()


@asynccontextmanager
async def serving(rpcs: dict[str, Any], **options: Any) -> AsyncIterator[GrpcServer]:
    server = GrpcServer(rpcs, **options)
    await server.start("127.0.0.1", 0)
    try:
        yield server
    finally:
        await server.stop()


def only(connections: Sequence[Any] | set[Any]) -> Any:
    (one,) = connections
    return one
