import asyncio
from contextlib import suppress
from pathlib import Path

import pytest
from grpclib.client import Channel
from grpclib.const import Status
from grpclib.exceptions import GRPCError, StreamTerminatedError
from tests.kit.grpc_clients import producer
from tests.proxy.conftest import Front, GrpcClient, message_of, receive_request

from cometmq.errors import SettingsError
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.fellow_workers import WorkerPlace
from cometmq.proxy.outcomes import Failure
from cometmq.proxy.proxy import Proxy
from cometmq.proxy.transport import METHODS, Call
from cometmq.wire.acl import Credentials


async def test_what_one_client_sends_another_receives_and_acknowledges(front: Front) -> None:
    await front.create_topic("T")
    sent = await front.send("T", b"one")
    assert sent.status.code == pb.OK and sent.entries[0].message_id == "ID-one"
    (message,) = await front.receive("T", "G", 1)
    assert message.body == b"one" and message.system_properties.message_id == "ID-one"
    entry = pb.AckMessageEntry(message_id="ID-one", receipt_handle=message.system_properties.receipt_handle)
    names = {"group": pb.Resource(name="G"), "topic": pb.Resource(name="T")}
    acked = await front.client.call("AckMessage", pb.AckMessageRequest(entries=[entry], **names))
    assert acked.status.code == pb.OK and acked.entries[0].status.code == pb.OK


async def test_a_call_without_a_client_id_is_refused(front: Front) -> None:
    unnamed = front.client._replace(metadata={"x-mq-client-id": " "})
    answer = await unnamed.call("SendMessage", pb.SendMessageRequest(messages=[message_of("T")]))
    assert answer.status.code == pb.CLIENT_ID_REQUIRED
    status, messages = await unnamed.receive(receive_request("T", "G"))
    assert status.code == pb.CLIENT_ID_REQUIRED and messages == []


async def test_rpcs_that_are_missing_are_unimplemented(front: Front) -> None:
    missing = set(METHODS) - front.proxy._rpcs().keys()
    assert missing == {"SyncLiteSubscription"}
    async with front.client.open(missing.pop()) as stream:
        await stream.send_message(stream._send_type(), end=True)
        with pytest.raises(GRPCError) as caught:
            await stream.recv_message()
        assert caught.value.status is Status.UNIMPLEMENTED


async def test_each_call_is_admitted_by_its_metadata(front: Front) -> None:
    seen: list[tuple[str, str]] = []

    async def admit(name: str, _: object, call: Call) -> str:
        seen.append((name, call.client_id))
        raise Failure(pb.UNAUTHORIZED, "no")

    front.proxy._admit = admit
    answer = await front.client.call("QueryRoute", pb.QueryRouteRequest(topic=pb.Resource(name="T")))
    assert answer.status.code == pb.UNAUTHORIZED and seen == [("QueryRoute", "client-1")]


async def test_a_proxy_that_strangers_could_reach_does_not_start(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(SettingsError, match=r"cannot listen on 0\.0\.0\.0: .* --insecure"):
        await Proxy(["127.0.0.1:1"], "0.0.0.0", 0).start()
    async with Proxy(["127.0.0.1:1"], "0.0.0.0", 0, insecure=True):
        assert "the proxy is insecure" in caplog.text


@pytest.mark.parametrize(("worker", "count"), [(None, 1), (0, 1), (1, 0)])
async def test_a_proxy_that_checks_signatures_without_tls_warns_of_it_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, worker: int | None, count: int
) -> None:
    async with Proxy(["127.0.0.1:1"], port=0, authenticate=True, credentials=Credentials("admin", "s")):
        assert caplog.text.count("the proxy is insecure") == 0
    place = None if worker is None else WorkerPlace(tmp_path, worker, 2)
    proxy = Proxy(["127.0.0.1:1"], "0.0.0.0", 0, authenticate=True, credentials=Credentials("admin", "s"))
    await proxy.start(place)
    await proxy.stop()
    assert caplog.text.count("the proxy is insecure: clients of 0.0.0.0 sign a time") == count
    assert caplog.text.count("Demand TLS by --grpc-tls-cert") == count


async def test_without_a_name_server_calls_fail_and_the_proxy_goes_on() -> None:
    async with Proxy(["127.0.0.1:1"], port=0) as proxy, Channel("127.0.0.1", proxy.port) as channel:
        client = GrpcClient(channel, {"x-mq-client-id": "c"})
        request = pb.QueryRouteRequest(topic=pb.Resource(name="T"))
        for _ in range(2):
            answer = await client.call("QueryRoute", request)
            assert answer.status.code == pb.INTERNAL_SERVER_ERROR and "127.0.0.1:1" in answer.status.message


async def test_a_proxy_that_stops_sends_its_clients_elsewhere(front: Front) -> None:
    await front.create_topic("T")
    other = Proxy([front.broker.name_server], port=0)
    await other.start()
    async with Channel("127.0.0.1", other.port) as channel:
        client = front.client._replace(channel=channel)
        with suppress(GRPCError, StreamTerminatedError):  # its end, when the proxy has gone
            async with client.telemetry(producer("T")) as stream:
                stopping = asyncio.create_task(other.stop())
                command = await stream.recv_message()
                assert command is not None and command.HasField("reconnect_endpoints_command")
                await stopping
