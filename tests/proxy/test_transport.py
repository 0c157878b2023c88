import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, cast

import pytest
from grpclib.client import Channel
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from hyperframe.frame import GoAwayFrame, SettingsFrame
from tests.certificates import Authority
from tests.proxy.conftest import GrpcClient

from cometmq.net.tls.server import server_tls
from cometmq.net.tls.settings import TlsSettings
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy import transport
from cometmq.proxy.http2.streams import RequestBytes
from cometmq.proxy.http2.unread import Requester, UnreadRequests
from cometmq.proxy.transport import ALPN, Call, CallRefused, Exchange, GrpcServer, GrpcStatus, Rpc


async def beat(_: pb.HeartbeatRequest, __: Call) -> pb.HeartbeatResponse:
    return pb.HeartbeatResponse()


class Acks:
    """A connection that acknowledges all."""

    def ack(self, _stream_id: int, _size: int) -> None:
        pass


async def called(rpcs: dict[str, Rpc], name: str, *requests: Any, timeout_s: float = 30) -> list[Any]:
    """Return the answers of an rpc that a server of these serves."""
    server = GrpcServer(rpcs)
    await server.start("127.0.0.1", 0)
    try:
        async with Channel("127.0.0.1", server.port) as channel:
            client = GrpcClient(channel, {"x-mq-client-id": " me ", "x-mq-language": "PYTHON"})
            async with client.open(name, timeout_s) as stream:
                for request in requests:
                    await stream.send_message(request)
                await stream.end()
                return [answer async for answer in stream]
    finally:
        await server.stop()


async def test_an_rpc_knows_who_calls_and_how_long_that_waits() -> None:
    calls: list[tuple[Call, int | None]] = []

    async def heartbeat(_: pb.HeartbeatRequest, call: Call) -> pb.HeartbeatResponse:
        calls.append((call, call.left_ms()))
        return pb.HeartbeatResponse()

    assert await called({"Heartbeat": heartbeat}, "Heartbeat", pb.HeartbeatRequest()) == [
        pb.HeartbeatResponse()
    ]
    ((call, left_ms),) = calls
    assert call.client_id == "me" and call.metadata["x-mq-language"] == "PYTHON"
    assert call.peer.startswith("127.0.0.1:")
    assert left_ms is not None and 20_000 < left_ms <= 30_000


async def test_of_the_headers_of_a_call_few_are_kept() -> None:
    kept: list[Mapping[str, str]] = []

    async def heartbeat(_: pb.HeartbeatRequest, call: Call) -> pb.HeartbeatResponse:
        kept.append(call.metadata)
        return pb.HeartbeatResponse()

    server = GrpcServer({"Heartbeat": heartbeat})
    await server.start("127.0.0.1", 0)
    async with Channel("127.0.0.1", server.port) as channel:
        client = GrpcClient(channel, {"x-mq-client-id": "me", "x-other": "y" * 8_000})
        await client.call("Heartbeat", pb.HeartbeatRequest())
        assert kept[0]["x-mq-client-id"] == "me" and "x-other" not in kept[0]
        large = client._replace(metadata={"x-mq-client-id": "m" * 9_000})
        with pytest.raises(GRPCError):
            await large.call("Heartbeat", pb.HeartbeatRequest())
    assert len(kept) == 1
    await server.stop()


async def test_what_comes_behind_the_only_request_is_not_kept() -> None:
    rest = RequestBytes(cast(Any, Acks()), 1, Requester(UnreadRequests(), lambda _: None))
    rest.add(b"request", 7)
    assert await rest.read(7) == b"request"
    rest.add(b"more", 4)
    rest.drop_rest()
    rest.add(bytes(1 << 20), 1 << 20)
    assert len(rest._data) == 0
    assert rest.unacked_size() == 4 + (1 << 20), "the connection gets its window back"
    assert rest.unacked_size() == 0


