"""How a client comes to a group and leaves it, at a broker of whatever make."""

import pytest
from tests.shop import shop_at

from cometmq.client.group.rebalancing import members
from cometmq.client.requests.heartbeat import send_heartbeat, unregister
from cometmq.errors import RemoteError
from cometmq.wire.bodies.heartbeat import ConsumerData, Heartbeat, tag_subscription

NOBODY = "127.0.0.1:1"


def heartbeat(topic: str) -> Heartbeat:
    return Heartbeat("me", consumers=[ConsumerData(topic, [tag_subscription(topic, "*", 0)])])


async def test_a_heartbeat_makes_a_member_and_a_goodbye_ends_it(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here:
        brokers = {here.live.broker}
        assert await send_heartbeat(here.connections, brokers, heartbeat(topic)) == brokers
        assert await members(here.connections, here.routes, topic, topic) == ["me"]
        await unregister(here.connections, brokers, "me", consumer_group=topic)
        with pytest.raises(RemoteError, match="no consumer"):
            await members(here.connections, here.routes, topic, topic)


async def test_a_broker_that_is_away_keeps_no_other_from_being_told(name_server: str, topic: str) -> None:
    async with shop_at(name_server, topic) as here:
        told = await send_heartbeat(here.connections, {NOBODY, here.live.broker}, heartbeat(topic))
        assert told == {here.live.broker}
