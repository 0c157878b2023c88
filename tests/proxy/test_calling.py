from pathlib import Path

import pytest

from cometmq.errors import NetworkError
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.calling import RpcCaller, call_for
from cometmq.proxy.transport import Call, ClientKey, GrpcServer

CLIENT = ClientKey("ann maria", "10.0.0.1@7\x01 é%")
"""With characters that no header may have."""


async def test_an_rpc_is_called_by_a_unix_socket_for_a_client(tmp_path: Path) -> None:
    async def heartbeat(_: pb.HeartbeatRequest, call: Call) -> pb.HeartbeatResponse:
        return pb.HeartbeatResponse(status=pb.Status(message=repr(call_for(call).client)))

    server = GrpcServer({"Heartbeat": heartbeat})
    await server.start_at(tmp_path / "socket")
    caller = RpcCaller(tmp_path / "socket")
    answer = await caller.call("Heartbeat", pb.HeartbeatRequest(), CLIENT)
    assert answer.status.message == repr(CLIENT)
    await server.stop()
    with pytest.raises(NetworkError, match="does not answer Heartbeat"):
        await caller.call("Heartbeat", pb.HeartbeatRequest(), CLIENT)
    caller.close()


async def test_a_server_that_is_not_there_does_not_answer(tmp_path: Path) -> None:
    caller = RpcCaller(tmp_path / "nobody")
    with pytest.raises(NetworkError, match="nobody does not answer Heartbeat"):
        await caller.call("Heartbeat", pb.HeartbeatRequest(), CLIENT)
    caller.close()


async def test_a_client_without_a_user_is_nobodys(tmp_path: Path) -> None:
    async def heartbeat(_: pb.HeartbeatRequest, call: Call) -> pb.HeartbeatResponse:
        return pb.HeartbeatResponse(status=pb.Status(message=repr(call_for(call).client)))

    server = GrpcServer({"Heartbeat": heartbeat})
    await server.start_at(tmp_path / "socket")
    caller = RpcCaller(tmp_path / "socket")
    nobodys = ClientKey("", "c")
    answer = await caller.call("Heartbeat", pb.HeartbeatRequest(), nobodys)
    assert answer.status.message == repr(nobodys)
    caller.close()
    await server.stop()
