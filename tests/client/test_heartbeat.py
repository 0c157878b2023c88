import asyncio
from pathlib import Path

import pytest
from tests.shop import shop

from cometmq.client.heartbeat import beat, say_goodbye
from cometmq.client.members import members
from cometmq.errors import RemoteError
from cometmq.wire.bodies.heartbeat import ConsumerData, Heartbeat, tag_subscription

NOBODY = "127.0.0.1:1"


def heartbeat(client_id: str = "me") -> Heartbeat:
    return Heartbeat(client_id, consumers=[ConsumerData("readers", [tag_subscription("Orders", "*", 0)])])


def test_a_heartbeat_makes_a_member_and_a_goodbye_ends_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with shop(tmp_path) as here:
            brokers = {here.live.broker}
            assert await beat(here.connections, brokers, heartbeat()) == brokers
            assert await members(here.connections, here.routes, "Orders", "readers") == ["me"]
            await say_goodbye(here.connections, brokers, "me", consumer_group="readers")
            with pytest.raises(RemoteError, match="no consumer"):
                await members(here.connections, here.routes, "Orders", "readers")

    asyncio.run(main())


def test_a_broker_that_is_away_keeps_no_other_from_being_told(tmp_path: Path) -> None:
    async def main() -> None:
        async with shop(tmp_path) as here:
            told = await beat(here.connections, {NOBODY, here.live.broker}, heartbeat())
            assert told == {here.live.broker}

    asyncio.run(main())