async def test_an_rpc_answers_with_a_stream() -> None:
    async def pull(request: pb.PullMessageRequest, _: Call) -> AsyncIterator[pb.PullMessageResponse]:
        for offset in range(request.batch_size):
            yield pb.PullMessageResponse(next_offset=offset)

    answers = await called({"PullMessage": pull}, "PullMessage", pb.PullMessageRequest(batch_size=3))
    assert [answer.next_offset for answer in answers] == [0, 1, 2]


async def test_both_sides_of_an_exchange_send_when_they_like() -> None:
    async def telemetry(exchange: Exchange, _: Call) -> None:
        await exchange.send(pb.TelemetryCommand(status=pb.Status(message="hello")))
        async for command in exchange.requests:
            both = (exchange.send(command), exchange.send(command))
            await asyncio.gather(*both)

    command = pb.TelemetryCommand(status=pb.Status(message="x" * 100_000))
    answers = await called({"Telemetry": telemetry}, "Telemetry", command)
    assert [answer.status.message[:5] for answer in answers] == ["hello", "xxxxx", "xxxxx"]


async def test_an_rpc_ends_with_a_status_of_grpc() -> None:
    async def telemetry(_exchange: Exchange, _: Call) -> None:
        raise CallRefused(GrpcStatus.INVALID_ARGUMENT, "no such group")

    with pytest.raises(GRPCError) as caught:
        await called({"Telemetry": telemetry}, "Telemetry", pb.TelemetryCommand())
    assert caught.value.status is Status.INVALID_ARGUMENT and caught.value.message == "no such group"


async def test_a_call_without_deadline_waits_for_ever() -> None:
    assert Call({}, "127.0.0.1:1").left_ms() is None and Call({}, "").client_id == ""


