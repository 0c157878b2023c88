import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from grpclib.client import Channel
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from tests.proxy.conftest import GrpcClient

from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.transport import Call, CallRefused, Exchange, GrpcServer, GrpcStatus, Rpc


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
