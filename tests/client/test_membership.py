"""What a member tells brokers; what it does is in ``test_consumer``."""

import asyncio
from pathlib import Path

from tests.shop import shop

from cometmq.net.client import Connections
from cometmq.wire.bodies.body import decode
from cometmq.wire.bodies.group import ConsumerConnections
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import ConsumerGroupHeader, fields


async def seen(connections: Connections, broker: str) -> ConsumerConnections:
    """Ask the broker what it knows of the group."""
    header = ConsumerGroupHeader("readers")
    command = Command(RequestCode.GET_CONSUMER_CONNECTION_LIST, ext_fields=fields(header))
    return decode(ConsumerConnections, (await connections.request(broker, command)).body)


def test_the_broker_knows_who_is_there_and_what_is_wanted(tmp_path: Path) -> None:
    async def main() -> None:
        async with shop(tmp_path) as here:
            consumer = here.consumer()
            consumer.subscribe("Orders", print, "paid || refunded")
            async with consumer:
                group = await seen(here.connections, here.live.broker)
            assert [member.client_id for member in group.connections] == [consumer.client_id]
            assert {topic: data.expression for topic, data in group.subscriptions.items()} == {
                "Orders": "paid || refunded",
                "%RETRY%readers": "*",
            }

    asyncio.run(main())
