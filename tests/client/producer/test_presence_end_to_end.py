"""A producer is known while it is there, at a broker of whatever make."""

import asyncio

from tests.shop import Shop, shop_at

from cometmq.client import Producer
from cometmq.message import Message
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import ProducerGroupHeader, fields

PATIENCE = 10_000


async def is_known(here: Shop, group: str) -> bool:
    header = ProducerGroupHeader(producer_group=group)
    command = Command(RequestCode.GET_PRODUCER_CONNECTION_LIST, ext_fields=fields(header))
    return (await here.connections.request(here.live.broker, command)).code == ResponseCode.SUCCESS


async def test_a_broker_knows_a_producer_from_its_first_message_until_it_leaves(
    name_server: str, topic: str
) -> None:
    async with shop_at(name_server, topic) as here:
        async with Producer(name_server, topic) as producer:
            assert not await is_known(here, topic)
            await producer.send(Message(topic, b"x"))
            for _ in range(PATIENCE):
                if await is_known(here, topic):
                    break
                await asyncio.sleep(0.01)
            else:
                raise AssertionError("no heartbeat came")
        assert not await is_known(here, topic)
