"""Clients of RocketMQ 5: their settings and calls, what they receive, and a proxy that asks who they are."""

import hashlib
import hmac
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

from grpclib.client import Channel
from tests.kit.messages import new_stored
from tests.proxy.conftest import Front, GrpcClient, message_of

from cometmq.admin import access
from cometmq.admin.cluster import ClusterAdmin
from cometmq.client.answer import successful
from cometmq.errors import RemoteError
from cometmq.net.address import parse_address
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.transport import CLIENT_ID, Call
from cometmq.testing.embedded_broker import EmbeddedBroker
from cometmq.wire.acl import Credentials
from cometmq.wire.bodies.access import PolicyEntryInfo, UserInfo
from cometmq.wire.bodies.body import decode
from cometmq.wire.bodies.group import ConsumerIds
from cometmq.wire.codes import RequestCode
from cometmq.wire.headers import ConsumerGroupHeader, parse
from cometmq.wire.headers.pop import PollingInfoHeader, PollingInfoResponseHeader


def consumer(group: str = "G", topic: str = "T", kind: pb.ClientType = pb.SIMPLE_CONSUMER) -> pb.Settings:
    entry = pb.SubscriptionEntry(
        topic=pb.Resource(name=topic), expression=pb.FilterExpression(type=pb.TAG, expression="*")
    )
    subscription = pb.Subscription(group=pb.Resource(name=group), subscriptions=[entry])
    return pb.Settings(client_type=kind, subscription=subscription)


def producer(*topics: str) -> pb.Settings:
    publishing = pb.Publishing(topics=[pb.Resource(name=topic) for topic in topics])
    return pb.Settings(client_type=pb.PRODUCER, publishing=publishing)


async def members(front: Front, group: str) -> list[str]:
    """Return the members of a group at the broker."""
    async with ClusterAdmin(front.broker.name_server) as admin:
        (address,) = (await admin.masters()).values()
        try:
            answer = await admin.ask(
                address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, ConsumerGroupHeader(group)
            )
        except RemoteError:
            return []
        return decode(ConsumerIds, successful(answer).body).ids


async def nothing() -> AsyncIterator[pb.TelemetryCommand]:
    return
    yield


def call_of(client_id: str, user: str = "") -> Call:
    return Call({CLIENT_ID: client_id}, "127.0.0.1:1", user=user)


STORED = new_stored(
    queue_id=3,
    queue_offset=7,
    physical_offset=100,
    message_id="ID",
    offset_id="OFFSET",
    tags="red",
    keys=("k", "l"),
    properties={"mine": "1", "UNIQ_KEY": "ID", "TAGS": "red", "KEYS": "k l", "__SHARDINGKEY": "g"},
    born_time=1005,
    born_host="10.0.0.1:5",
    store_time=2000,
    store_host="10.0.0.2:6",
    reconsume_times=2,
)


async def pop_is_held(front: Front, group: str, topic: str) -> None:
    """Wait until the broker holds a pop."""
    header = PollingInfoHeader(group, topic, -1)
    async with ClusterAdmin(front.broker.name_server) as admin:
        (address,) = (await admin.masters()).values()
        held = 0
        while not held:
            answer = await admin.ask(address, RequestCode.POLLING_INFO, header)
            held = parse(PollingInfoResponseHeader, answer.ext_fields).polling_count


TIME = "20261126T120000Z"


class Guarded:
    """A proxy that checks signatures; ``shop`` may send to topic T, and receive it in group G."""

    embedded: EmbeddedBroker

    def __init__(self, endpoint: str, channel: Channel) -> None:
        self.endpoint = endpoint
        self._channel = channel

    def client(self, user: Credentials | None, *, upper: bool = False) -> GrpcClient:
        metadata = {"x-mq-client-id": "c", "x-mq-date-time": TIME}
        if user is not None:
            signature = hmac.new(user.secret_key.encode(), TIME.encode(), hashlib.sha1).hexdigest()
            signature = signature.upper() if upper else signature
            metadata["authorization"] = (
                f"MQv2-HMAC-SHA1 Credential={user.access_key}//Rocketmq, SignedHeaders=x-mq-date-time, "
                f"Signature={signature}"
            )
        return GrpcClient(self._channel, metadata)

    @asynccontextmanager
    async def connect(self) -> AsyncIterator["Guarded"]:
        """Open another connection."""
        async with Channel(*parse_address(self.endpoint)) as channel:
            yield Guarded(self.endpoint, channel)

    async def send(self, user: Credentials | None, topic: str = "T", *, upper: bool = False) -> pb.Status:
        request = pb.SendMessageRequest(messages=[message_of(topic)])
        status: pb.Status = (await self.client(user, upper=upper).call("SendMessage", request)).status
        return status


@asynccontextmanager
async def guarded_by(
    admin: Credentials, rights: Mapping[Credentials, Iterable[tuple[str, ...]]], **topics: str
) -> AsyncIterator[Guarded]:
    """Run a broker and a proxy that check signatures.

    Args:
        rights: of each user resources, each with the actions that it may do.
        topics: their types by their names.
    """
    with EmbeddedBroker(credentials=admin) as embedded:
        for topic, kind in topics.items():
            embedded.create_topic(topic, 1, kind)
        async with ClusterAdmin(embedded.name_server, credentials=admin) as cluster:
            for user, entries in rights.items():
                await access.add_user(cluster, UserInfo(user.access_key, user.secret_key))
                for resource, *actions in entries:
                    entry = PolicyEntryInfo(resource, actions, decision="Allow")
                    await access.add_entry(cluster, user.access_key, entry)
        endpoint = embedded.grpc_endpoint
        async with Channel(*parse_address(endpoint)) as channel:
            connected = Guarded(endpoint, channel)
            connected.embedded = embedded
            yield connected
