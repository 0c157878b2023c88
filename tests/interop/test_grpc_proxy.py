"""RocketMQ's own gRPC proxy in front of a CometMQ broker, which it asks otherwise than ours does."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from grpclib.client import Channel
from tests.interop import proxies
from tests.interop.groups import in_group
from tests.interop.patience import PATIENCE_S
from tests.interop.peers import Peer
from tests.interop.topics import create_topic
from tests.kit.grpc_clients import consumer
from tests.proxy.conftest import GrpcClient, message_of, receive_request

from cometmq.admin.cluster import ClusterAdmin
from cometmq.admin.groups import create
from cometmq.net.address import parse_address
from cometmq.proxy import messaging_pb2 as pb
from cometmq.wire.bodies.group import GroupConfig

pytestmark = pytest.mark.interop

TOPIC = GROUP = "GrpcProxyOfRocketMQ"
NAMES: dict[str, Any] = {"group": pb.Resource(name=GROUP), "topic": pb.Resource(name=TOPIC)}
BODIES = {b"acknowledged", b"hidden"}


async def received(client: GrpcClient, count: int) -> dict[bytes, pb.SystemProperties]:
    """Receive so many messages; return what is known of each by its body."""
    found: dict[bytes, pb.SystemProperties] = {}
    while len(found) < count:
        _, messages = await client.receive(receive_request(TOPIC, GROUP))
        found |= {message.body: message.system_properties for message in messages}
    return found


async def acknowledge(client: GrpcClient, message: pb.SystemProperties) -> None:
    entry = pb.AckMessageEntry(message_id=message.message_id, receipt_handle=message.receipt_handle)
    answer = await client.call("AckMessage", pb.AckMessageRequest(entries=[entry], **NAMES))
    assert answer.status.code == answer.entries[0].status.code == pb.OK, answer


async def consume(name_server: str, address: str) -> None:
    """Send two messages, acknowledge one, and hide the other until it comes again."""
    await create_topic(name_server, TOPIC, queues=1)
    async with ClusterAdmin(name_server) as admin:
        await create(admin, GroupConfig(group=GROUP))
    async with Channel(*parse_address(address)) as channel:
        client = GrpcClient(channel, {"x-mq-client-id": "client", "x-mq-language": "JAVA"})
        async with client.open("Telemetry", PATIENCE_S) as stream:
            await stream.send_message(pb.TelemetryCommand(settings=consumer(GROUP, TOPIC)))
            await stream.recv_message()
            for body in BODIES:
                request = pb.SendMessageRequest(messages=[message_of(TOPIC, body, body.decode())])
                assert (await client.call("SendMessage", request)).status.code == pb.OK
            messages = await received(client, len(BODIES))
            assert messages.keys() == BODIES
            await acknowledge(client, messages[b"acknowledged"])
            hidden = messages[b"hidden"]
            change = pb.ChangeInvisibleDurationRequest(
                receipt_handle=hidden.receipt_handle,
                message_id=hidden.message_id,
                invisible_duration=Duration(seconds=1),
                **NAMES,
            )
            assert (await client.call("ChangeInvisibleDuration", change)).status.code == pb.OK
            again = await received(client, 1)
            assert again.keys() == {b"hidden"} and again[b"hidden"].delivery_attempt == 2
            await acknowledge(client, again[b"hidden"])
            await stream.end()


@pytest.mark.parametrize("broker", [in_group("cometmq", "shared")], indirect=True)
def test_what_its_clients_acknowledge_and_hide_is_so_at_the_broker(broker: Peer, tmp_path: Path) -> None:
    with proxies.rocketmq_proxy(tmp_path / "proxy", broker.namesrv) as (address, _):
        asyncio.run(consume(broker.namesrv, address))
