"""The calls of a connection: those that are reset, those that are refused, and what remains of them."""

import asyncio
import gc
import logging
import weakref
from typing import Any

import pytest
from h2.errors import ErrorCodes
from hyperframe.frame import (
    DataFrame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    WindowUpdateFrame,
)
from tests.proxy.http2.conftest import (
    UNKNOWN_FRAME,
    connected,
    data_frame,
    headers_frame,
    only,
    request_frame,
    reset_frame,
    serving,
)

from cometmq.net.newcomers import NewcomerLimits
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy import transport
from cometmq.proxy.connection import NEWCOMER_LIMITS
from cometmq.proxy.http2 import calls
from cometmq.proxy.settings import ProxySettings
from cometmq.proxy.transport import Call

BEAT = pb.HeartbeatRequest()
REFUSED = pb.HeartbeatResponse(status=pb.Status(code=pb.UNAUTHORIZED))


async def beat(_: pb.HeartbeatRequest, __: Call) -> pb.HeartbeatResponse:
    return pb.HeartbeatResponse()


class Held:
    """An rpc whose work ends when it is let, even after it was cancelled."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.begun = asyncio.Semaphore(0)

    async def beat(self, _: pb.HeartbeatRequest, __: Call) -> pb.HeartbeatResponse:
        self.begun.release()
        waiting = asyncio.ensure_future(self.gate.wait())
        try:
            await asyncio.shield(waiting)
        except asyncio.CancelledError:
            await waiting
            raise
        return pb.HeartbeatResponse()


def rapid(number: int) -> bytes:
    return headers_frame(number) + request_frame(number, BEAT) + reset_frame(number)


async def test_who_resets_too_many_calls_loses_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    settings = ProxySettings(resets_max=10, resets_per_second=1)
    async with serving({"Heartbeat": beat}, settings=settings) as server, connected(server) as client:
        client.send(*(rapid(number) for number in range(1, 200, 2)))
        goodbye = await client.goodbye()
    assert goodbye is not None and goodbye.error_code == ErrorCodes.ENHANCE_YOUR_CALM
    assert "more than 10 resets of calls at once, and 1 a second (resetsMax)" in caplog.text


@pytest.mark.parametrize("fault", ["too large a window", "data after its end"])
async def test_who_has_the_proxy_reset_too_many_calls_loses_the_connection(
    caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    """The known name of that is MadeYouReset (CVE-2025-8671)."""

    def made(number: int) -> bytes:
        wrong = WindowUpdateFrame(number, (1 << 31) - 1).serialize()
        return headers_frame(number, ends=True) + (wrong if "window" in fault else data_frame(number, b"x"))

    settings = ProxySettings(resets_max=10, resets_per_second=1)
    async with serving({"Heartbeat": beat}, settings=settings) as server, connected(server) as client:
        client.send(*(made(number) for number in range(1, 200, 2)))
        await client.goodbye()
    assert "more than 10 resets of calls at once, and 1 a second (resetsMax)" in caplog.text


async def test_who_resets_some_calls_goes_on() -> None:
    async with serving({"Heartbeat": beat}) as server, connected(server) as client:
        client.send(*(rapid(number) for number in range(1, 200, 2)))
        client.send(headers_frame(201), request_frame(201, BEAT))
        assert (await client.trailers(201))["grpc-status"] == "0"


async def test_nothing_is_kept_of_calls_that_are_reset() -> None:
    """Also not of those whose work was cancelled before it began."""
    async with serving({"Heartbeat": beat}) as server, connected(server) as client:
        client.send(*(rapid(number) for number in range(1, 200, 2)))
        client.send(PingFrame(0, b"12345678").serialize())
        await client.next(PingFrame)
        client.send(headers_frame(201), request_frame(201, BEAT))
        await client.trailers(201)
        connection = only(server._connections)
        await connection.calls.wait_closed()
        client.send(PingFrame(0, b"12345678").serialize())
        await client.next(PingFrame)
        assert connection.calls.under_way == 0
        assert connection.processor.streams == {}


async def test_a_call_that_is_reset_is_freed_without_a_collection_of_garbage() -> None:
    """What survives one is frozen, and then not looked at for an hour."""
    begun, freed = asyncio.Event(), asyncio.Event()

    async def never(_: pb.HeartbeatRequest, __: Call) -> pb.HeartbeatResponse:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with serving({"Heartbeat": never}) as server, connected(server) as client:
        gc.disable()
        try:
            client.send(headers_frame(1, ("grpc-timeout", "1H")), request_frame(1, BEAT))
            await begun.wait()
            weakref.finalize(only(server._connections).processor.streams[1], freed.set)
            client.send(reset_frame(1))
            await freed.wait()
        finally:
            gc.enable()


async def test_a_call_that_is_reset_is_under_way_until_its_work_has_ended() -> None:
    held, settings = Held(), ProxySettings(calls_max=2)
    async with serving({"Heartbeat": held.beat}, settings=settings) as server, connected(server) as client:
        for number in (1, 3):
            client.send(headers_frame(number), request_frame(number, BEAT))
            await held.begun.acquire()
        client.send(reset_frame(1), reset_frame(3), headers_frame(5), request_frame(5, BEAT))
        refusal = await client.next(RstStreamFrame, 5)
        assert refusal.error_code == ErrorCodes.REFUSED_STREAM
        held.gate.set()
        await only(server._connections).calls.wait_closed()
        client.send(headers_frame(7), request_frame(7, BEAT))
        assert (await client.trailers(7))["grpc-status"] == "0"


async def test_who_has_too_many_calls_refused_loses_the_connection() -> None:
    held = Held()
    settings = ProxySettings(calls_max=1, resets_max=5, resets_per_second=1)
    async with serving({"Heartbeat": held.beat}, settings=settings) as server, connected(server) as client:
        client.send(headers_frame(1), request_frame(1, BEAT))
        await held.begun.acquire()
        client.send(reset_frame(1))
        for number in range(3, 40, 2):
            client.send(headers_frame(number), reset_frame(number))
        goodbye = await client.goodbye()
        held.gate.set()
    assert goodbye is not None and goodbye.error_code == ErrorCodes.ENHANCE_YOUR_CALM


@pytest.mark.parametrize("headers", [(), ((":method", "GET"),)], ids=["reset", "not as gRPC has it"])
async def test_of_a_newcomer_such_calls_count_as_refused(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, headers: tuple[tuple[str, str], ...]
) -> None:
    async def identify(_: str, __: Call) -> Any:
        return REFUSED

    limits: NewcomerLimits = NEWCOMER_LIMITS._replace(refused_max=5)
    monkeypatch.setattr(transport, "NEWCOMER_LIMITS", limits)
    async with serving({"Heartbeat": beat}, identify=identify) as server, connected(server) as client:
        for number in range(1, 40, 2):
            client.send(headers_frame(number, *headers), *([] if headers else [reset_frame(number)]))
        await client.goodbye()
    assert "more than 5 of its requests were refused" in caplog.text


async def test_two_limits_at_once_close_a_connection_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def identify(_: str, __: Call) -> Any:
        return REFUSED

    monkeypatch.setattr(transport, "NEWCOMER_LIMITS", NEWCOMER_LIMITS._replace(refused_max=5))
    settings = ProxySettings(resets_max=5, resets_per_second=1)
    async with (
        serving({"Heartbeat": beat}, identify=identify, settings=settings) as server,
        connected(server) as client,
    ):
        client.send(*(rapid(number) for number in range(1, 40, 2)))
        await client.goodbye()
    assert ["at once" in line.getMessage() for line in caplog.records] == [True]


async def test_a_frame_of_an_unknown_type_does_not_end_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving({"Heartbeat": beat}) as server, connected(server) as client:
        client.send(UNKNOWN_FRAME, headers_frame(1), request_frame(1, BEAT))
        assert (await client.trailers(1))["grpc-status"] == "0"
    assert caplog.records == []


@pytest.mark.parametrize(
    ("frames", "status", "text"),
    [
        ([headers_frame(1), data_frame(1, b"\0\0")], "3", "a request ends after 2 bytes"),
        ([headers_frame(1), data_frame(1, b"\0\0\0\0\x09abc")], "3", "a request of 9 bytes ends after 3"),
        ([headers_frame(1), data_frame(1, b"\0\0\0\0\x02\xff\xff")], "3", "the request cannot be decoded"),
        ([headers_frame(1), data_frame(1, b"\1\0\0\0\0")], "12", "requests must not be compressed"),
        ([headers_frame(1, ends=True)], "3", "the call has no request"),
        ([headers_frame(1, without="te", ends=True)], "2", "the header te is not 'trailers'"),
        ([headers_frame(1, ("content-type", "text/html"), ends=True)], "2", "content-type is 'text/html'"),
        ([headers_frame(1, ("grpc-timeout", "1X"), ends=True)], "2", "grpc-timeout is '1X'"),
        ([headers_frame(1, ("grpc-timeout", "9" * 400 + "H"), ends=True)], "2", "grpc-timeout is '999"),
        ([headers_frame(1, rpc="Nothing", ends=True)], "12", "Method not found"),
    ],
)
async def test_a_call_that_is_none_is_refused_with_a_line_of_the_log(
    caplog: pytest.LogCaptureFixture, frames: list[bytes], status: str, text: str
) -> None:
    caplog.set_level(logging.INFO)
    async with serving({"Heartbeat": beat}) as server, connected(server) as client:
        client.send(*frames)
        assert (await client.trailers(1))["grpc-status"] == status
    (record,) = caplog.records
    assert text in record.getMessage() and record.exc_info is None


@pytest.mark.parametrize(
    "frames",
    [
        [headers_frame(1, ("te", "x"), ends=True)],
        [headers_frame(1, without=":path", ends=True)],
        [
            headers_frame(1),
            HeadersFrame(1, b"\x84", flags=["END_HEADERS", "END_STREAM"]).serialize(),  # :path as a trailer
        ],
    ],
    ids=["te", "no path", "trailers"],
)
async def test_a_call_that_is_malformed_is_reset_with_a_line_of_the_log(
    caplog: pytest.LogCaptureFixture, frames: list[bytes]
) -> None:
    caplog.set_level(logging.INFO)
    async with serving({"Heartbeat": beat}) as server, connected(server) as client:
        client.send(*frames)
        assert (await client.next(RstStreamFrame, 1)).error_code == ErrorCodes.PROTOCOL_ERROR
        client.send(headers_frame(3), request_frame(3, BEAT))
        assert (await client.trailers(3))["grpc-status"] == "0"
    assert "refused a call of " in caplog.text
    assert {record.exc_info for record in caplog.records} == {None}


async def test_what_is_no_call_of_grpc_is_told_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with serving({"Heartbeat": beat}) as server, connected(server) as client:
        client.send(headers_frame(1, (":method", "GET"), ends=True))
        assert (await client.next(DataFrame, 1)).data == b"not a POST request"
        assert client._headers[":status"] == "405"


@pytest.mark.parametrize(
    ("headers", "frames", "code"),
    [
        (
            (),
            [HeadersFrame(1, b"\x84", flags=["END_HEADERS", "END_STREAM"]).serialize()],  # :path as a trailer
            ErrorCodes.PROTOCOL_ERROR,
        ),
        (
            (),
            [HeadersFrame(1, b"\0\1x\1y", flags=["END_HEADERS"]).serialize()],
            ErrorCodes.PROTOCOL_ERROR,
        ),
        ((("content-length", "1"),), [data_frame(1, b"four")], ErrorCodes.PROTOCOL_ERROR),
        ((), [WindowUpdateFrame(1, (1 << 31) - 1).serialize()], ErrorCodes.FLOW_CONTROL_ERROR),
    ],
    ids=["trailers", "second headers", "length", "window"],
)
async def test_what_is_wrong_with_the_rest_of_a_request_goes_before_its_refusal(
    headers: tuple[tuple[str, str], ...], frames: list[bytes], code: ErrorCodes
) -> None:
    async with serving({"Heartbeat": beat}) as server, connected(server) as client:
        client.send(headers_frame(1, (":method", "GET"), *headers))
        for _ in range(2):  # so much later that it would have been refused
            client.send(PingFrame(0, b"12345678").serialize())
            await client.next(PingFrame)
        client.send(*frames)
        while not isinstance(frame := await client.frame(), RstStreamFrame | GoAwayFrame):
            assert not isinstance(frame, HeadersFrame)
        assert frame.error_code == code


@pytest.mark.parametrize("rest", [[], [data_frame(1, b"x" * 9_000, ends=False)]], ids=["no more", "more"])
async def test_a_refusal_does_not_wait_long_for_the_end_of_its_request(
    monkeypatch: pytest.MonkeyPatch, rest: list[bytes]
) -> None:
    monkeypatch.setattr(calls, "REFUSED_S", 0.02)
    async with serving({"Heartbeat": beat}) as server, connected(server) as client:
        client.send(headers_frame(1, (":method", "GET")), *rest)
        await client.next(HeadersFrame, 1)
        assert client._headers[":status"] == "405"
        assert (await client.next(RstStreamFrame, 1)).error_code == ErrorCodes.NO_ERROR


async def test_a_call_that_is_to_be_refused_is_under_way_and_keeps_no_request() -> None:
    async with serving({"Heartbeat": beat}) as server, connected(server) as client:
        client.send(headers_frame(1, (":method", "GET")))
        for _ in range(2):
            client.send(data_frame(1, b"x" * 9_000, ends=False), PingFrame(0, b"12345678").serialize())
            await client.next(PingFrame)
        connection = only(server._connections)
        assert connection.calls.under_way == 1
        assert not connection.processor.streams[1].request._data
        client.send(data_frame(1, b""))
        assert (await client.next(HeadersFrame, 1)) is not None


@pytest.mark.parametrize("value", ["%%%", "A", "AAAAA"])
async def test_a_binary_header_may_be_anything(caplog: pytest.LogCaptureFixture, value: str) -> None:
    async with serving({"Heartbeat": beat}) as server, connected(server) as client:
        client.send(headers_frame(1, ("x-bin", value), ("grpc-x-bin", value)), request_frame(1, BEAT))
        assert (await client.trailers(1))["grpc-status"] == "0"
    assert caplog.records == []


async def test_empty_data_does_not_end_a_request() -> None:
    async with serving({"Heartbeat": beat}) as server, connected(server) as client:
        client.send(headers_frame(1), data_frame(1, b"", ends=False), request_frame(1, BEAT))
        assert (await client.trailers(1))["grpc-status"] == "0"


async def test_calls_that_their_client_cuts_are_a_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    held = Held()
    async with serving({"Heartbeat": held.beat}) as server:
        async with connected(server) as client:
            for number in (1, 3):
                client.send(headers_frame(number), request_frame(number, BEAT))
                await held.begun.acquire()
            client.send(reset_frame(1))
            client.send(PingFrame(0, b"12345678").serialize())
            await client.next(PingFrame)
            calls = only(server._connections).calls
        held.gate.set()
        await calls.wait_closed()
    lines = [record.getMessage() for record in caplog.records]
    assert ["a call of" in line and "was cut by its client" in line for line in lines] == [True, True]
    assert {record.exc_info for record in caplog.records} == {None}


async def test_a_call_that_takes_longer_than_its_client_waits_ends_with_that_status() -> None:
    async def never(_: pb.HeartbeatRequest, __: Call) -> pb.HeartbeatResponse:
        await asyncio.Event().wait()
        raise AssertionError

    async with serving({"Heartbeat": never}) as server, connected(server) as client:
        client.send(headers_frame(1, ("grpc-timeout", "10m")), request_frame(1, BEAT))
        assert (await client.trailers(1))["grpc-status"] == "4"


async def test_a_fault_of_ours_ends_one_call_only(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(_: pb.HeartbeatRequest, __: Call) -> pb.HeartbeatResponse:
        raise ZeroDivisionError

    async with serving({"Heartbeat": fail}) as server, connected(server) as client:
        client.send(headers_frame(1), request_frame(1, BEAT))
        assert (await client.trailers(1))["grpc-status"] == "2"
        client.send(headers_frame(3, rpc="Nothing", ends=True))
        assert (await client.next(HeadersFrame, 3)) is not None
    assert "failed to answer a call of 127.0.0.1:" in caplog.text and "ZeroDivisionError" in caplog.text
