"""The bytes of requests that wait to be read, and of answers that wait to be sent."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from h2.errors import ErrorCodes
from h2.settings import SettingCodes
from hyperframe.frame import DataFrame, PingFrame, WindowUpdateFrame
from tests.proxy.http2.conftest import connected, headers_frame, only, request_frame, reset_frame, serving

from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.http2.streams import Outlet, RequestBytes
from cometmq.proxy.http2.unread import Requester, UnreadRequests
from cometmq.proxy.http2.unsent import Held, Recipient
from cometmq.proxy.settings import ProxySettings
from cometmq.proxy.transport import Call

NO_WINDOW = {int(SettingCodes.INITIAL_WINDOW_SIZE): 0}
PING = PingFrame(0, b"12345678").serialize()


class Acks:
    """The side of a connection that acknowledges bytes."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def ack(self, _stream: int, size: int) -> None:
        self.sizes.append(size)


def new_requester() -> Requester:
    return Requester(UnreadRequests(), lambda _: None)


def unread() -> tuple[RequestBytes, list[int]]:
    acks = Acks()
    return RequestBytes(cast(Any, acks), 1, new_requester()), acks.sizes


async def test_bytes_are_acknowledged_when_they_are_read() -> None:
    request, acks = unread()
    request.add(b"abcdef", 6)
    request.add(b"gh", 2)
    assert await request.peek(3) == b"abc" and acks == []
    assert await request.read(4, skipped=1) == b"bcde" and acks == [5]
    assert request.unacked_size() == 3


async def test_bytes_of_a_request_that_is_awaited_are_acknowledged_as_they_come() -> None:
    request, acks = unread()
    request.add(b"ab", 2)
    reading = asyncio.create_task(request.read(4))
    await asyncio.sleep(0)
    assert acks == [2]
    request.add(b"cdef", 4)
    assert await reading == b"abcd" and acks == [2, 2]
    assert await request.read(1) == b"e" and acks == [2, 2, 1]


async def test_padding_is_acknowledged_at_once() -> None:
    request, acks = unread()
    request.add(b"ab", 100)
    assert acks == [98]


async def test_a_request_that_ends_early_is_returned_as_far_as_it_goes() -> None:
    request, _ = unread()
    request.add(b"ab", 2)
    request.add(b"", 0)
    reading = asyncio.create_task(request.read(4))
    await asyncio.sleep(0)
    request.eof()
    assert await reading == b"ab"
    assert await request.peek(5) == b"" and await request.read(5) == b""


async def test_of_those_who_wait_for_the_connection_each_wakes_the_next() -> None:
    outlet = Outlet(cast(Any, None))
    order: list[int] = []

    async def wait(number: int) -> None:
        await outlet.turn()
        order.append(number)

    tasks = [asyncio.create_task(wait(number)) for number in range(3)]
    await asyncio.sleep(0)
    outlet.wake()
    await tasks[0]
    assert order == [0]
    tasks[1].cancel()
    await asyncio.wait(tasks[1:2])
    outlet.wake()
    await tasks[2]
    assert order == [0, 2]


async def test_of_one_that_is_cancelled_nothing_waits() -> None:
    outlet = Outlet(cast(Any, None))
    task = asyncio.create_task(outlet.turn())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert outlet._waiting == {}


async def test_one_that_is_cancelled_as_it_is_woken_wakes_another_one() -> None:
    outlet = Outlet(cast(Any, None))
    tasks = [asyncio.create_task(outlet.turn()) for _ in range(2)]
    await asyncio.sleep(0)
    outlet.wake()
    tasks[0].cancel()
    await tasks[1]


async def stream(request: pb.PullMessageRequest, _: Call) -> AsyncIterator[pb.PullMessageResponse]:
    yield pb.PullMessageResponse(message=pb.Message(body=b"x" * request.batch_size))


def pull(number: int, size: int) -> bytes:
    return headers_frame(number, rpc="PullMessage") + request_frame(
        number, pb.PullMessageRequest(batch_size=size)
    )


async def test_an_answer_is_sent_as_the_client_allows_it() -> None:
    async with serving({"PullMessage": stream}) as server, connected(server, NO_WINDOW) as client:
        client.send(pull(1, 100))
        client.send(PING)
        await client.next(PingFrame)
        received = b""
        while len(received) < 40:
            client.send(WindowUpdateFrame(1, 10).serialize())
            received += (await client.next(DataFrame, 1)).data
        client.send(WindowUpdateFrame(1, 10_000).serialize())
        assert (await client.trailers(1))["grpc-status"] == "0"
        await only(server._connections).calls.wait_closed()
        assert server._shared.unsent.bytes == 0


async def test_answers_that_wait_for_the_connections_window_are_sent_one_after_the_other() -> None:
    async with serving({"PullMessage": stream}) as server, connected(server) as client:
        client.send(*(pull(number, 60_000) for number in (1, 3, 5)))
        ended = 0
        while ended < 3:
            frame = await client.frame()
            assert frame is not None
            if isinstance(frame, DataFrame):
                client.send(WindowUpdateFrame(0, len(frame.data)).serialize())
            ended += "END_STREAM" in frame.flags


async def test_nothing_is_held_of_an_answer_whose_call_is_reset() -> None:
    async with serving({"PullMessage": stream}) as server, connected(server, NO_WINDOW) as client:
        client.send(pull(1, 1_000), PING)
        await client.next(PingFrame)
        connection, unsent = only(server._connections), server._shared.unsent
        while not unsent.bytes:
            client.send(PING)
            await client.next(PingFrame)
        client.send(reset_frame(1), PING)
        await client.next(PingFrame)
        await connection.calls.wait_closed()
        assert unsent.bytes == 0


async def test_answers_that_wait_for_the_socket_are_held_from_the_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Headers do not wait before them, whatever the socket takes: what waits there would not be counted."""
    count, size = 40, 1 << 20
    windows = {int(SettingCodes.INITIAL_WINDOW_SIZE): 1 << 30}

    async def beat(_: pb.HeartbeatRequest, __: Call) -> pb.HeartbeatResponse:
        return pb.HeartbeatResponse(status=pb.Status(message="x" * size))

    async with serving({"Heartbeat": beat}) as server, connected(server, windows) as client:
        unsent, held = server._shared.unsent, asyncio.Semaphore(0)
        add = unsent.add

        def counted(recipient: Recipient, size: int) -> Held:
            held.release()
            return add(recipient, size)

        monkeypatch.setattr(unsent, "add", counted)
        client.send(WindowUpdateFrame(0, 1 << 30).serialize())
        for number in range(1, 2 * count, 2):
            client.send(headers_frame(number) + request_frame(number, pb.HeartbeatRequest()))
        while unsent.bytes < count * size // 2:  # the rest is in the sockets
            await held.acquire()


async def test_when_unread_answers_are_too_many_the_connection_with_most_of_them_is_closed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = ProxySettings(unsent_bytes_total_max=65_536)
    async with (
        serving({"PullMessage": stream}, settings=settings) as server,
        connected(server, NO_WINDOW) as other,
        connected(server, NO_WINDOW) as client,
    ):
        other.send(pull(1, 20_000))
        client.send(*(pull(number, 20_000) for number in (1, 3, 5)))
        goodbye = await client.goodbye()
        assert goodbye is not None and goodbye.error_code == ErrorCodes.ENHANCE_YOUR_CALM
        other.send(WindowUpdateFrame(1, 30_000).serialize())
        assert (await other.trailers(1))["grpc-status"] == "0"
    assert "(unsentBytesTotalMax is 65536)" in caplog.text
