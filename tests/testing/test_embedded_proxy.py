"""The gRPC endpoint of an embedded broker."""

import asyncio

import pytest
from grpclib.client import Channel
from tests.proxy.conftest import GrpcClient

from cometmq.errors import SettingsError
from cometmq.net.address import parse_address
from cometmq.proxy import messaging_pb2 as pb
from cometmq.testing import EmbeddedBroker
from cometmq.testing.async_broker import AsyncEmbeddedBroker
from cometmq.wire.acl import Credentials

ROUTE = pb.QueryRouteRequest(topic=pb.Resource(name="orders"))


async def asked(endpoint: str) -> pb.QueryRouteResponse:
    async with Channel(*parse_address(endpoint)) as channel:
        answer: pb.QueryRouteResponse = await GrpcClient(channel, {"x-mq-client-id": "c"}).call(
            "QueryRoute", ROUTE
        )
    return answer


async def test_grpc_clients_reach_the_broker(rocketmq_async: AsyncEmbeddedBroker) -> None:
    await rocketmq_async.create_topic("orders", 2, "FIFO")
    endpoint = await rocketmq_async.grpc_endpoint()
    assert endpoint == await rocketmq_async.grpc_endpoint()
    answer = await asked(endpoint)
    assert [list(queue.accept_message_types) for queue in answer.message_queues] == [[pb.FIFO]] * 2


def test_the_proxy_stops_with_the_broker() -> None:
    with EmbeddedBroker() as embedded:
        endpoint = embedded.grpc_endpoint
    with pytest.raises(ConnectionRefusedError):
        asyncio.run(asked(endpoint))


def test_a_broker_with_users_has_a_proxy_that_checks_signatures() -> None:
    with EmbeddedBroker(credentials=Credentials("admin", "secret")) as embedded:
        answer = asyncio.run(asked(embedded.grpc_endpoint))
    assert answer.status.code == pb.UNAUTHORIZED


def test_without_sockets_there_is_none() -> None:
    with EmbeddedBroker(sockets=False) as embedded, pytest.raises(SettingsError, match="sockets=True"):
        print(embedded.grpc_endpoint)
