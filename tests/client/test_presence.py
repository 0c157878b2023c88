"""Brokers know of a producer while it is there."""

import asyncio
from pathlib import Path

from tests.live import Live, serving

from cometmq.client import Producer
from cometmq.message import Message
from cometmq.net.client import Connections
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import ProducerGroupHeader, fields

PATIENCE = 1_000


async def is_known(connections: Connections, live: Live, group: str) -> bool:
    header = ProducerGroupHeader(producer_group=group)
    command = Command(RequestCode.GET_PRODUCER_CONNECTION_LIST, ext_fields=fields(header))
    return (await connections.request(live.broker, command)).code == ResponseCode.SUCCESS


def test_a_broker_knows_a_producer_from_its_first_message_until_it_leaves(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as live:
            connections = Connections()
            async with Producer(live.name_server, "shop") as producer:
                assert not await is_known(connections, live, "shop")
                await producer.send(Message("Orders", b"x"))
                for _ in range(PATIENCE):
                    if await is_known(connections, live, "shop"):
                        break
                    await asyncio.sleep(0.01)
                else:
                    raise AssertionError("no heartbeat came")
            assert not await is_known(connections, live, "shop")
            await connections.close()

    asyncio.run(main())
