from pathlib import Path

import pytest

from cometmq.errors import NetworkError
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.calling import RpcCaller
from cometmq.proxy.transport import Call, GrpcServer


async def test_an_rpc_is_called_by_a_unix_socket_for_a_client(tmp_path: Path) -> None:
    async def heartbeat(_: pb.HeartbeatRequest, call: Call) -> pb.HeartbeatResponse:
        return pb.HeartbeatResponse(status=pb.Status(message=call.client_id))

    server = GrpcServer({"Heartbeat": heartbeat})
    await server.start_at(tmp_path / "socket")
    caller = RpcCaller(tmp_path / "socket")
    answer = await caller.call("Heartbeat", pb.HeartbeatRequest(), "c")
    assert answer.status.message == "c"
    await server.stop()
    with pytest.raises(NetworkError, match="does not answer Heartbeat"):
        await caller.call("Heartbeat", pb.HeartbeatRequest(), "c")
    caller.close()


async def test_a_server_that_is_not_there_does_not_answer(tmp_path: Path) -> None:
    caller = RpcCaller(tmp_path / "nobody")
    with pytest.raises(NetworkError, match="nobody does not answer Heartbeat"):
        await caller.call("Heartbeat", pb.HeartbeatRequest(), "c")
    caller.close()
