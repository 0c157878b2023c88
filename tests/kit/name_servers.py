"""A name server with brokers of any kind."""

import asyncio

from cometmq.io.clock import ManualClock
from cometmq.namesrv.name_server import NameServer
from cometmq.net.connection import Connection
from cometmq.wire.bodies import DataVersion, Registration, TopicConfig, TopicNames, TopicTable
from cometmq.wire.bodies import decode as decode_body
from cometmq.wire.bodies import encode as encode_body
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command


def broker_fields(name: str = "broker-a", addr: str = "192.0.2.1:10911") -> dict[str, str]:
    return {
        "brokerName": name,
        "brokerAddr": addr,
        "clusterName": "DefaultCluster",
        "brokerId": "0",
        "haServerAddr": "192.0.2.1:10912",
    }


def registration(*topics: str) -> bytes:
    table = {topic: TopicConfig(topic, 4, 4) for topic in topics}
    return encode_body(Registration([], TopicTable(DataVersion(1, 0, 1), table)))


class Scene:
    """A name server, its clock, and those that talk to it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.name_server = NameServer(port=0, clock=self.clock)
        self._connections: list[Connection] = []

    async def connect(self) -> Connection:
        connection = await Connection.open(self.name_server.address)
        self._connections.append(connection)
        return connection

    async def broker(self, name: str = "broker-a", *topics: str) -> Connection:
        """Return the connection of a broker that has registered."""
        connection = await self.connect()
        fields = broker_fields(name, f"{name}:10911")
        body = registration(*topics or ("T", "U"))
        answer = await connection.request(Command(RequestCode.REGISTER_BROKER, ext_fields=fields, body=body))
        assert answer.code == 0
        return connection

    async def topics(self) -> list[str]:
        connection = self._connections[-1]
        answer = await connection.request(Command(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER))
        return decode_body(TopicNames, answer.body).topics

    async def close(self) -> None:
        await asyncio.gather(*(connection.close() for connection in self._connections))
        await self.name_server.stop()