async def test_one_port_serves_tls_and_plain(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    made = authority.certify()
    settings = TlsSettings(tls_server_cert_path=str(made.cert), tls_server_key_path=str(made.key))
    server = GrpcServer({"Heartbeat": beat}, tls=server_tls(settings, ALPN))
    await server.start("127.0.0.1", 0)
    trusting = ssl.create_default_context(cafile=authority.cert)
    trusting.set_alpn_protocols(["h2"])
    for context in (None, trusting):
        async with Channel("127.0.0.1", server.port, ssl=context) as channel:
            client = GrpcClient(channel, {})
            assert await client.call("Heartbeat", pb.HeartbeatRequest()) == pb.HeartbeatResponse()
    await server.stop()


async def test_a_request_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    large = pb.HeartbeatRequest(group=pb.Resource(name="x" * 5_000))
    assert await called({"Heartbeat": beat}, "Heartbeat", large) == [pb.HeartbeatResponse()]
    with monkeypatch.context() as patched:
        patched.setattr(transport, "REQUEST_BYTES_MAX", 5_000)
        with pytest.raises(GRPCError) as caught:
            await called({"Heartbeat": beat}, "Heartbeat", large)
    assert caught.value.status is Status.RESOURCE_EXHAUSTED
    assert await called({"Heartbeat": beat}, "Heartbeat", large) == [pb.HeartbeatResponse()]


async def test_sizes_that_are_only_announced_keep_no_request_out() -> None:
    server = GrpcServer({"Heartbeat": beat})
    await server.start("127.0.0.1", 0)
    announced = b"\0" + transport.PLAIN_REQUEST_BYTES_MAX.to_bytes(4, "big")
    request = pb.HeartbeatRequest(group=pb.Resource(name="g"))
    async with Channel("127.0.0.1", server.port) as channel, AsyncExitStack() as stack:
        client = GrpcClient(channel, {})
        await client.call("Heartbeat", request)  # it knows then how many calls it may have
        for _ in range(transport.ARRIVING_BYTES_MAX // transport.PLAIN_REQUEST_BYTES_MAX):
            stream = await stack.enter_async_context(client.open("Heartbeat"))
            stack.push_async_callback(stream.cancel)
            await stream.send_request()
            await cast(Any, stream)._stream.send_data(announced)
        assert await client.call("Heartbeat", request) == pb.HeartbeatResponse()
    await server.stop()


@pytest.mark.parametrize("is_slow", [False, True])
async def test_a_request_that_takes_long_gives_way_to_others(
    is_slow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "ARRIVING_BYTES_MAX", 5_000)
    monkeypatch.setattr(transport, "SLOW_S", -1.0 if is_slow else 60.0)
    room = transport._Arriving()
    reasons: list[str] = []
    with room.of(reasons.append) as first, room.of(reasons.append) as second:
        first(5_000)
        if is_slow:
            second(1)
        else:
            with pytest.raises(CallRefused):
                second(1)
    assert len(reasons) == is_slow
    with room.of(reasons.append) as third:
        third(5_000)


async def test_a_request_with_too_many_parts_is_refused_before_it_is_decoded() -> None:
    async def ack(_: pb.AckMessageRequest, __: Call) -> pb.AckMessageResponse:
        raise AssertionError("nobody may count 100,000 entries")

    request = pb.AckMessageRequest(entries=[pb.AckMessageEntry()] * 100_000)
    with pytest.raises(GRPCError) as caught:
        await called({"AckMessage": ack}, "AckMessage", request)
    assert caught.value.status is Status.RESOURCE_EXHAUSTED


async def test_a_connection_has_more_calls_under_way_than_the_default() -> None:
    gate, waiting = asyncio.Event(), 0

    async def heartbeat(_: pb.HeartbeatRequest, __: Call) -> pb.HeartbeatResponse:
        nonlocal waiting
        waiting += 1
        if waiting == 300:
            gate.set()
        await gate.wait()
        return pb.HeartbeatResponse()

    server = GrpcServer({"Heartbeat": heartbeat})
    await server.start("127.0.0.1", 0)
    async with Channel("127.0.0.1", server.port) as channel:
        client = GrpcClient(channel, {})
        await asyncio.gather(*(client.call("Heartbeat", pb.HeartbeatRequest()) for _ in range(300)))
        assert server.connected == 1
    await server.stop()


async def test_a_server_that_stops_lets_calls_end_and_accepts_no_others() -> None:
    begun, gate = asyncio.Event(), asyncio.Event()

    async def heartbeat(_: pb.HeartbeatRequest, __: Call) -> pb.HeartbeatResponse:
        begun.set()
        await gate.wait()
        return pb.HeartbeatResponse()

    server = GrpcServer({"Heartbeat": heartbeat})
    await server.start("127.0.0.1", 0)
    async with Channel("127.0.0.1", server.port) as channel:
        call = asyncio.create_task(GrpcClient(channel, {}).call("Heartbeat", pb.HeartbeatRequest()))
        await begun.wait()
        await server.refuse_connections()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", server.port)
        finishing = asyncio.create_task(server.finish_calls(30))
        gate.set()
        await finishing
        assert await call == pb.HeartbeatResponse()
        await server.stop()


async def test_a_client_that_leaves_gets_the_end_of_its_calls() -> None:
    """Clients for Node.js leave right after the end of their streams."""

    async def telemetry(exchange: Exchange, _: Call) -> None:
        async for command in exchange.requests:
            await exchange.send(command)

    server = GrpcServer({"Telemetry": telemetry})
    await server.start("127.0.0.1", 0)
    async with (
        Channel("127.0.0.1", server.port) as channel,
        GrpcClient(channel, {}).open("Telemetry") as stream,
    ):
        await stream.send_message(pb.TelemetryCommand(), end=True)
        stream._stream._transport.write(GoAwayFrame(0).serialize())
        assert [answer async for answer in stream] == [pb.TelemetryCommand()]
    await server.stop()


@pytest.mark.parametrize("error_code", [0, 1])
async def test_the_connection_of_a_client_that_leaves_without_calls_is_closed(error_code: int) -> None:
    server = GrpcServer({})
    await server.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    leaving = SettingsFrame(0).serialize() + GoAwayFrame(0, error_code=error_code).serialize()
    writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + leaving)
    await asyncio.wait_for(reader.read(), 60)  # to the end
    writer.close()
    await server.stop()
