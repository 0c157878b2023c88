"""Brokers that answer as a test tells them to, behind a name server that knows them."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from cometmq.net.server import Server, Session
from cometmq.wire.bodies.body import encode
from cometmq.wire.bodies.route import BrokerData, QueueData, TopicRoute
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import RecallHeader, SendHeaderV2, parse
from cometmq.wire.recall_handle import parse as parse_handle


class Broker:
    """A broker that answers sends with codes of the test's choice; None leaves them unanswered.

    It takes back whatever a handle names.
    """

    offset_id = "0" * 32
    queue_offset = 0

    def __init__(self, name: str, *codes: int | None) -> None:
        self.name = name
        self.codes = list(codes)
        self.sent: list[SendHeaderV2] = []
        self.recalled: list[RecallHeader] = []
        self.silent = asyncio.Event()

    def handle(self, session: Session, commands: list[Command]) -> None:
        for command in commands:
            if command.code in (RequestCode.HEART_BEAT, RequestCode.UNREGISTER_CLIENT):
                session.send(response(command))
                continue
            if command.code == RequestCode.RECALL_MESSAGE:
                asked = parse(RecallHeader, command.ext_fields)
                self.recalled.append(asked)
                found = {"msgId": parse_handle(asked.recall_handle).unique_id}
                session.send(response(command, ext_fields=found))
                continue
            header = parse(SendHeaderV2, command.ext_fields)
            self.sent.append(header)
            code = self.codes.pop(0) if self.codes else ResponseCode.SUCCESS
            fields = {
                "msgId": self.offset_id,
                "queueId": str(header.queue_id),
                "queueOffset": str(self.queue_offset),
            }
            if code is None:
                self.silent.set()
            else:
                session.send(response(command, code, "as told", fields))

    def closed(self, session: Session) -> None:
        pass


class RoutesOnly:
    """A name server that knows one topic on some brokers: masters, unless ids come with the addresses."""

    def __init__(self, addresses: Mapping[str, str | dict[int, str]]) -> None:
        self._route = TopicRoute(
            brokers=[
                BrokerData(
                    addrs={0: known} if isinstance(known, str) else known, broker_name=name, cluster="c"
                )
                for name, known in addresses.items()
            ],
            queues=[
                QueueData(broker_name=name, perm=6, read_queue_count=2, write_queue_count=2)
                for name in addresses
            ],
        )

    def handle(self, session: Session, commands: list[Command]) -> None:
        for command in commands:
            assert command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC
            session.send(response(command, body=encode(self._route)))

    def closed(self, session: Session) -> None:
        pass


@asynccontextmanager
async def cluster(*brokers: Broker, **unreachable: str) -> AsyncIterator[str]:
    """Brokers behind a name server; gives its address."""
    servers = [Server(broker) for broker in brokers]
    addresses = dict(unreachable)
    for broker, server in zip(brokers, servers, strict=True):
        addresses[broker.name] = f"127.0.0.1:{await server.start('127.0.0.1', 0)}"
    name_server = Server(RoutesOnly(addresses))
    port = await name_server.start("127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        for server in (name_server, *servers):
            await server.stop()
