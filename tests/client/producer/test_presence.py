"""Whom a producer is known to that has not sent to them."""

import asyncio
from typing import Any

import pytest
from tests.client.brokers import Broker, RoutesOnly, cluster
from tests.client.transactions import GROUP, HalfBroker

from cometmq.client.producer import presence
from cometmq.client.producer.presence import Presence
from cometmq.client.routes import Routes
from cometmq.errors import NetworkError
from cometmq.net.address import free_port
from cometmq.net.client import Connections
from cometmq.net.server import Server, Session
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response


async def test_all_brokers_of_the_topics_know_it_at_once() -> None:
    brokers = [HalfBroker(name) for name in "ab"]
    async with cluster(*brokers) as name_server:
        connections = Connections()
        known = Presence(connections, "client", GROUP)
        known.add_topics(["Orders"], Routes(connections, [name_server]))
        for broker in brokers:
            await broker.known.wait()
        await known.close()
        await connections.close()


async def test_brokers_that_cannot_be_found_are_looked_for_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(presence, "ROUTE_RETRY_S", 0.02)

    broker, looked = HalfBroker(), asyncio.Event()
    port = free_port()
    connections = Connections()
    known = Presence(connections, "client", GROUP)
    routes = Routes(connections, [f"127.0.0.1:{port}"])
    look, looks = routes.get, []

    async def get(topic: str) -> Any:
        looks.append(topic)
        if len(looks) > 2:
            looked.set()
        return await look(topic)

    monkeypatch.setattr(routes, "get", get)
    known.add_topics(["Orders"], routes)
    await looked.wait()
    server = Server(broker)
    name_server = Server(RoutesOnly({"a": f"127.0.0.1:{await server.start('127.0.0.1', 0)}"}))
    await name_server.start("127.0.0.1", port)
    await broker.known.wait()
    await known.close()
    await connections.close()
    for one in (name_server, server):
        await one.stop()
    assert caplog.text.count("no heartbeats to the brokers of a topic yet") == 1


async def test_who_follows_nothing_and_meets_nobody_does_nothing() -> None:
    connections = Connections()
    known = Presence(connections, "client", GROUP)
    known.add_topics([], Routes(connections, ["127.0.0.1:1"]))
    assert known._task is None
    await known.close()


class Counting(Broker):
    """A broker that counts heartbeats, and answers them with a code."""

    def __init__(self, code: int = ResponseCode.SUCCESS) -> None:
        super().__init__("a")
        self.beats: list[Session] = []
        self.has_beaten = asyncio.Semaphore(0)
        self._code = code

    def handle(self, session: Session, commands: list[Command]) -> None:
        for command in commands:
            if command.code == RequestCode.HEART_BEAT:
                self.beats.append(session)
                self.has_beaten.release()
            session.send(response(command, self._code))


async def test_a_broker_is_told_once_on_each_connection_who_can_take_replies() -> None:
    broker = Counting()
    server = Server(broker)
    address = f"127.0.0.1:{await server.start('127.0.0.1', 0)}"
    connections = Connections()
    known = Presence(connections, "client", GROUP)
    for count in (1, 2):
        await asyncio.gather(*(known.register(address) for _ in range(5)))
        assert len(broker.beats) == len(set(broker.beats)) == count
        (await connections.connect(address)).abort("a test")
    await known.close()
    await connections.close()
    await server.stop()


async def test_a_broker_that_does_not_take_the_heartbeat_does_not_know_the_producer() -> None:
    server = Server(Counting(ResponseCode.SYSTEM_ERROR))
    address = f"127.0.0.1:{await server.start('127.0.0.1', 0)}"
    connections = Connections()
    known = Presence(connections, "client", GROUP)
    with pytest.raises(NetworkError, match=f"{address} refuses heartbeats"):
        await known.register(address)
    await server.stop()
    await connections.close()
    with pytest.raises(NetworkError, match=f"no connection to {address}"):
        await known.register(address)


async def test_heartbeats_are_sent_at_the_interval() -> None:
    broker = Counting()
    server = Server(broker)
    connections = Connections()
    known = Presence(connections, "client", GROUP, interval_ms=1)
    known.add_broker(f"127.0.0.1:{await server.start('127.0.0.1', 0)}")
    for _ in range(3):
        await broker.has_beaten.acquire()
    await known.close()
    await connections.close()
    await server.stop()


async def test_what_is_followed_later_is_added() -> None:
    broker = HalfBroker("a")
    async with cluster(broker) as name_server:
        connections = Connections()
        known, routes = Presence(connections, "client", GROUP), Routes(connections, [name_server])
        known.add_topics(["Orders"], routes)
        await broker.known.wait()
        broker.known.clear()
        known.add_topics(["Orders"], routes)
        known.add_topics(["Prices"], routes)
        await broker.known.wait()
        assert known._topics == {"Orders", "Prices"}
        await known.close()
        await connections.close()
