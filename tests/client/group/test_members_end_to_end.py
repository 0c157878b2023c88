"""Who is in a group, at a broker of whatever make."""

import pytest
from tests.shop import shop_at

from cometmq.client.group.members import members
from cometmq.client.requests.heartbeat import send_heartbeat
from cometmq.errors import NoRoute, RemoteError
from cometmq.net.client import Connections
from cometmq.wire.bodies.heartbeat import ConsumerData, Heartbeat


async def test_members_are_sorted_and_one_name_twice_is_there_twice(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here:
        others = [Connections() for _ in range(3)]
        for connections, name in zip(others, ("b", "a", "b"), strict=True):
            await send_heartbeat(
                connections, {here.live.broker}, Heartbeat(name, consumers=[ConsumerData(topic)])
            )
        assert await members(here.connections, here.routes, topic, topic) == ["a", "b", "b"]
        for connections in others:
            await connections.close()


async def test_a_group_or_topic_that_no_broker_knows_has_no_members(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here:
        with pytest.raises(RemoteError):
            await members(here.connections, here.routes, topic, "strangers")
        with pytest.raises(NoRoute):
            await members(here.connections, here.routes, "Nothing", topic)
