"""The members of a group: brokers are tried in turn until one returns them."""

import pytest
from tests.client.members import GROUP, TOPIC, FixedRoutes, ScriptedConnections, refused

from cometmq.client.group.members import members
from cometmq.errors import NetworkError, NoRoute, RemoteError
from cometmq.wire.bodies.body import encode
from cometmq.wire.bodies.group import ConsumerIds
from cometmq.wire.frame import Command, response


async def members_at(connections: ScriptedConnections, *brokers: str) -> list[str]:
    routes = FixedRoutes(dict.fromkeys(brokers, 1))
    return await members(connections.as_connections(), routes.as_routes(), TOPIC, GROUP)


async def test_the_first_broker_that_responds_returns_them_sorted() -> None:
    def answer(address: str, command: Command) -> Command | NetworkError:
        if address == "address-a":
            return NetworkError("no connection")
        if address == "address-b":
            return refused(command)
        return response(command, body=encode(ConsumerIds(["two", "one", "two"])))

    connections = ScriptedConnections(answer)
    assert await members_at(connections, "d", "c", "b", "a") == ["one", "two", "two"]
    assert [address for address, _ in connections.requests] == ["address-a", "address-b", "address-c"]
    assert connections.requests[0][1].ext_fields == {"consumerGroup": GROUP}


async def test_if_none_returns_them_the_last_failure_is_raised() -> None:
    with pytest.raises(RemoteError, match="code 1: no"):
        await members_at(ScriptedConnections(lambda _, command: refused(command)), "a")
    with pytest.raises(NetworkError, match="away"):
        await members_at(ScriptedConnections(lambda *_: NetworkError("away")), "a", "b")


async def test_a_topic_without_brokers_has_no_members_to_ask_for() -> None:
    with pytest.raises(NoRoute, match=f"no broker of topic '{TOPIC}'"):
        await members_at(ScriptedConnections())
