"""A proxy in front of the embedded broker, and a client that calls its rpcs one by one."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message_factory import GetMessageClass
from grpclib.client import Channel, Stream
from grpclib.const import Cardinality

from cometmq.admin.cluster import ClusterAdmin
from cometmq.admin.groups import create
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.proxy import Proxy
from cometmq.proxy.transport import METHODS, SERVICE, ClientKey
from cometmq.testing.embedded_broker import EmbeddedBroker
from cometmq.wire.bodies.group import GroupConfig
from cometmq.wire.codes import RequestCode
from cometmq.wire.headers import DEFAULT_TOPIC
from cometmq.wire.headers.admin import CreateTopicHeader

TIMEOUT_S = 60
KINDS = {(kind.client_streaming, kind.server_streaming): kind for kind in Cardinality}


class GrpcClient(NamedTuple):
    """A client on one connection."""

    channel: Channel
    metadata: Mapping[str, str]

    def open(self, name: str, timeout_s: float = TIMEOUT_S) -> "Stream[Any, Any]":
        method = METHODS[name]
        return self.channel.request(
            f"/{SERVICE}/{name}",
            KINDS[method.client_streaming, method.server_streaming],
            GetMessageClass(method.input_type),
            GetMessageClass(method.output_type),
            timeout=timeout_s,
            metadata=self.metadata,
        )

    async def call(self, name: str, request: Any) -> Any:
        """Call an rpc with one answer."""
        async with self.open(name) as stream:
            await stream.send_message(request, end=True)
            return await stream.recv_message()

    async def receive(
        self, request: pb.ReceiveMessageRequest, timeout_s: float = TIMEOUT_S
    ) -> tuple[pb.Status, list[pb.Message]]:
        """Return the status and the messages of a ReceiveMessage."""
        async with self.open("ReceiveMessage", timeout_s) as stream:
            await stream.send_message(request, end=True)
            answers = [answer async for answer in stream]
        assert next(answer.WhichOneof("content") for answer in answers) == "status"
        found = [answer.message for answer in answers if answer.HasField("message")]
        return answers[0].status, found

    @asynccontextmanager
    async def telemetry(self, settings: pb.Settings) -> AsyncIterator["Stream[Any, Any]"]:
        """Open a telemetry stream; the answer to the settings was read."""
        async with self.open("Telemetry") as stream:
            await stream.send_message(pb.TelemetryCommand(settings=settings))
            answer = await stream.recv_message()
            assert answer is not None and answer.status.code == pb.OK
            yield stream
            await stream.end()


class Front(NamedTuple):
    """A proxy, the broker behind it, and a client of it."""

    proxy: Proxy
    broker: EmbeddedBroker
    client: GrpcClient

    def other(self, client_id: str) -> GrpcClient:
        """Return another client on the same connection."""
        return self.client._replace(metadata={"x-mq-client-id": client_id})

    async def create_topic(self, topic: str, kind: str = "NORMAL", queues: int = 4) -> None:
        header = CreateTopicHeader(
            topic=topic,
            default_topic=DEFAULT_TOPIC,
            read_queue_count=queues,
            write_queue_count=queues,
            perm=6,
            filter_type="SINGLE_TAG",
            attributes=f"+message.type={kind}",
        )
        async with ClusterAdmin(self.broker.name_server) as admin:
            for address in (await admin.masters()).values():
                await admin.ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    async def create_group(self, group: str, **settings: Any) -> None:
        async with ClusterAdmin(self.broker.name_server) as admin:
            await create(admin, GroupConfig(group=group, **settings))

    async def send(self, topic: str, *bodies: bytes, **system: Any) -> pb.SendMessageResponse:
        messages = [message_of(topic, body, message_id=f"ID-{body.decode()}", **system) for body in bodies]
        answer: pb.SendMessageResponse = await self.client.call(
            "SendMessage", pb.SendMessageRequest(messages=messages)
        )
        return answer

    async def receive(self, topic: str, group: str, count: int, **more: Any) -> list[pb.Message]:
        """Receive until there are so many messages."""
        found: list[pb.Message] = []
        while len(found) < count:
            _, messages = await self.client.receive(receive_request(topic, group, **more))
            found += messages
        return found


def message_of(topic: str, body: bytes = b"x", message_id: str = "ID", **system: Any) -> pb.Message:
    return pb.Message(
        topic=pb.Resource(name=topic),
        body=body,
        system_properties=pb.SystemProperties(message_id=message_id, **system),
    )


def receive_request(topic: str, group: str, **more: Any) -> pb.ReceiveMessageRequest:
    default: dict[str, Any] = {
        "batch_size": 32,
        "invisible_duration": Duration(seconds=30),
        "long_polling_timeout": Duration(seconds=5),
    }
    return pb.ReceiveMessageRequest(
        group=pb.Resource(name=group),
        message_queue=pb.MessageQueue(topic=pb.Resource(name=topic)),
        **(default | more),
    )


def key_of(client_id: str, user: str = "") -> ClientKey:
    return ClientKey(user, client_id)


@pytest.fixture
async def front(rocketmq: EmbeddedBroker) -> AsyncIterator[Front]:
    async with (
        Proxy([rocketmq.name_server], port=0) as proxy,
        Channel("127.0.0.1", proxy.port) as channel,
    ):
        yield Front(proxy, rocketmq, GrpcClient(channel, {"x-mq-client-id": "client-1"}))
