"""Heartbeats and unregistration: sent to all brokers, whichever of them fails."""

import pytest
from tests.client.members import GROUP, ScriptedConnections, refused

from cometmq.client.requests.heartbeat import send_heartbeat, unregister
from cometmq.errors import NetworkError, SettingsError
from cometmq.wire.bodies.body import decode
from cometmq.wire.bodies.heartbeat import ConsumerData, Heartbeat, ProducerData
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command, response

HEARTBEAT = Heartbeat("me", producers=[ProducerData("shop")], consumers=[ConsumerData(GROUP)])


async def test_a_heartbeat_returns_the_brokers_that_accept_it(caplog: pytest.LogCaptureFixture) -> None:
    def answer(address: str, command: Command) -> Command | NetworkError | SettingsError:
        match address:
            case "refuses":
                return refused(command, "too many clients\n2031-01-01 ERROR \x1b[2J")
            case "away":
                return NetworkError("no connection to away")
            case "nonsense":
                return SettingsError("address 'nonsense'")
        return response(command)

    connections = ScriptedConnections(answer)
    addresses = ["refuses", "a", "away", "nonsense", "b"]
    accepted = await send_heartbeat(connections.as_connections(), addresses, HEARTBEAT)
    assert accepted == {"a", "b"}
    assert [address for address, _ in connections.requests] == addresses
    assert all(decode(Heartbeat, command.body) == HEARTBEAT for _, command in connections.requests)
    assert r"refuses refuses a heartbeat: code 1: too many clients\n2031-01-01 ERROR \x1b[2J" in caplog.text
    assert caplog.text.count("was not sent") == 2


async def test_an_unregistration_names_the_client_and_its_groups() -> None:
    connections = ScriptedConnections()
    await unregister(connections.as_connections(), ["a"], "me", consumer_group=GROUP)
    await unregister(connections.as_connections(), ["b"], "me", producer_group="shop")
    assert [
        (address, command.ext_fields) for address, command in connections.sent(RequestCode.UNREGISTER_CLIENT)
    ] == [
        ("a", {"clientID": "me", "consumerGroup": GROUP}),
        ("b", {"clientID": "me", "producerGroup": "shop"}),
    ]


async def test_each_broker_gets_a_request_of_its_own() -> None:
    connections = ScriptedConnections()
    await send_heartbeat(connections.as_connections(), ["a", "b"], HEARTBEAT)
    (_, first), (_, second) = connections.requests
    assert first is not second, "a request gets an opaque number when it is sent"
