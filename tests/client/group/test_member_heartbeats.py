"""The heartbeats of a member: what they say, and when they are sent again."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import pytest
from tests.client.members import (
    GROUP,
    TOPIC,
    Answer,
    FixedRoutes,
    ScriptedConnections,
    refused,
    settings_of,
    settled,
)

from cometmq.client.group import member_heartbeats
from cometmq.client.group.member_heartbeats import MemberHeartbeats
from cometmq.cluster.route import Route
from cometmq.errors import CometMQError, NetworkError, NoRoute
from cometmq.wire.bodies.body import decode
from cometmq.wire.bodies.heartbeat import Heartbeat, tag_subscription
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command, response

SUBSCRIPTION = tag_subscription(TOPIC, "paid", 7)


class RoutesSoon(FixedRoutes):
    """Routes whose name server appears after some requests."""

    def __init__(self, failures: int, topics: list[str]) -> None:
        super().__init__({"a": 1, "b": 1}, topics)
        self.failures = failures

    async def get(self, topic: str) -> Route:
        if self.failures:
            self.failures -= 1
            raise NetworkError("no name server answers")
        return await super().get(topic)

    async def may_appear(self, error: CometMQError) -> bool:
        return isinstance(error, NetworkError)

    def brokers(self) -> set[str]:
        return {f"address-{name}" for name in self.counts}


class Bench(NamedTuple):
    """Heartbeats, what they are sent by, and how often the member became registered."""

    heartbeats: MemberHeartbeats
    connections: ScriptedConnections
    registered: list[None]

    def sent(self) -> list[str]:
        return [address for address, _ in self.connections.sent(RequestCode.HEART_BEAT)]


def bench(
    answer: Callable[[str, Command], Answer] | None = None,
    failures: int = 0,
    topics: tuple[str, ...] = (TOPIC,),
    start_timeout_ms: int | None = None,
) -> Bench:
    connections, registered = ScriptedConnections(answer), list[None]()
    routes = RoutesSoon(failures, list(topics))
    heartbeats = MemberHeartbeats(
        connections.as_connections(),
        routes.as_routes(),
        settings_of("me")._replace(start_timeout_ms=start_timeout_ms),
        lambda: [SUBSCRIPTION],
        lambda: registered.append(None),
    )
    return Bench(heartbeats, connections, registered)


async def test_a_heartbeat_goes_to_all_brokers_and_names_the_subscriptions() -> None:
    here = bench()
    await here.heartbeats.send()
    assert sorted(here.sent()) == ["address-a", "address-b"]
    heartbeat = decode(Heartbeat, here.connections.requests[0][1].body)
    (consumer,) = heartbeat.consumers
    assert (heartbeat.client_id, consumer.group, consumer.subscriptions) == ("me", GROUP, [SUBSCRIPTION])


async def test_a_start_waits_for_a_name_server_and_says_so_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cometmq.client.waiting.RETRY_INTERVAL_S", 0.0)
    await bench(failures=5).heartbeats.find_routes([TOPIC])
    (logged,) = caplog.messages
    assert logged == "consumer me of group readers waits for a name server: no name server answers"
    with pytest.raises(NetworkError):
        await bench(failures=5, start_timeout_ms=0).heartbeats.find_routes([TOPIC])


async def test_a_start_does_not_wait_for_a_topic() -> None:
    here = bench(topics=())
    with pytest.raises(NoRoute):
        await here.heartbeats._routes.get(TOPIC)
    await here.heartbeats.find_routes([TOPIC])


async def test_a_member_that_a_broker_did_not_accept_is_registered_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(member_heartbeats, "HEARTBEAT_RETRY_S", 0.0)
    refusals = ["address-a", "address-b"]

    def answer(address: str, command: Command) -> Answer:
        if address in refusals:
            refusals.remove(address)
            return refused(command)
        return response(command)

    here = bench(answer)
    await here.heartbeats.send()
    running = asyncio.create_task(here.heartbeats.run())
    await settled(lambda: bool(here.registered))
    assert len(here.sent()) == 4
    here.heartbeats.send_soon()
    await settled(lambda: len(here.sent()) == 6)
    assert len(here.registered) == 1
    running.cancel()


async def test_a_member_leaves_all_brokers() -> None:
    here = bench()
    await here.heartbeats.unregister()
    left = here.connections.sent(RequestCode.UNREGISTER_CLIENT)
    assert sorted(address for address, _ in left) == ["address-a", "address-b"]
    assert left[0][1].ext_fields == {"clientID": "me", "consumerGroup": GROUP}
