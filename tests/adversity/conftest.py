"""Attacks on a live broker and name server, beside which a client that behaves sends all the time.

``attacked`` runs them. When the attack is over the bystander must still be served, on the connections that it
opened at the beginning, and every message that was acknowledged to it must be read back as it was sent.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.broker.conftest import Client, pull_header
from tests.live import Live, serving

from cometmq.format import record
from cometmq.wire.bodies import TopicRoute, decode
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import GetRouteHeader

CALM = "Calm"
QUEUES = 4
AFTER = 20
"""So many sends must be acknowledged when the attack is over."""

PATIENCE_S = 60
LOGGED_MAX = 4_000
"""Longest text that the log takes for one thing that went wrong."""


class Scene(NamedTuple):
    """What is attacked: the addresses, and one more client to attack with."""

    live: Live
    client: Client
    bystander: "Bystander"

    @property
    def addresses(self) -> tuple[str, str]:
        """The broker's and the name server's address."""
        return self.live.broker, self.live.name_server


class Bystander:
    """A client that behaves.

    Attributes:
        acknowledged: by queue: the body of each acknowledged message by its queue offset.
        refused: how often a send was answered with which other code.
        begun: set when the first send is answered.
    """

    def __init__(self, broker: Client, name_server: Client) -> None:
        self.acknowledged: dict[int, dict[int, bytes]] = {queue_id: {} for queue_id in range(QUEUES)}
        self.refused: Counter[int] = Counter()
        self.begun = asyncio.Event()
        self._broker = broker
        self._name_server = name_server
        self._sent = 0

    async def send_all_the_time(self) -> None:
        """Send one message after the other, and ask for a route now and then."""
        while True:
            await self.send()
            self.begun.set()
            if self._sent % 16 == 0:
                answer = await self._name_server.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteHeader(CALM))
                assert len(decode(TopicRoute, answer.body).queues) == 1

    async def send(self) -> Command:
        """Send one message."""
        queue_id = self._sent % QUEUES
        body = b"calm %d" % self._sent * 5
        self._sent += 1
        answer = await self._broker.send(CALM, body, queue_id)
        if answer.code == ResponseCode.SUCCESS:
            self.acknowledged[queue_id][int(answer.ext_fields["queueOffset"])] = body
        else:
            self.refused[answer.code] += 1
        return answer

    async def check(self, broker: Client) -> None:
        """Read all back."""
        for queue_id, acknowledged in self.acknowledged.items():
            stored = await read(broker, CALM, queue_id)
            assert {offset: stored.get(offset) for offset in acknowledged} == acknowledged


async def read(client: Client, topic: str, queue_id: int) -> dict[int, bytes]:
    """Return the bodies of a queue's messages by queue offset."""
    stored: dict[int, bytes] = {}
    offset = 0
    while True:
        answer = await client.ask(RequestCode.PULL_MESSAGE, pull_header(topic, offset, queue_id=queue_id))
        if answer.code != ResponseCode.SUCCESS:
            return stored
        for message in record.decode_many(answer.body):
            stored[message.queue_offset] = message.body
        offset = int(answer.ext_fields["nextBeginOffset"])


@asynccontextmanager
async def attacked(root: Path, **options: Any) -> AsyncIterator[Scene]:
    """Run a name server and a broker under attack, and judge how it went."""
    async with serving(root, **options) as live:
        clients = [await Client.open(address) for address in (live.broker, live.name_server, live.broker)]
        bystander = Bystander(clients[0], clients[1])
        await clients[0].send(CALM, b"the topic is made by this")
        await until_routed(clients[1], CALM)
        sending = asyncio.create_task(bystander.send_all_the_time())
        try:
            await asyncio.wait_for(bystander.begun.wait(), PATIENCE_S)
            yield Scene(live, clients[2], bystander)
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        assert sending.cancelled(), sending.exception()
        for _ in range(AFTER):
            assert (await bystander.send()).code == ResponseCode.SUCCESS
        await bystander.check(clients[0])
        for client in clients:
            await client.connection.close()


async def until_routed(name_server: Client, topic: str) -> None:
    """Wait until a name server knows a topic."""
    async with asyncio.timeout(PATIENCE_S):
        while (
            await name_server.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteHeader(topic))
        ).code != ResponseCode.SUCCESS:
            continue


class Raw:
    """A connection that sends what no client would."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    @asynccontextmanager
    async def open(cls, address: str) -> "AsyncIterator[Raw]":
        host, _, port = address.rpartition(":")
        raw = cls(*await asyncio.open_connection(host, int(port)))
        try:
            yield raw
        finally:
            raw._writer.close()
            await asyncio.gather(raw._writer.wait_closed(), return_exceptions=True)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def read(self, size: int) -> bytes:
        """Read exactly so much."""
        return await asyncio.wait_for(self._reader.readexactly(size), PATIENCE_S)

    async def rest(self) -> bytes:
        """Read until the other side closes; it may also cut the connection."""
        try:
            return await asyncio.wait_for(self._reader.read(), PATIENCE_S)
        except ConnectionError:
            return b""

    def end(self) -> None:
        """Send no more."""
        self._writer.write_eof()


def paths(root: Path) -> Iterator[str]:
    """Return every path below ``root``."""
    return (path.relative_to(root).as_posix() for path in sorted(root.rglob("*")))
