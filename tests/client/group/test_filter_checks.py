from collections.abc import Callable
from pathlib import Path

import pytest
from tests.client.members import GROUP, TOPIC, Answer, FixedRoutes, ScriptedConnections, settings_of
from tests.shop import shop

from cometmq.client.group.filter_checks import FilterChecks
from cometmq.errors import NetworkError, RemoteError
from cometmq.wire.bodies.body import decode
from cometmq.wire.bodies.heartbeat import ClientConfigCheck, SubscriptionData, tag_subscription
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response

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
