"""The heartbeats of a member: what they say, and when they are sent again."""

import asyncio
from collections.abc import Callable
from pathlib import Path
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
from tests.shop import shop

from cometmq.client.group import member_heartbeats
from cometmq.client.group.member_heartbeats import FilterChecks, MemberHeartbeats
from cometmq.cluster.route import Route
from cometmq.errors import CometMQError, NetworkError, NoRoute, RemoteError
from cometmq.wire.bodies.body import decode
from cometmq.wire.bodies.heartbeat import ClientConfigCheck, Heartbeat, SubscriptionData, tag_subscription
from cometmq.wire.codes import RequestCode, ResponseCode
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
    heartbeat_interval_ms: int = 3_600_000,
) -> Bench:
    connections, registered = ScriptedConnections(answer), list[None]()
    routes = RoutesSoon(failures, list(topics))
    heartbeats = MemberHeartbeats(
        connections.as_connections(),
        routes.as_routes(),
        settings_of("me")._replace(
            start_timeout_ms=start_timeout_ms, heartbeat_interval_ms=heartbeat_interval_ms
        ),
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


async def test_heartbeats_are_sent_at_the_interval() -> None:
    here = bench(heartbeat_interval_ms=0)
    running = asyncio.create_task(here.heartbeats.run())
    await settled(lambda: len(here.sent()) >= 3 * len("ab"))
    running.cancel()


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


SQL = SubscriptionData(TOPIC, "size >", "SQL92", 7)


def checks_of(connections: ScriptedConnections, **brokers: int) -> FilterChecks:
    routes = FixedRoutes(brokers).as_routes()
    return FilterChecks(connections.as_connections(), routes, settings_of("one"))


async def test_each_broker_of_a_topic_is_asked_once_about_a_condition_and_never_about_tags() -> None:
    connections = ScriptedConnections()
    checks = checks_of(connections, a=2, b=1)
    for _ in range(2):
        await checks.check([SQL, tag_subscription("Others", "paid", 7)])
    assert sorted(address for address, _ in connections.requests) == ["address-a", "address-b"]
    (_, command), _ = connections.sent(RequestCode.CHECK_CLIENT_CONFIG)
    asked = decode(ClientConfigCheck, command.body)
    assert (asked.client_id, asked.group, asked.subscription.expression) == ("one", GROUP, "size >")


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (ResponseCode.SUBSCRIPTION_PARSE_FAILED, "correct the condition"),
        (ResponseCode.SYSTEM_ERROR, "set enablePropertyFilter=true"),
    ],
)
async def test_a_refusal_has_the_brokers_text_and_the_remedy(code: ResponseCode, remedy: str) -> None:
    connections = ScriptedConnections(lambda _, command: response(command, code, "as\n  told"))
    with pytest.raises(RemoteError) as refused:
        await checks_of(connections, a=1).check([SQL])
    assert str(refused.value).startswith(
        f"code {code}: as told [sql 'size >' of topic 'Orders', broker at address-a: {remedy}"
    )


def unknown(_: str, command: Command) -> Answer:
    return response(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "46?")


def away(_: str, __: Command) -> Answer:
    return NetworkError("away")


@pytest.mark.parametrize("answer", [unknown, away])
async def test_a_broker_that_cannot_say_anything_is_passed_over(
    answer: Callable[[str, Command], Answer],
) -> None:
    await checks_of(ScriptedConnections(answer), a=1).check([SQL])


async def test_a_topic_that_does_not_exist_yet_is_passed_over() -> None:
    connections = ScriptedConnections()
    await checks_of(connections, a=1).check([SubscriptionData("Others", "size >", "SQL92", 7)])
    assert connections.requests == []


async def test_a_broker_that_was_away_is_asked_again() -> None:
    connections = ScriptedConnections(away)
    checks = checks_of(connections, a=1)
    await checks.check([SQL])
    connections.answer = lambda _, command: response(command, ResponseCode.SYSTEM_ERROR, "disabled")
    assert [error.code for error in await checks.refusals([SQL])] == [ResponseCode.SYSTEM_ERROR]


async def test_no_consumer_starts_with_a_condition_at_a_broker_that_evaluates_none(tmp_path: Path) -> None:
    async with shop(tmp_path) as here:
        consumer = here.consumer()
        consumer.on("Orders", sql="size > 3")(print)
        with pytest.raises(RemoteError, match=r"code 1: .*set enablePropertyFilter=true"):
            await consumer.start()
