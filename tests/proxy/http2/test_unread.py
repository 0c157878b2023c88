"""What is held of requests that nobody reads."""

import asyncio
from typing import Any, cast

import pytest
from h2.errors import ErrorCodes
from tests.proxy.http2.conftest import connected, data_frame, headers_frame, request_frame, serving

from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.http2 import unread as module
from cometmq.proxy.http2.streams import RequestBytes
from cometmq.proxy.http2.unread import Requester, UnreadRequests
from cometmq.proxy.transport import Call, Exchange

MOST = 30_000
PIECE = bytes(10_000)


class Connection:
    """Acknowledges bytes, and may be closed."""

    def __init__(self, unread: UnreadRequests) -> None:
        self.reasons: list[str] = []
        self.requester = Requester(unread, self.reasons.append)

    def ack(self, _stream: int, _size: int) -> None:
        pass

    def request(self, *pieces: bytes) -> RequestBytes:
        """Return the bytes of a new call, of which some have come."""
        made = RequestBytes(cast(Any, self), 1, self.requester)
        for piece in pieces:
            made.add(piece, len(piece))
        return made


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UNREAD_BYTES_MAX", MOST)


async def test_what_is_read_or_awaited_or_dropped_is_not_unread() -> None:
    unread = UnreadRequests()
    connection = Connection(unread)
    read, awaited, dropped = (connection.request(PIECE) for _ in range(3))
    assert unread.bytes == connection.requester.bytes == MOST
    await read.read(4_000)
    reading = asyncio.create_task(awaited.read(2 * len(PIECE)))
    await asyncio.sleep(0)
    dropped.drop_rest()
    dropped.add(PIECE, len(PIECE))
    assert unread.bytes == 6_000
    assert dropped.unacked_size() == 2 * len(PIECE)
    awaited.eof()
    assert await reading == PIECE
    assert read.unacked_size() == 6_000 and unread.bytes == 0 and connection.reasons == []


def test_the_connection_of_which_most_is_unread_is_closed_for_others() -> None:
    unread = UnreadRequests()
    first, second, third = (Connection(unread) for _ in range(3))
    first.request(PIECE)
    call = second.request(PIECE, PIECE)
    third.request(b"x")
    assert second.reasons == [
        "20000 bytes of its requests wait unread, of all connections 30001, at most 30000 may"
    ]
    assert unread.bytes == len(PIECE) + 1
    call.add(PIECE, len(PIECE))
    assert call.unacked_size() == 3 * len(PIECE) and unread.bytes == len(PIECE) + 1
    third.request(PIECE, PIECE)
    assert third.reasons and not first.reasons


async def test_streams_that_send_what_is_not_read_keep_nobody_out(caplog: pytest.LogCaptureFixture) -> None:
    async def ignore(_: Exchange, __: Call) -> None:
        await asyncio.Event().wait()

    async def beat(_: pb.HeartbeatRequest, __: Call) -> pb.HeartbeatResponse:
        return pb.HeartbeatResponse()

    async with (
        serving({"Telemetry": ignore, "Heartbeat": beat}) as server,
        connected(server) as greedy,
        connected(server) as other,
    ):
        greedy.send(headers_frame(1, rpc="Telemetry"))
        for _ in range(5):
            greedy.send(data_frame(1, PIECE, ends=False))
        goodbye = await greedy.goodbye()
        assert goodbye is not None and goodbye.error_code == ErrorCodes.ENHANCE_YOUR_CALM
        other.send(headers_frame(1) + request_frame(1, pb.HeartbeatRequest()))
        assert (await other.trailers(1))["grpc-status"] == "0"
    assert "bytes of its requests wait unread" in caplog.text
